package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
)

func init() {
	maps.Copy(verbs, map[string]func(*rig, metatest.Words) string{
		"join":           (*rig).join,
		"sync":           (*rig).sync,
		"heartbeat":      (*rig).heartbeat,
		"leave":          (*rig).leave,
		"topics":         (*rig).topics,
		"list-groups":    (*rig).listGroups,
		"describe-group": (*rig).describeGroup,
		"delete-group":   (*rig).deleteGroup,
		"classic":        (*rig).classic,
	})
}

// dump is the hard state of a classic group. It looks at the live membership's
// counters in passing.
func (c *classic) dump() string {
	c.recount()
	v := *c.record
	members := v.Members
	v.Members = nil
	var b strings.Builder
	fmt.Fprintf(&b, "  %s\n", brief(&v))
	for i := range members {
		fmt.Fprintf(&b, "    %s\n", brief(&members[i]))
	}
	if c.phase != phaseEmpty && c.phase != phaseStable {
		return b.String()
	}
	// The membership is what the record says, but for what other protocols members have.
	live := c.body().Value
	live.CurrentStateTimestamp = v.CurrentStateTimestamp
	if got := brief(live); got != brief(c.record) {
		panic(fmt.Sprintf("group %s has %s, and is written down as %s", c.id, got, brief(c.record)))
	}
	if read := c.read(); !maps.Equal(read, c.topics) || (read == nil) != (c.topics == nil) {
		panic(fmt.Sprintf("group %s thinks that it reads %v, and reads %v", c.id, c.topics, read))
	}
	return b.String()
}

func (c *classic) recount() {
	n := newClassic(c.id)
	for _, m := range c.sorted() {
		n.add(m)
	}
	if c.unsaid != n.unsaid {
		panic(fmt.Sprintf("group %s weighs %d and should %d", c.id, c.unsaid, n.unsaid))
	}
	if n.joining != c.joining || n.unsynced != c.unsynced || !maps.Equal(n.offered, c.offered) || !maps.Equal(n.statics, c.statics) {
		panic(fmt.Sprintf("group %s counts %d %d %v %v and has %d %d %v %v", c.id,
			c.joining, c.unsynced, c.offered, c.statics, n.joining, n.unsynced, n.offered, n.statics))
	}
}

func optional(a metatest.Words, key string) *string {
	if !a.D.HasArg(key) {
		return nil
	}
	s := a.Str(key, "")
	return &s
}

func words(a metatest.Words, key string) []string {
	s := a.Str(key, "")
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}

func duration(a metatest.Words, key, or string) int32 {
	d, err := time.ParseDuration(a.Str(key, or))
	if err != nil {
		a.D.Fatalf(nil, "%v", err)
	}
	return int32(d / time.Millisecond)
}

// join g=g m=m1 i=instance v=9 session=10s rebalance=60s type=consumer
// protocols=(range,sticky:metadata) topics=(t,u): JoinGroup. Without m the
// member has no id, and the next one of m1, m2, ... is ready for it. topics are
// the subscription of every protocol.
func (r *rig) join(a metatest.Words) string {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(a.Int("v", 9))
	req.Group, req.MemberID, req.InstanceID = a.Str("g", "g"), a.Str("m", ""), optional(a, "i")
	req.ProtocolType = a.Str("type", "consumer")
	req.SessionTimeoutMillis = duration(a, "session", "10s")
	if req.Version > 0 {
		req.RebalanceTimeoutMillis = duration(a, "rebalance", "60s")
	}
	protocols := words(a, "protocols")
	if !a.D.HasArg("protocols") {
		protocols = []string{"range"}
	}
	for _, word := range protocols {
		p := kmsg.NewJoinGroupRequestProtocol()
		name, metadata, _ := strings.Cut(word, ":")
		p.Name, p.Metadata = name, []byte(metadata)
		if a.D.HasArg("topics") {
			sub := kmsg.NewConsumerMemberMetadata()
			sub.Topics = words(a, "topics")
			p.Metadata = sub.AppendTo(nil)
		}
		req.Protocols = append(req.Protocols, p)
	}
	id := ""
	who := req.MemberID
	if who == "" {
		id = r.newID()
		who = id
	}
	return r.do(who, &JoinGroup{Req: req, Client: Client{ID: a.Str("client", "c"), Host: a.Str("host", "/h")}, NewMemberID: id})
}

// sync g=g m=m1 i=instance gen=1 v=5 type=consumer protocol=range
// assign=(m1:a,m2:b): SyncGroup. type and protocol of - are left out.
func (r *rig) sync(a metatest.Words) string {
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version = int16(a.Int("v", 5))
	req.Group, req.MemberID, req.InstanceID = a.Str("g", "g"), a.Str("m", ""), optional(a, "i")
	req.Generation = int32(a.Int("gen", 1))
	if s := a.Str("type", "consumer"); s != "-" && req.Version >= 5 {
		req.ProtocolType = &s
	}
	if s := a.Str("protocol", "range"); s != "-" && req.Version >= 5 {
		req.Protocol = &s
	}
	for _, word := range words(a, "assign") {
		m := kmsg.NewSyncGroupRequestGroupAssignment()
		id, assignment, _ := strings.Cut(word, ":")
		m.MemberID, m.MemberAssignment = id, []byte(assignment)
		req.GroupAssignment = append(req.GroupAssignment, m)
	}
	return r.do(req.MemberID, &SyncGroup{Req: req})
}

// heartbeat g=g m=m1 i=instance gen=1: Heartbeat.
func (r *rig) heartbeat(a metatest.Words) string {
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version = 4
	req.Group, req.MemberID, req.InstanceID = a.Str("g", "g"), a.Str("m", ""), optional(a, "i")
	req.Generation = int32(a.Int("gen", 1))
	return r.do(req.MemberID, &Heartbeat{Req: req})
}

// leave g=g v=5 members=(m1,m2/instance,/instance): LeaveGroup. Before version 3: m=m1.
func (r *rig) leave(a metatest.Words) string {
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version = int16(a.Int("v", 5))
	req.Group, req.MemberID = a.Str("g", "g"), a.Str("m", "")
	for _, word := range words(a, "members") {
		m := kmsg.NewLeaveGroupRequestMember()
		id, instance, static := strings.Cut(word, "/")
		m.MemberID = id
		if static {
			m.InstanceID = &instance
		}
		req.Members = append(req.Members, m)
	}
	return r.do("leave", &LeaveGroup{Req: req})
}

// topics g=g of=(t,u): which of them the members read, and since when there are none.
func (r *rig) topics(a metatest.Words) string {
	p := r.m.groups[a.Str("g", "g")].members
	var read []string
	for _, topic := range words(a, "of") {
		if p.subscribes(topic) {
			read = append(read, topic)
		}
	}
	return fmt.Sprintf("%v, empty since %d\n", read, p.emptySinceMs())
}

// list-groups states=(stable) types=(classic): ListGroups.
func (r *rig) listGroups(a metatest.Words) string {
	return r.do("list", &ListGroups{States: FilterOf(words(a, "states")), Types: FilterOf(words(a, "types"))})
}

// describe-group g=g v=6: DescribeGroups.
func (r *rig) describeGroup(a metatest.Words) string {
	return r.do("describe", &DescribeGroup{Group: a.Str("g", "g"), Version: int16(a.Int("v", 6))})
}

func (r *rig) deleteGroup(a metatest.Words) string {
	return r.do("delete", &DeleteGroup{Group: a.Str("g", "g")})
}

// classic g=g: the live membership, with what no record has.
func (r *rig) classic(a metatest.Words) string {
	g := r.m.groups[a.Str("g", "g")]
	if g == nil {
		return "no such group\n"
	}
	c, ok := g.members.(*classic)
	if !ok {
		return fmt.Sprintf("not classic: %T\n", g.members)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s generation %d type %q protocol %s leader %q\n", c.phase, c.generation, c.kind, brief(c.protocol), c.leader)
	for _, m := range c.sorted() {
		fmt.Fprintf(&b, "  %s", m.id)
		for _, flag := range []struct {
			on   bool
			name string
		}{{m.instance != nil, "static"}, {m.fresh, "new"}, {m.join != 0, "joins"}, {m.sync != 0, "syncs"}, {m.unsynced, "unsynced"}} {
			if flag.on {
				b.WriteString(" " + flag.name)
			}
		}
		fmt.Fprintf(&b, " %q\n", m.assignment)
	}
	if len(c.pending) > 0 {
		fmt.Fprintf(&b, "  pending %v\n", slices.Sorted(maps.Keys(c.pending)))
	}
	return b.String()
}
