package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
)

// A subscription is read as far as version 0 goes, whatever its version; what
// cannot be read is not known.
func TestSubscription(t *testing.T) {
	rack := "r"
	owned := kmsg.NewConsumerMemberMetadataOwnedPartition()
	owned.Topic, owned.Partitions = "t", []int32{1}
	for version := range int16(4) {
		v := kmsg.NewConsumerMemberMetadata()
		v.Version, v.Topics, v.UserData, v.Rack = version, []string{"t", "u"}, []byte("data"), &rack
		v.OwnedPartitions = []kmsg.ConsumerMemberMetadataOwnedPartition{owned}
		b := v.AppendTo(nil)
		if topics, ok := subscription(b); !ok || !slices.Equal(topics, []string{"t", "u"}) {
			t.Errorf("version %d: %v %v", version, topics, ok)
		}
		before := slices.Clone(b)
		subscription(b)
		if !slices.Equal(b, before) {
			t.Errorf("version %d: changed", version)
		}
		short := len((&kmsg.ConsumerMemberMetadata{Topics: v.Topics, UserData: v.UserData}).AppendTo(nil))
		for n := range len(b) {
			if _, ok := subscription(b[:n]); ok != (n >= short) {
				t.Errorf("version %d, %d bytes of %d: %v", version, n, len(b), ok)
			}
		}
	}
	for _, garbage := range []string{"", "\x00", "\xff\xff\x00\x00\x00\x00\xff\xff\xff\xff", "\x00\x00\x7f\xff\xff\xff", "\x00\x00\x00\x00\x00\x01\xff\xff"} {
		if topics, ok := subscription([]byte(garbage)); ok {
			t.Errorf("%q: %v", garbage, topics)
		}
	}
	// A later version may have anything after what is known.
	if topics, ok := subscription([]byte("\x00\x63\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xffmore")); !ok || !slices.Equal(topics, []string{"t"}) {
		t.Errorf("version 99: %v %v", topics, ok)
	}
}

// Upgrade and downgrade, as far as the classic side has a part in them.
func TestDissolveAndRestore(t *testing.T) {
	r := newRig(t)
	r.m.cfg.InitialRebalanceDelay = 0
	run := func(f func(s *step)) string {
		var out coord.Out
		f(&step{Machine: r.m, now: r.now, out: &out})
		got := r.took("", out)
		r.check(t.Name())
		return got
	}
	instance, other := "a", "b"
	members := []*classicMember{
		{id: "m2", clientID: "c2", host: "/h", sessionMs: 10000, rebalanceMs: 60000, protocols: protocols("sticky", "range"), assignment: []byte("q")},
		{id: "m1", instance: &instance, sessionMs: 20000, rebalanceMs: 30000, protocols: protocols("range"), assignment: []byte("p")},
		{id: "m3", instance: &other, sessionMs: 20000, rebalanceMs: 30000, protocols: protocols("range", "sticky")},
	}
	draft := draftClassic("g", 7, members, r.now)
	if draft.leader != "m1" || *draft.protocol != "range" {
		t.Fatalf("leader %s, protocol %s", draft.leader, *draft.protocol)
	}
	if g := r.m.lookup("g"); g != nil {
		t.Fatal("a draft is in force")
	}
	run(func(s *step) { s.restoreClassic(draft) })
	want := `group g
  GroupMetadataValue{ProtocolType:consumer Generation:7 Protocol:range Leader:m1 CurrentStateTimestamp:1000000000}
    GroupMetadataValueMember{MemberID:m1 InstanceID:a RebalanceTimeoutMillis:30000 SessionTimeoutMillis:20000 Subscription:"of range" Assignment:"p"}
    GroupMetadataValueMember{MemberID:m2 ClientID:c2 ClientHost:/h RebalanceTimeoutMillis:60000 SessionTimeoutMillis:10000 Subscription:"of range" Assignment:"q"}
    GroupMetadataValueMember{MemberID:m3 InstanceID:b RebalanceTimeoutMillis:30000 SessionTimeoutMillis:20000 Subscription:"of range" Assignment:""}
`
	if got := dump(r.m); got != want {
		t.Fatalf("restored:\n%s", got)
	}
	g, c := (&step{Machine: r.m}).classicOf("g")
	if len(c.members["m2"].protocols) != 2 || c.phase != phaseStable {
		t.Fatal("the draft is not the group's membership")
	}
	if len(r.timers) != 3 {
		t.Fatalf("timers: %v", r.timers)
	}
	run(func(s *step) { s.prepareRebalance(g, c) })
	join := &JoinGroup{Req: kmsg.NewPtrJoinGroupRequest()}
	join.Req.Group, join.Req.MemberID, join.Req.ProtocolType, join.Req.SessionTimeoutMillis = "g", "m2", "consumer", 10000
	join.Req.Protocols = protocols("range")
	if got := r.do("m2", join); got != "(waits)\n" {
		t.Fatal(got)
	}
	join.Req.MemberID = ""
	join.Req.Version = 4
	join.NewMemberID = "m9"
	r.do("m9", join)
	got := run(func(s *step) { s.dissolve(c) })
	if want := "m2: JoinGroupResponse{ErrorCode:REBALANCE_IN_PROGRESS Generation:-1 MemberID:m2}\n"; got != want {
		t.Fatalf("dissolved: %s", got)
	}
	if len(r.timers) != 0 || len(r.who) != 0 || r.m.lookup("g") != nil {
		t.Fatalf("left over: timers %v, waiting %v", r.timers, r.who)
	}
}

func protocols(names ...string) []kmsg.JoinGroupRequestProtocol {
	var out []kmsg.JoinGroupRequestProtocol
	for _, name := range names {
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name, p.Metadata = name, []byte("of "+name)
		out = append(out, p)
	}
	return out
}

// Any history: nobody is answered twice, and whoever is not answered is known
// to the machine, which answers in the end; counters are right; and what is
// written down is what there is.
func TestClassicHistories(t *testing.T) {
	n := uint64(200)
	if testing.Short() {
		n = 20
	}
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := &history{rig: newRig(t), Rand: rand.New(rand.NewPCG(seed, 0)), ids: []string{"", "made-up"}}
			h.cfg.MaxSize = 2 + h.IntN(8)
			h.cfg.InitialRebalanceDelay = time.Duration(h.IntN(4)) * time.Second
			h.cfg.MaxRecordBytes = 200 + h.IntN(1000)
			h.m.cfg = h.cfg
			for i := range 300 {
				h.act()
				h.check(fmt.Sprint("step ", i))
				h.held(i)
			}
			// Nobody says any more: sessions end, and nobody waits.
			h.wait(2 * time.Hour)
			h.check("the end")
			h.held(300)
			if c := h.members(); len(h.who) != 0 || c != nil && (c.phase != phaseEmpty || len(c.pending) > 0) {
				t.Fatalf("at the end: %v wait, group %s", h.who, h.classic(metatest.Words{D: &datadriven.TestData{}}))
			}
		})
	}
}

type history struct {
	*rig
	*rand.Rand
	ids []string // that were handed out, oldest first
}

func (h *history) members() *classic {
	_, c := (&step{Machine: h.m}).classicOf("g")
	return c
}

// held: who waits is a member's join or sync, and the other way round.
func (h *history) held(i int) {
	h.t.Helper()
	var known []coord.Token
	if c := h.members(); c != nil {
		for _, m := range c.sorted() {
			known = append(known, m.join, m.sync)
		}
	}
	known = slices.DeleteFunc(known, func(to coord.Token) bool { return to == 0 })
	slices.Sort(known)
	if waiting := slices.Sorted(maps.Keys(h.who)); !slices.Equal(known, waiting) {
		h.t.Fatalf("step %d: %v wait, the machine knows of %v", i, waiting, known)
	}
}

func (h *history) act() string {
	group, instance := "g", (*string)(nil)
	if h.IntN(3) == 0 {
		instance = kmsg.StringPtr(string(rune('a' + h.IntN(3))))
	}
	id := h.id()
	var generation int32
	if c := h.members(); c != nil {
		generation = c.generation
		if m := c.members[id]; m != nil && h.IntN(8) > 0 {
			instance = m.instance
		}
	}
	if h.IntN(10) == 0 {
		generation--
	}
	switch h.IntN(12) {
	case 0, 1, 2, 3:
		return h.joins(group, id, instance)
	case 4, 5, 6, 7:
		req := kmsg.NewPtrSyncGroupRequest()
		req.Version, req.Group, req.MemberID, req.InstanceID, req.Generation = 4, group, id, instance, generation
		for _, id := range h.ids {
			a := kmsg.NewSyncGroupRequestGroupAssignment()
			a.MemberID, a.MemberAssignment = id, []byte(strings.Repeat("x", h.IntN(50)))
			req.GroupAssignment = append(req.GroupAssignment, a)
		}
		return h.do("sync", &SyncGroup{Req: req})
	case 8:
		req := kmsg.NewPtrHeartbeatRequest()
		req.Group, req.MemberID, req.InstanceID, req.Generation = group, id, instance, generation
		return h.do("heartbeat", &Heartbeat{Req: req})
	case 9:
		req := kmsg.NewPtrLeaveGroupRequest()
		req.Version, req.Group = 4, group
		for range 1 + h.IntN(2) {
			m := kmsg.NewLeaveGroupRequestMember()
			m.MemberID, m.InstanceID = h.id(), instance
			req.Members = append(req.Members, m)
		}
		return h.do("leave", &LeaveGroup{Req: req})
	case 10:
		if h.IntN(20) == 0 {
			return h.reload(metatest.Words{})
		}
		if h.IntN(20) == 0 {
			return h.do("delete", &DeleteGroup{Group: group})
		}
	}
	return h.wait(time.Duration(h.IntN(8000)) * time.Millisecond)
}

func (h *history) joins(group, id string, instance *string) string {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version = int16(h.IntN(10))
	req.Group, req.MemberID, req.InstanceID, req.ProtocolType = group, id, instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(6000+h.IntN(10000)), int32(h.IntN(20000))
	req.Protocols = protocols([][]string{{"range", "sticky"}, {"sticky", "range"}, {"range"}, {"sticky"}, nil}[min(h.IntN(5), h.IntN(5))]...)
	c := &JoinGroup{Req: req}
	if id == "" {
		c.NewMemberID = h.newID()
		h.ids = append(h.ids, c.NewMemberID)
	}
	return h.do("join", c)
}

// id is mostly one of those handed out last.
func (h *history) id() string {
	if h.IntN(6) == 0 {
		return h.ids[h.IntN(2)]
	}
	last := h.ids[max(0, len(h.ids)-8):]
	return last[h.IntN(len(last))]
}
