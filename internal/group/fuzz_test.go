package group

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
)

// FuzzMachine reads its bytes as commands, as any client might send them, and as
// time that goes by. Whatever they are, the machine does not panic, each
// request is answered once or is known to wait, and the records alone
// make the same hard state.
func FuzzMachine(f *testing.F) {
	for kind := range byte(hostileKinds) {
		f.Add([]byte{kind, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1})
	}
	f.Add(slices.Repeat([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}, 40))
	f.Fuzz(func(t *testing.T, data []byte) {
		h := &hostile{rig: newRig(t), data: data[:min(len(data), 2000)], ids: []string{"", "m", strings.Repeat("M", math.MaxInt16+1)}}
		h.now = time.Now() // with a monotonic reading
		h.cfg.MaxRecordBytes = choose(h, 1000, 1<<20)
		h.cfg.OffsetsRetentionCheck = 24 * time.Hour // so that a month is not long
		h.cfg.ConsumerDefaults.AssignmentInterval = time.Second
		h.m.cfg = h.cfg
		h.create("t", 3)
		h.create("topic", 1)
		for n := 1; len(h.data) > 0; n++ {
			h.act()
			h.known()
			if n%16 == 0 {
				h.check(fmt.Sprint("command ", n))
			}
		}
		h.check("the end")
		h.wait(25 * 24 * time.Hour) // the longest rebalance time-out there is
		h.known()
		if len(h.who) > 0 {
			t.Fatalf("%v wait for ever", h.who)
		}
		h.check("a month later")
	})
}

// hostile makes commands out of bytes.
type hostile struct {
	*rig
	data []byte
	ids  []string // of members
}

func (h *hostile) byte() byte {
	if len(h.data) == 0 {
		return 0
	}
	b := h.data[0]
	h.data = h.data[1:]
	return b
}

func (h *hostile) below(n int) int { return int(h.byte()) % n }

func choose[T any](h *hostile, of ...T) T { return of[h.below(len(of))] }

func (h *hostile) group() string {
	return choose(h, "g", "g", "g", "h", "", "\xff\x00", strings.Repeat("G", math.MaxInt16+1))
}

func (h *hostile) member() string {
	if b := h.byte(); b < 200 {
		last := h.ids[max(0, len(h.ids)-8):]
		return last[int(b)%len(last)]
	}
	return choose(h, h.ids[:3]...)
}

func (h *hostile) instance() *string {
	long := strings.Repeat("I", math.MaxInt16+1)
	return choose(h, nil, nil, nil, ptr("i"), ptr("j"), ptr(""), &long)
}

func (h *hostile) number() int32 {
	return choose(h, -1, 0, 1, 2, 3, 4, 5, 6, 7, -2, -3, math.MaxInt32, math.MinInt32, 30_000, int32(h.byte()))
}

func (h *hostile) topics() []string {
	return choose(h, nil, []string{"t"}, []string{"t", "topic"}, []string{"t", "t", "gone"}, []string{}, []string{""}, []string{"topic"})
}

// metadata of a classic consumer: sound, cut short, or of nobody knows what.
func (h *hostile) metadata() []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version = choose(h, int16(1), 0, 3, 99, -1, math.MaxInt16)
	m.Topics = h.topics()
	if h.below(4) == 0 {
		o := kmsg.NewConsumerMemberMetadataOwnedPartition()
		o.Topic, o.Partitions = "t", []int32{h.number(), h.number()}
		m.OwnedPartitions = append(m.OwnedPartitions, o)
	}
	return h.cut(m.AppendTo(nil))
}

func (h *hostile) assignment() []byte {
	a := kmsg.NewConsumerMemberAssignment()
	a.Version = choose(h, int16(1), 0, 3, 99, -1)
	at := kmsg.NewConsumerMemberAssignmentTopic()
	at.Topic, at.Partitions = choose(h, "t", "topic", "gone"), []int32{h.number(), h.number()}
	a.Topics = append(a.Topics, at)
	return h.cut(a.AppendTo(nil))
}

func (h *hostile) cut(b []byte) []byte {
	switch h.below(8) {
	case 0:
		return b[:h.below(len(b)+1)]
	case 1:
		return slices.Repeat(b, 30)
	case 2:
		return nil
	}
	return b
}

func (h *hostile) owned() []kmsg.ConsumerGroupHeartbeatRequestTopic {
	switch h.below(4) {
	case 0:
		return nil
	case 1:
		return []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	t := kmsg.NewConsumerGroupHeartbeatRequestTopic()
	t.TopicID, t.Partitions = h.topicID(choose(h, "t", "topic", "gone")), []int32{h.number(), h.number()}
	return []kmsg.ConsumerGroupHeartbeatRequestTopic{t, t}[:1+h.below(2)]
}

// do is rig.do, and sees that who only asks writes nothing.
func (h *hostile) do(who string, cmd coord.Command) {
	h.t.Helper()
	n := len(h.log)
	h.rig.do(who, cmd)
	if _, reads := cmd.(coord.Query); reads && len(h.log) > n {
		h.t.Fatalf("%T wrote %d records", cmd, len(h.log)-n)
	}
}

const hostileKinds = 16

func (h *hostile) act() {
	switch h.below(hostileKinds) {
	case 0, 1:
		h.join()
	case 2:
		h.sync()
	case 3:
		r := kmsg.NewPtrHeartbeatRequest()
		r.Group, r.MemberID, r.InstanceID, r.Generation = h.group(), h.member(), h.instance(), h.number()
		h.do("heartbeat", &Heartbeat{Req: r})
	case 4:
		h.leave()
	case 5, 6:
		h.beat()
	case 7:
		h.commits()
	case 8:
		c := &FetchOffsets{Group: h.group(), Member: h.instance(), MemberEpoch: h.number(), RequireStable: h.below(2) == 0}
		for range h.below(3) {
			c.Topics = append(c.Topics, FetchTopic{choose(h, "t", "gone"), h.topicID("t"), []int32{h.number(), h.number()}})
		}
		h.do("fetch", c)
	case 9:
		c := &DeleteOffsets{Group: h.group()}
		for range h.below(4) {
			c.Partitions = append(c.Partitions, kafka.TopicPartition{Topic: choose(h, "t", "topic"), Partition: h.number()})
		}
		h.do("delete offsets", c)
	case 10:
		h.do("delete", &DeleteGroup{Group: h.group()})
	case 11:
		h.ask()
	case 12:
		h.change()
	case 13:
		if h.below(4) == 0 {
			h.reload(metatest.Words{})
		}
	case 14:
		h.end(coord.Producer{ID: int64(h.below(3)), Epoch: 0}, h.below(2) == 0)
	default:
		h.wait(time.Duration(h.byte()) * choose(h, time.Millisecond, time.Second, time.Minute))
	}
}

func (h *hostile) join() {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version = int16(h.below(10))
	r.Group, r.MemberID, r.InstanceID = h.group(), h.member(), h.instance()
	r.ProtocolType = choose(h, "consumer", "consumer", "consumer", "connect", "")
	r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = choose(h, 30_000, 30_000, 30_000, h.number()), h.number()
	for range h.below(4) {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = choose(h, "range", "sticky", "range", ""), h.metadata()
		r.Protocols = append(r.Protocols, p)
	}
	c := &JoinGroup{Req: r, Client: Client{"c", "/h"}, NewMemberID: h.newID()}
	h.ids = append(h.ids, c.NewMemberID)
	h.do("join", c)
}

func (h *hostile) sync() {
	r := kmsg.NewPtrSyncGroupRequest()
	r.Version = int16(h.below(6))
	r.Group, r.MemberID, r.InstanceID, r.Generation = h.group(), h.member(), h.instance(), h.number()
	if r.Version == 5 {
		r.ProtocolType, r.Protocol = choose(h, ptr("consumer"), ptr("consumer"), ptr(""), nil), choose(h, ptr("range"), ptr("range"), ptr("sticky"), nil)
	}
	for range h.below(4) {
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = h.member(), h.assignment()
		r.GroupAssignment = append(r.GroupAssignment, a)
	}
	h.do("sync", &SyncGroup{Req: r})
}

func (h *hostile) leave() {
	r := kmsg.NewPtrLeaveGroupRequest()
	r.Version, r.Group, r.MemberID = int16(h.below(6)), h.group(), h.member()
	for range h.below(4) {
		m := kmsg.NewLeaveGroupRequestMember()
		m.MemberID, m.InstanceID = h.member(), h.instance()
		r.Members = append(r.Members, m)
	}
	h.do("leave", &LeaveGroup{Req: r})
}

func (h *hostile) beat() {
	r := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	r.Version = int16(h.below(2))
	r.Group, r.MemberID, r.InstanceID, r.RackID = h.group(), h.member(), h.instance(), h.instance()
	r.MemberEpoch, r.RebalanceTimeoutMillis = h.number(), h.number()
	r.SubscribedTopicNames = h.topics()
	long := strings.Repeat("x", math.MaxInt16+1)
	r.SubscribedTopicRegex = choose(h, nil, nil, ptr("t.*"), ptr("("), ptr(""), ptr("topic"), &long)
	r.ServerAssignor = choose(h, nil, nil, ptr("range"), ptr("uniform"), ptr("none"))
	r.Topics = h.owned()
	c := &ConsumerHeartbeat{Req: r, Client: Client{"c", "/h"}, NewMemberID: h.newID()}
	h.ids = append(h.ids, c.NewMemberID)
	h.do("beat", c)
}

func (h *hostile) commits() {
	c := &CommitOffsets{Group: h.group(), Member: h.member(), Instance: h.instance(), Generation: h.number(), Version: int16(2 + h.below(9)), RetentionMs: -1}
	if c.Version < 5 {
		c.RetentionMs = choose(h, int64(-1), 0, math.MaxInt64, math.MinInt64, 1000)
	}
	if h.below(3) == 0 {
		c.Producer = &CommitProducer{ID: int64(h.below(3))}
	}
	for range h.below(4) {
		topic := choose(h, "t", "t", "topic")
		c.Partitions = append(c.Partitions, CommitPartition{
			Topic: topic, TopicID: choose(h, h.topicID(topic), kafka.TopicID{}), Partition: int32(h.below(3)), Offset: int64(h.number()), LeaderEpoch: h.number(),
			Metadata: choose(h, "", "note", strings.Repeat("\xff", 5000)),
		})
	}
	h.do("commit", c)
}

func (h *hostile) ask() {
	switch h.below(5) {
	case 0:
		h.do("list", &ListGroups{})
	case 1:
		h.do("describe", &DescribeGroup{Group: h.group(), Version: int16(h.below(7))})
	case 2:
		h.do("describe consumers", &DescribeConsumerGroup{Group: h.group()})
	case 3:
		h.do("observe", &Observe{})
	default:
		h.tell(&NewImage{Image: h.w.Img})
	}
}

func (h *hostile) change() {
	switch name := choose(h, "t", "topic", "more"); h.below(3) {
	case 0:
		h.create(name, int32(1+h.below(3)))
	case 1:
		if h.w.DeleteTopic(name) == nil {
			h.image()
		}
	default:
		if t, ok := h.w.Img.Topic(name); ok && h.w.AddPartitions(name, int32(len(t.Partitions)+1)) == nil {
			h.image()
		}
	}
}

func (h *hostile) create(topic string, partitions int32) {
	if h.w.CreateTopic(topic, partitions) == nil {
		h.image()
	}
}

// end is the marker of a transaction.
func (h *hostile) end(p coord.Producer, commit bool) {
	h.log = append(h.log, coord.Record{})
	h.metas = append(h.metas, coord.Meta{Producer: p, Transactional: commit})
	h.m.ApplyMarker(p, commit)
}

// known: who waits is a member's join or sync, and the other way round.
func (h *hostile) known() {
	h.t.Helper()
	var known []coord.Token
	for _, id := range slices.Sorted(maps.Keys(h.m.groups)) {
		if c, ok := h.m.groups[id].members.(*classic); ok {
			for _, m := range c.sorted() {
				known = append(known, m.join, m.sync)
			}
		}
	}
	known = slices.DeleteFunc(known, func(to coord.Token) bool { return to == 0 })
	slices.Sort(known)
	if waiting := slices.Sorted(maps.Keys(h.who)); !slices.Equal(known, waiting) {
		h.t.Fatalf("%v wait, the machine knows of %v", waiting, known)
	}
}
