package brokertest_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
)

// The cases of the group coordinator whose rules are the machine's alone are
// scripts of package group (internal/group/testdata); here are those that need
// a broker around it: topics that come and go, restarts, requests that the
// machine never sees.

// coordinator asks where groups live.
func (p *peer) coordinator(version int16, kind int8, keys ...string) []kmsg.FindCoordinatorResponseCoordinator {
	p.t.Helper()
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.Version, req.CoordinatorType = version, kind
	if version >= 4 {
		req.CoordinatorKeys = keys
		return ask[*kmsg.FindCoordinatorResponse](p, req).Coordinators
	}
	var out []kmsg.FindCoordinatorResponseCoordinator
	for _, k := range keys {
		req.CoordinatorKey = k
		resp := ask[*kmsg.FindCoordinatorResponse](p, req)
		c := kmsg.NewFindCoordinatorResponseCoordinator()
		c.Key, c.NodeID, c.Host, c.Port, c.ErrorCode = k, resp.NodeID, resp.Host, resp.Port, resp.ErrorCode
		out = append(out, c)
	}
	return out
}

// withGroups is a connection to a broker whose coordinator serves.
func withGroups(t *testing.T, opts ...brokertest.Option) (*brokertest.Broker, *peer) {
	t.Helper()
	b := brokertest.Start(t, opts...)
	p := dial(t, b)
	p.awaitGroups()
	return b, p
}

// awaitGroups waits until every shard of the coordinator has loaded.
func (p *peer) awaitGroups() {
	p.t.Helper()
	p.coordinator(3, 0, "any")
	until(p.t, "the coordinator serves", func() bool {
		return ask[*kmsg.ListGroupsResponse](p, kmsg.NewPtrListGroupsRequest()).ErrorCode == 0
	})
}

// awaitGroup is done when the coordinator has loaded what a group wrote: until
// loading has begun, a list of groups is empty, and no error.
func (p *peer) awaitGroup(group string) {
	p.t.Helper()
	until(p.t, "group "+group+" is there", func() bool {
		got := ask[*kmsg.ListGroupsResponse](p, kmsg.NewPtrListGroupsRequest())
		return got.ErrorCode == 0 && slices.ContainsFunc(got.Groups, func(g kmsg.ListGroupsResponseGroup) bool { return g.Group == group })
	})
}

// until asks again and again, until an answer is right: for what a broker does
// after it has answered.
func until(t *testing.T, what string, right func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !right() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: not within %v", what, patience)
		}
	}
}

// commit stores offsets of partition 0, 1 ... of a topic.
func (p *peer) commit(group, member string, generation int32, topic string, offsets ...int64) []int16 {
	p.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 8, group, member, generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = topic
	for i, o := range offsets {
		in := kmsg.NewOffsetCommitRequestTopicPartition()
		in.Partition, in.Offset, in.LeaderEpoch = int32(i), o, -1
		t.Partitions = append(t.Partitions, in)
	}
	req.Topics = append(req.Topics, t)
	var codes []int16
	for _, o := range ask[*kmsg.OffsetCommitResponse](p, req).Topics[0].Partitions {
		codes = append(codes, o.ErrorCode)
	}
	return codes
}

// mustCommit is commit without a member, which must work.
func (p *peer) mustCommit(group, topic string, offsets ...int64) {
	p.t.Helper()
	for i, c := range p.commit(group, "", -1, topic, offsets...) {
		if c != 0 {
			p.t.Fatalf("commit of %s for %s-%d: %s", group, topic, i, name(c))
		}
	}
}

// committed is the offset that a group has; -1: none.
func (p *peer) committed(group, topic string, partition int32) int64 {
	p.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Version = 8
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.Partitions = topic, []int32{partition}
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	out := ask[*kmsg.OffsetFetchResponse](p, req).Groups[0]
	if out.ErrorCode != 0 || out.Topics[0].Partitions[0].ErrorCode != 0 {
		p.t.Fatalf("fetch of %s: %s, %s", group, name(out.ErrorCode), name(out.Topics[0].Partitions[0].ErrorCode))
	}
	return out.Topics[0].Partitions[0].Offset
}

// listed are the groups as id/protocol type/state/type.
func (p *peer) listed(states, types []string) []string {
	p.t.Helper()
	req := kmsg.NewPtrListGroupsRequest()
	req.Version, req.StatesFilter, req.TypesFilter = 5, states, types
	resp := ask[*kmsg.ListGroupsResponse](p, req)
	wantCode(p.t, "list groups", resp.ErrorCode, nil)
	out := []string{}
	for _, g := range resp.Groups {
		out = append(out, fmt.Sprintf("%s/%s/%s/%s", g.Group, g.ProtocolType, g.GroupState, g.GroupType))
	}
	return out
}

func wantList(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// join joins a classic group, in two steps where there have to be two, and
// brings back the answer; the group has no other member that must join too.
func (p *peer) join(group string, change func(*kmsg.JoinGroupRequest)) *kmsg.JoinGroupResponse {
	p.t.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis, req.ProtocolType = 9, group, 30_000, 30_000, "consumer"
	proto := kmsg.NewJoinGroupRequestProtocol()
	proto.Name, proto.Metadata = "range", subscription("t")
	req.Protocols = append(req.Protocols, proto)
	if change != nil {
		change(req)
	}
	resp := ask[*kmsg.JoinGroupResponse](p, req)
	if resp.ErrorCode == kerr.MemberIDRequired.Code {
		req.MemberID = resp.MemberID
		resp = ask[*kmsg.JoinGroupResponse](p, req)
	}
	return resp
}

func subscription(topics ...string) []byte {
	m := kmsg.NewConsumerMemberMetadata()
	m.Topics = topics
	return m.AppendTo(nil)
}

// stable makes a group of one member, and says who it is in which generation.
func (p *peer) stable(group string) (member string, generation int32) {
	p.t.Helper()
	j := p.join(group, nil)
	wantCode(p.t, "join", j.ErrorCode, nil)
	req := kmsg.NewPtrSyncGroupRequest()
	req.Version, req.Group, req.Generation, req.MemberID = 5, group, j.Generation, j.MemberID
	req.ProtocolType, req.Protocol = j.ProtocolType, j.Protocol
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID, a.MemberAssignment = j.MemberID, []byte("mine")
	req.GroupAssignment = append(req.GroupAssignment, a)
	resp := ask[*kmsg.SyncGroupResponse](p, req)
	wantCode(p.t, "sync", resp.ErrorCode, nil)
	return j.MemberID, j.Generation
}

func (p *peer) heartbeat(group, member string, generation int32) int16 {
	p.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.Generation = 4, group, member, generation
	return ask[*kmsg.HeartbeatResponse](p, req).ErrorCode
}

func (p *peer) leave(group string, members ...string) *kmsg.LeaveGroupResponse {
	p.t.Helper()
	req := kmsg.NewPtrLeaveGroupRequest()
	req.Version, req.Group = 5, group
	for _, m := range members {
		in := kmsg.NewLeaveGroupRequestMember()
		in.MemberID = m
		req.Members = append(req.Members, in)
	}
	return ask[*kmsg.LeaveGroupResponse](p, req)
}

func (p *peer) deleteGroup(group string) int16 {
	p.t.Helper()
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Version, req.Groups = 2, []string{group}
	return ask[*kmsg.DeleteGroupsResponse](p, req).Groups[0].ErrorCode
}

// The first question makes the topic; then the answer does not change.
func TestMETA05FindCoordinator(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	if _, there := p.topic("__consumer_offsets"); there {
		t.Fatal("the topic is there before anybody asked")
	}
	for _, version := range []int16{0, 3, 4, 6} {
		keys := []string{"g"}
		if version >= 4 {
			keys = []string{"g", "", "other"}
		}
		got := p.coordinator(version, 0, keys...)
		if len(got) != len(keys) {
			t.Fatalf("v%d: %d answers to %d keys", version, len(got), len(keys))
		}
		for i, c := range got {
			wantCode(t, fmt.Sprintf("v%d %q", version, keys[i]), c.ErrorCode, nil)
			if at := fmt.Sprintf("%s:%d", c.Host, c.Port); at != b.Addr() || c.Key != keys[i] && version >= 4 {
				t.Errorf("v%d %q: %s %q, want %s", version, keys[i], at, c.Key, b.Addr())
			}
		}
	}
	if topic, there := p.topic("__consumer_offsets"); !there || !topic.IsInternal || len(topic.Partitions) != 50 {
		t.Errorf("the topic: there=%t internal=%t partitions=%d", there, topic.IsInternal, len(topic.Partitions))
	}
	wantCode(t, "type 9", p.coordinator(4, 9, "g")[0].ErrorCode, kerr.InvalidRequest)
}

func TestGRP07EmptyGroup(t *testing.T) {
	_, p := withGroups(t)
	p.create("t", 1)
	wantCode(t, "join", p.join("", nil).ErrorCode, kerr.InvalidGroupID)
	wantCode(t, "heartbeat", p.heartbeat("", "m", 1), kerr.InvalidGroupID)
	wantCode(t, "session too short", p.join("g", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 5_999 }).ErrorCode, kerr.InvalidSessionTimeout)
	wantCode(t, "session too long", p.join("g", func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1_800_001 }).ErrorCode, kerr.InvalidSessionTimeout)
	p.mustCommit("", "t", 7)
	if got := p.committed("", "t", 0); got != 7 {
		t.Errorf("committed under the empty name: %d, want 7", got)
	}
}

func TestGRP10CommitForNothing(t *testing.T) {
	_, p := withGroups(t)
	p.create("t", 1)
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Version, req.Group, req.Generation = 8, "g", -1
	for topic, parts := range map[string][]int32{"t": {0, 99}, "nosuch": {0}} {
		in := kmsg.NewOffsetCommitRequestTopic()
		in.Topic = topic
		for _, n := range parts {
			q := kmsg.NewOffsetCommitRequestTopicPartition()
			q.Partition, q.Offset = n, 5
			in.Partitions = append(in.Partitions, q)
		}
		req.Topics = append(req.Topics, in)
	}
	for _, topic := range ask[*kmsg.OffsetCommitResponse](p, req).Topics {
		for _, q := range topic.Partitions {
			want := kerr.UnknownTopicOrPartition
			if topic.Topic == "t" && q.Partition == 0 {
				want = nil
			}
			wantCode(t, fmt.Sprintf("%s-%d", topic.Topic, q.Partition), q.ErrorCode, want)
		}
	}
	all := kmsg.NewPtrOffsetFetchRequest()
	all.Version, all.Group = 5, "g"
	got := ask[*kmsg.OffsetFetchResponse](p, all).Topics
	if len(got) != 1 || got[0].Topic != "t" || len(got[0].Partitions) != 1 || got[0].Partitions[0].Offset != 5 {
		t.Errorf("stored: %+v", got)
	}
}

func TestGRP11FetchNothing(t *testing.T) {
	_, p := withGroups(t)
	p.create("t", 2)
	p.mustCommit("g", "t", 3)
	for version := int16(1); version <= 7; version++ {
		req := kmsg.NewPtrOffsetFetchRequest()
		req.Version, req.Group, req.Topics = version, "g", []kmsg.OffsetFetchRequestTopic{}
		if got := ask[*kmsg.OffsetFetchResponse](p, req); len(got.Topics) != 0 || got.ErrorCode != 0 {
			t.Errorf("v%d, no topics: %+v", version, got)
		}
		if version >= 2 {
			req.Topics = nil
			if got := ask[*kmsg.OffsetFetchResponse](p, req); len(got.Topics) != 1 || got.Topics[0].Partitions[0].Offset != 3 {
				t.Errorf("v%d, all: %+v", version, got)
			}
		}
	}
	for _, c := range []struct {
		group, topic string
		partition    int32
	}{{"nosuch", "t", 0}, {"g", "t", 1}, {"g", "nosuch", 0}} {
		if got := p.committed(c.group, c.topic, c.partition); got != -1 {
			t.Errorf("%+v: %d, want -1", c, got)
		}
	}
}

// A group that was deleted is gone, also after the coordinator has loaded anew.
func TestGRP14DeletedGroupStaysAway(t *testing.T) {
	b, p := withGroups(t)
	p.create("t", 1)
	p.mustCommit("g", "t", 3)
	p.mustCommit("kept", "t", 4)
	member, _ := p.stable("busy")
	wantCode(t, "delete with a member", p.deleteGroup("busy"), kerr.NonEmptyGroup)
	wantCode(t, "delete unknown", p.deleteGroup("nosuch"), kerr.GroupIDNotFound)
	wantCode(t, "leave", p.leave("busy", member).Members[0].ErrorCode, nil)
	wantCode(t, "delete once empty", p.deleteGroup("busy"), nil)
	wantCode(t, "delete", p.deleteGroup("g"), nil)
	check := func(when string) {
		t.Helper()
		if got := p.committed("g", "t", 0); got != -1 {
			t.Errorf("%s: offset %d of a deleted group", when, got)
		}
		wantList(t, when, p.listed(nil, nil), "kept//Empty/classic")
	}
	check("at once")
	b.Restart()
	p = dial(t, b)
	p.awaitGroup("kept")
	check("after a restart")
}

func TestGRP16OffsetsAlone(t *testing.T) {
	_, p := withGroups(t)
	p.create("t", 1)
	p.mustCommit("g", "t", 3)
	wantList(t, "listed", p.listed(nil, nil), "g//Empty/classic")
	req := kmsg.NewPtrDescribeGroupsRequest()
	req.Version, req.Groups = 5, []string{"g"}
	if d := ask[*kmsg.DescribeGroupsResponse](p, req).Groups[0]; d.ErrorCode != 0 || d.State != "Empty" || d.ProtocolType != "" {
		t.Errorf("described: %+v", d)
	}
	p.stable("g")
	if got := p.committed("g", "t", 0); got != 3 {
		t.Errorf("offset after a consumer came: %d, want 3", got)
	}
}

// Offsets go with their topic: a consumer of its successor begins anew.
func TestGRP18OffsetsGoWithTheTopic(t *testing.T) {
	b, p := withGroups(t)
	p.create("t", 1)
	p.create("stays", 1)
	p.mustCommit("kept", "stays", 10)
	p.mustCommit("g", "t", 10)
	p.mustCommit("h", "t", 10)
	p.remove("t")
	p.create("t", 1)
	p.write("t", records("a", "b"))
	check := func(when string) {
		t.Helper()
		for _, g := range []string{"g", "h"} {
			if got := p.committed(g, "t", 0); got != -1 {
				t.Errorf("%s: %s has offset %d of the topic before", when, g, got)
			}
		}
	}
	check("at once")
	b.Restart()
	p = dial(t, b)
	p.awaitGroup("kept")
	check("after a restart")
}

func TestUI02ListGroups(t *testing.T) {
	_, p := withGroups(t)
	p.create("t", 1)
	p.mustCommit("offsets", "t", 1)
	p.stable("classic")
	beat := p.consumerBeat("modern", "m1", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{"t"} })
	wantCode(t, "heartbeat", beat.ErrorCode, nil)
	const offsets, classic, modern = "offsets//Empty/classic", "classic/consumer/Stable/classic", "modern/consumer/Stable/consumer"
	wantList(t, "all", p.listed(nil, nil), classic, modern, offsets)
	wantList(t, "Stable", p.listed([]string{"Stable"}, nil), classic, modern)
	wantList(t, "stable", p.listed([]string{"stable"}, nil), classic, modern)
	wantList(t, "Nope", p.listed([]string{"Nope"}, nil))
	wantList(t, "classic", p.listed(nil, []string{"Classic"}), classic, offsets)
	wantList(t, "consumer", p.listed(nil, []string{"consumer"}), modern)
	wantList(t, "both", p.listed([]string{"EMPTY"}, []string{"classic"}), offsets)
}

// consumerBeat is a heartbeat of the consumer protocol.
func (p *peer) consumerBeat(group, member string, epoch int32, change func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatResponse {
	p.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.MemberEpoch = 1, group, member, epoch
	if epoch == 0 {
		req.RebalanceTimeoutMillis = 30_000
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	if change != nil {
		change(req)
	}
	return ask[*kmsg.ConsumerGroupHeartbeatResponse](p, req)
}

// Topics and partitions that come after the subscription are assigned, and a
// topic that was made anew is assigned under its new id.
func TestG848_06TopicsThatComeLater(t *testing.T) {
	_, p := withGroups(t)
	epoch := p.consumerBeat("g", "m", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{"late"} }).MemberEpoch
	// assigned beats, confirming what it is told, until it is told want.
	assigned := func(what string, id [16]byte, want ...int32) {
		t.Helper()
		owned := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		confirm := false
		until(t, what, func() bool {
			resp := p.consumerBeat("g", "m", epoch, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
				if confirm {
					r.Topics = owned
				}
			})
			confirm = false
			wantCode(t, what, resp.ErrorCode, nil)
			epoch = resp.MemberEpoch
			if resp.Assignment == nil {
				return false
			}
			owned, confirm = owned[:0], true
			for _, a := range resp.Assignment.Topics {
				o := kmsg.NewConsumerGroupHeartbeatRequestTopic()
				o.TopicID, o.Partitions = a.TopicID, a.Partitions
				owned = append(owned, o)
			}
			return len(owned) == 1 && owned[0].TopicID == id && slices.Equal(owned[0].Partitions, want)
		})
	}
	id := p.create("late", 2)
	assigned("a topic made after the subscription", id, 0, 1)
	wantCode(t, "more partitions", p.grow("late", 3, false).ErrorCode, nil)
	assigned("a partition added", id, 0, 1, 2)
	p.remove("late")
	again := p.create("late", 1)
	assigned("the topic made anew", again, 0)
}
