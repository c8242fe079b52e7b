package group

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

func init() {
	maps.Copy(verbs, map[string]func(*rig, metatest.Words) string{
		"beat":              (*rig).beat,
		"describe-consumer": (*rig).describeConsumer,
		"commit-check":      (*rig).commitCheck,
		"fetch-check":       (*rig).fetchCheck,
		"group-config":      (*rig).groupConfig,
		"mixed-join":        (*rig).mixedJoin,
		"mixed-sync":        (*rig).mixedSync,
		"groups-of":         (*rig).groupsOf,
	})
}

// dump is the hard state of a consumer group. It looks at the sums in passing.
func (c *consumer) dump() string {
	c.recount()
	var b strings.Builder
	fmt.Fprintf(&b, "  %s epoch %d hash %x target %d at %d legacy %v\n", c.state(), c.epoch, uint64(c.hash), c.made.Epoch, c.made.AtMs, c.legacy)
	for _, id := range c.ids() {
		m := c.members[id]
		fmt.Fprintf(&b, "    %s %s\n      %s epoch %d before %d %s", id, brief(m.meta), stateName(m.cur.State), m.cur.Epoch, m.cur.PreviousEpoch, show(m.cur.Assigned))
		if len(m.cur.PendingRevocation) > 0 {
			fmt.Fprintf(&b, " gives up %s", show(m.cur.PendingRevocation))
		}
		b.WriteString("\n")
	}
	for _, id := range slices.Sorted(maps.Keys(c.targets)) {
		fmt.Fprintf(&b, "    target %s %s\n", id, show(targetOf(c.targets[id]).Topics))
	}
	for _, r := range slices.Sorted(maps.Keys(c.resolved)) {
		fmt.Fprintf(&b, "    regex %s matches %v at %d\n", r, c.resolved[r].Topics, c.resolved[r].AtMs)
	}
	if version, at, ok := c.lastScan(); ok {
		fmt.Fprintf(&b, "    scanned %d at %d\n", version, at)
	}
	return b.String()
}

// recount holds the sums against a count of all members.
func (c *consumer) recount() {
	n := newConsumer(c.group, &topicIndex{})
	for _, id := range c.ids() {
		n.replace(nil, c.members[id])
	}
	for _, r := range slices.Sorted(maps.Keys(c.resolved)) {
		for _, name := range c.resolved[r].Topics {
			n.read(name, 0, 1)
		}
	}
	for what, pair := range map[string][2]any{
		"statics": {n.statics, c.statics}, "topics": {n.topics, c.topics}, "alike": {n.alike, c.alike}, "regexes": {n.regexes, c.regexes},
		"assignors": {n.assignors, c.assignors}, "owners": {n.owners, c.owners}, "settled": {n.settled, c.settled},
		"classics": {n.classics, c.classics}, "offered": {n.offered, c.offered},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			panic(fmt.Sprintf("group %s counts %s %v and has %v", c.group, what, pair[1], pair[0]))
		}
	}
	for name := range c.topics {
		if t := c.index.names[name]; t == nil {
			panic("no index for " + name)
		} else if _, ok := t.groups[c.group]; !ok {
			panic("group not in the index for " + name)
		}
	}
}

func stateName(s memberState) string {
	return map[memberState]string{memberStable: "stable", memberUnrevokedPartitions: "unrevoked", memberUnreleasedPartitions: "unreleased", memberUnknown: "unknown"}[s]
}

// show prints partitions as #1:0,1@5,2@6: topic, partition, and its epoch where it differs from the one before.
func show(list []topicPartitions) string {
	var b strings.Builder
	for i, t := range list {
		if i > 0 {
			b.WriteString(" ")
		}
		fmt.Fprintf(&b, "#%d:", t.Topic[0])
		for j, p := range t.Partitions {
			if j > 0 {
				b.WriteString(",")
			}
			fmt.Fprintf(&b, "%d", p)
			if t.Epochs != nil && (j == len(t.Epochs)-1 || t.Epochs[j+1] != t.Epochs[j]) {
				fmt.Fprintf(&b, "@%d", t.Epochs[j])
			}
		}
	}
	return "[" + b.String() + "]"
}

var shorter = strings.NewReplacer("ConsumerGroupHeartbeatResponseAssignmentTopic", "", "ConsumerGroupHeartbeatResponseAssignment", "",
	"ConsumerGroupHeartbeatResponse", "", "HeartbeatIntervalMillis", "Interval", "ConsumerGroupDescribeResponse", "", "AssignmentTopicPartition", "",
	"[{TopicID", "[{Topic", " {TopicID", " {Topic")

// beat g=g m=a i=instance epoch=0 topics=(t,u) regex=t.* assignor=range owned=(t:0,t:1) rack=r
// rebalance=60s v=1 sees=(t): ConsumerGroupHeartbeat. owned=- is an empty list;
// without rebalance, topics and owned they are left out, but for epoch 0, which
// has rebalance=60s and owned=- of itself. sees are the topics that the client may describe.
func (r *rig) beat(a metatest.Words) string {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version = int16(a.Int("v", 1))
	req.Group, req.MemberID, req.InstanceID, req.RackID = a.Str("g", "g"), a.Str("m", ""), optional(a, "i"), optional(a, "rack")
	req.MemberEpoch = int32(a.Int("epoch", 0))
	req.SubscribedTopicRegex, req.ServerAssignor = optional(a, "regex"), optional(a, "assignor")
	if a.D.HasArg("topics") {
		req.SubscribedTopicNames = words(a, "topics")
		if a.Str("topics", "") == "-" {
			req.SubscribedTopicNames = []string{}
		}
	}
	joins := req.MemberEpoch == 0
	if a.Str("rebalance", "") != "-" && (joins || a.D.HasArg("rebalance")) {
		req.RebalanceTimeoutMillis = duration(a, "rebalance", "60s")
	}
	if s := a.Str("owned", ""); a.D.HasArg("owned") && s != "null" || joins && s != "null" {
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		for _, t := range r.parts(a, "owned") {
			topic := kmsg.NewConsumerGroupHeartbeatRequestTopic()
			topic.TopicID, topic.Partitions = t.Topic, t.Partitions
			req.Topics = append(req.Topics, topic)
		}
	}
	cmd := &ConsumerHeartbeat{Req: req, Client: Client{ID: a.Str("client", "c"), Host: a.Str("host", "/h")}}
	who := req.MemberID
	if who == "" {
		who = r.newID()
		cmd.NewMemberID = who
	}
	if a.D.HasArg("sees") {
		sees := words(a, "sees")
		cmd.Visible = func(topic string) bool { return slices.Contains(sees, topic) }
	}
	return shorter.Replace(r.do(who, cmd))
}

// parts reads t:0,t:1,u:0. A topic that is not there has an id of its own.
func (r *rig) parts(a metatest.Words, key string) (out []topicPartitions) {
	for _, word := range words(a, key) {
		name, number, _ := strings.Cut(word, ":")
		if name == "-" {
			continue
		}
		n, err := strconv.Atoi(number)
		if err != nil {
			r.t.Fatal(err)
		}
		id := kafka.TopicID{255}
		if t, ok := r.w.Img.Topic(name); ok {
			id = t.ID
		} else if n, err := strconv.Atoi(strings.TrimPrefix(name, "#")); err == nil {
			id = kafka.TopicID{byte(n)}
		}
		if i := slices.IndexFunc(out, func(t topicPartitions) bool { return t.Topic == id }); i >= 0 {
			out[i].Partitions = append(out[i].Partitions, int32(n))
		} else {
			out = append(out, topicPartitions{Topic: id, Partitions: []int32{int32(n)}})
		}
	}
	return out
}

// describe-consumer g=g: ConsumerGroupDescribe, a member a line.
func (r *rig) describeConsumer(a metatest.Words) string {
	out := shorter.Replace(r.do("describe", &DescribeConsumerGroup{Group: a.Str("g", "g")}))
	return strings.ReplaceAll(out, "GroupMember{", "\n  Member{")
}

// commit-check g=g m=a i=instance epoch=3 v=9 parts=(t:0) txn: whether the group would take
// a commit.
func (r *rig) commitCheck(a metatest.Words) string {
	c := &CommitOffsets{
		Group: a.Str("g", "g"), Member: a.Str("m", ""), Instance: optional(a, "i"), Generation: int32(a.Int("epoch", -1)), Version: int16(a.Int("v", 9)),
	}
	if a.D.HasArg("txn") {
		c.Producer = &CommitProducer{ID: 1}
	}
	for _, word := range words(a, "parts") {
		name, number, _ := strings.Cut(word, ":")
		n, _ := strconv.Atoi(number)
		c.Partitions = append(c.Partitions, CommitPartition{Topic: name, Partition: int32(n), Metadata: strings.Repeat("x", int(a.Int("metadata", 0)))})
	}
	s := &step{Machine: r.m, now: r.now, out: &coord.Out{}}
	return verdict(r.m.groups[c.Group].members.checkCommit(s, c))
}

// fetch-check g=g m=a epoch=3: whether the group would let offsets be read.
func (r *rig) fetchCheck(a metatest.Words) string {
	f := &FetchOffsets{Group: a.Str("g", "g"), Member: optional(a, "m"), MemberEpoch: int32(a.Int("epoch", -1))}
	return verdict(r.m.groups[f.Group].members.checkFetch(f))
}

func verdict(err error) string {
	if err != nil {
		return err.Error() + "\n"
	}
	return "ok\n"
}

// group-config g=g consumer.session.timeout.ms=50000: settings of a group's own.
func (r *rig) groupConfig(a metatest.Words) string {
	group, own := a.Str("g", "g"), map[string]string{}
	for _, arg := range a.D.CmdArgs {
		if arg.Key != "g" {
			own[arg.Key] = strings.Join(arg.Vals, ",")
		}
	}
	c := plan.ConfigChange{Set: own}
	for name := range r.w.Img.GroupConfig(group) {
		if _, kept := own[name]; !kept {
			c.Remove = append(c.Remove, name)
		}
	}
	if t, ok := plan.ConfigureGroup(r.w.Img, group, c); ok {
		r.w.Do(t)
	}
	return r.image()
}

// mixed-join: as join, with topics, owned and rack in the consumer's own
// format, version 3; format=1 for another version, format=- for bytes that are none.
func (r *rig) mixedJoin(a metatest.Words) string {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(a.Int("v", 9))
	req.Group, req.MemberID, req.InstanceID = a.Str("g", "g"), a.Str("m", ""), optional(a, "i")
	req.ProtocolType = a.Str("type", "consumer")
	req.SessionTimeoutMillis = duration(a, "session", "10s")
	req.RebalanceTimeoutMillis = duration(a, "rebalance", "60s")
	protocols := words(a, "protocols")
	if len(protocols) == 0 {
		protocols = []string{"range"}
	}
	sub := kmsg.NewConsumerMemberMetadata()
	sub.Topics, sub.Rack = words(a, "topics"), optional(a, "rack")
	for _, word := range words(a, "owned") {
		name, number, _ := strings.Cut(word, ":")
		n, _ := strconv.Atoi(number)
		p := kmsg.NewConsumerMemberMetadataOwnedPartition()
		p.Topic, p.Partitions = name, []int32{int32(n)}
		sub.OwnedPartitions = append(sub.OwnedPartitions, p)
	}
	for _, name := range protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, []byte{1}
		if a.Str("format", "") != "-" {
			sub.Version = int16(a.Int("format", 3))
			p.Metadata = sub.AppendTo(nil)
		}
		req.Protocols = append(req.Protocols, p)
	}
	id, who := "", req.MemberID
	if who == "" {
		id = r.newID()
		who = id
	}
	return r.do(who, &JoinGroup{Req: req, Client: Client{ID: a.Str("client", "c"), Host: a.Str("host", "/h")}, NewMemberID: id})
}

// synced is a SyncGroup answer in words.
type synced struct {
	ErrorCode              int16
	ProtocolType, Protocol *string
	Version                int16
	Assigned               string
}

// mixed-sync: as sync, and the answer's assignment in words.
func (r *rig) mixedSync(a metatest.Words) string {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = 5
	req.Group, req.MemberID, req.InstanceID = a.Str("g", "g"), a.Str("m", ""), optional(a, "i")
	req.Generation = int32(a.Int("gen", 1))
	if s := a.Str("type", "consumer"); s != "-" {
		req.ProtocolType = &s
	}
	if s := a.Str("protocol", "range"); s != "-" {
		req.Protocol = &s
	}
	for _, word := range words(a, "assign") { // m1:t:0, each with userdata
		id, part, _ := strings.Cut(word, ":")
		name, number, _ := strings.Cut(part, ":")
		n, _ := strconv.Atoi(number)
		as := kmsg.NewConsumerMemberAssignment()
		as.Topics = []kmsg.ConsumerMemberAssignmentTopic{{Topic: name, Partitions: []int32{int32(n)}}}
		if a.D.HasArg("userdata") {
			as.UserData = []byte(a.Str("userdata", ""))
		}
		m := kmsg.NewSyncGroupRequestGroupAssignment()
		m.MemberID, m.MemberAssignment = id, as.AppendTo(nil)
		req.GroupAssignment = append(req.GroupAssignment, m)
	}
	r.tokens++
	r.who[r.tokens] = req.MemberID
	out := r.m.Step(r.now, r.tokens, &SyncGroup{Req: req})
	for i := range out.Replies {
		if resp, ok := out.Replies[i].Body.(*kmsg.SyncGroupResponse); ok {
			out.Replies[i].Body = inWords(resp)
		}
	}
	return r.took(req.MemberID, out)
}

func inWords(resp *kmsg.SyncGroupResponse) *synced {
	out := &synced{ErrorCode: resp.ErrorCode, ProtocolType: resp.ProtocolType, Protocol: resp.Protocol}
	if len(resp.MemberAssignment) > 0 {
		as := kmsg.NewConsumerMemberAssignment()
		if err := as.ReadFrom(resp.MemberAssignment); err != nil {
			panic(err)
		}
		out.Assigned = "version " + strconv.Itoa(int(as.Version))
		for _, t := range as.Topics {
			out.Assigned += fmt.Sprintf(" %s:%v", t.Topic, t.Partitions)
		}
	}
	return out
}

// groups-of topic=t: the groups that would hear of a change of the topic.
func (r *rig) groupsOf(a metatest.Words) string {
	t := r.m.topics.names[a.Str("topic", "")]
	if t == nil {
		return "none\n"
	}
	return fmt.Sprintln(slices.Sorted(maps.Keys(t.groups)))
}
