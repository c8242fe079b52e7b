package main

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	sessionTimeout   = 45 * time.Second
	rebalanceTimeout = 60 * time.Second
)

// counts is what happened to the members of all groups.
type counts struct {
	sent, answered, failed atomic.Int64 // heartbeats
	settled                atomic.Bool  // all groups have been stable once
	rebalances             atomic.Int64 // heartbeats that asked for a rejoin after that

	mu     sync.Mutex
	errors map[string]int
	took   hist // heartbeats
}

func (c *counts) failure(what string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.errors == nil {
		c.errors = map[string]int{}
	}
	c.errors[what]++
}

// group knows how far its members are.
type group struct {
	name, topic string
	parts       int
	metadata    []byte

	mu       sync.Mutex
	want     int // members
	gen      int32
	synced   int // members of this generation that have their assignment
	assigned int // partitions of those
	above    int32
	joined   time.Time // when the last member of this generation asked to join
	stable   chan time.Time
}

func newGroup(name, topic string, parts, want int) *group {
	m := kmsg.NewConsumerMemberMetadata()
	m.Version, m.Topics = 1, []string{topic}
	return &group{name: name, topic: topic, parts: parts, metadata: m.AppendTo(nil), want: want, stable: make(chan time.Time, 1)}
}

// expect waits from now on for a newer generation with so many members.
func (g *group) expect(members int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.want, g.above = members, g.gen
	select {
	case <-g.stable: // of the time before
	default:
	}
}

func (g *group) sync(gen int32, parts int, joined time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gen < g.gen {
		return
	}
	if gen > g.gen {
		g.gen, g.synced, g.assigned, g.joined = gen, 0, 0, time.Time{}
	}
	g.synced++
	g.assigned += parts
	if joined.After(g.joined) {
		g.joined = joined
	}
	if g.synced == g.want && g.assigned == g.parts && gen > g.above {
		select {
		case g.stable <- time.Now():
		default:
		}
	}
}

// member is a consumer of the classic protocol on a connection of its own.
type member struct {
	g    *group
	c    *rawConn
	n    *counts
	id   string
	gen  int32
	stop chan struct{}
	left chan time.Time // when it began to leave
}

func newMember(g *group, c *rawConn, n *counts) *member {
	return &member{g: g, c: c, n: n, stop: make(chan struct{}), left: make(chan time.Time, 1)}
}

// run joins, keeps its place until it is told to stop, and leaves.
func (m *member) run() {
	defer m.c.c.Close()
	joined := false
	timer := time.NewTimer(0)
	for {
		select {
		case <-m.stop:
			m.left <- time.Now()
			if m.id != "" {
				m.leave()
			}
			return
		case <-timer.C:
		}
		var err error
		if joined {
			joined, err = m.beat()
			timer.Reset(*heartbeat)
			if !joined {
				timer.Reset(0)
			}
		} else {
			joined, err = m.join()
			timer.Reset(100 * time.Millisecond)
			if joined { // spread the heartbeats
				timer.Reset(rand.N(*heartbeat))
			}
		}
		if err != nil {
			m.n.failure(err.Error())
			return
		}
	}
}

// join is one pass through JoinGroup and SyncGroup; the error is of the connection.
func (m *member) join() (bool, error) {
	q := kmsg.NewPtrJoinGroupRequest()
	q.SetVersion(9)
	q.Group, q.MemberID, q.ProtocolType = m.g.name, m.id, "consumer"
	q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = int32(sessionTimeout.Milliseconds()), int32(rebalanceTimeout.Milliseconds())
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", m.g.metadata
	q.Protocols = append(q.Protocols, p)
	asked := time.Now()
	r, err := call[*kmsg.JoinGroupResponse](m.c, q)
	if err == nil && r.ErrorCode == kerr.MemberIDRequired.Code {
		m.id, q.MemberID = r.MemberID, r.MemberID
		r, err = call[*kmsg.JoinGroupResponse](m.c, q)
	}
	if err != nil {
		return false, fmt.Errorf("join: %w", err)
	}
	if r.ErrorCode != 0 {
		return m.refused("join", r.ErrorCode)
	}
	m.id, m.gen = r.MemberID, r.Generation

	s := kmsg.NewPtrSyncGroupRequest()
	s.SetVersion(5)
	s.Group, s.Generation, s.MemberID, s.ProtocolType, s.Protocol = m.g.name, m.gen, m.id, r.ProtocolType, r.Protocol
	if r.LeaderID == m.id {
		s.GroupAssignment = m.g.assign(r.Members)
	}
	a, err := call[*kmsg.SyncGroupResponse](m.c, s)
	if err != nil {
		return false, fmt.Errorf("sync: %w", err)
	}
	if a.ErrorCode != 0 {
		return m.refused("sync", a.ErrorCode)
	}
	got := kmsg.NewConsumerMemberAssignment()
	parts := 0
	if err := got.ReadFrom(a.MemberAssignment); err != nil {
		return false, fmt.Errorf("assignment: %w", err)
	}
	for _, t := range got.Topics {
		parts += len(t.Partitions)
	}
	m.g.sync(m.gen, parts, asked)
	return true, nil
}

// refused counts what is no ordinary step of a rebalance.
func (m *member) refused(what string, code int16) (bool, error) {
	switch code {
	case kerr.RebalanceInProgress.Code:
		return false, nil
	case kerr.UnknownMemberID.Code:
		m.id = ""
	}
	if !comesAndGoes(code) {
		m.n.failure(what + ": " + kerr.ErrorForCode(code).Error())
	}
	return false, nil
}

// assign gives the partitions round robin.
func (g *group) assign(members []kmsg.JoinGroupResponseMember) []kmsg.SyncGroupRequestGroupAssignment {
	out := make([]kmsg.SyncGroupRequestGroupAssignment, 0, len(members))
	for i, m := range members {
		t := kmsg.NewConsumerMemberAssignmentTopic()
		t.Topic = g.topic
		for p := i; p < g.parts; p += len(members) {
			t.Partitions = append(t.Partitions, int32(p))
		}
		plan := kmsg.NewConsumerMemberAssignment()
		plan.Topics = append(plan.Topics, t)
		a := kmsg.NewSyncGroupRequestGroupAssignment()
		a.MemberID, a.MemberAssignment = m.MemberID, plan.AppendTo(nil)
		out = append(out, a)
	}
	return out
}

// beat says whether the member may stay as it is.
func (m *member) beat() (bool, error) {
	q := kmsg.NewPtrHeartbeatRequest()
	q.SetVersion(4)
	q.Group, q.Generation, q.MemberID = m.g.name, m.gen, m.id
	m.n.sent.Add(1)
	t := time.Now()
	r, err := call[*kmsg.HeartbeatResponse](m.c, q)
	if err != nil {
		m.n.failed.Add(1)
		return false, fmt.Errorf("heartbeat: %w", err)
	}
	m.n.answered.Add(1)
	m.n.took.add(time.Since(t))
	switch {
	case r.ErrorCode == 0 || comesAndGoes(r.ErrorCode):
		return true, nil
	case r.ErrorCode == kerr.RebalanceInProgress.Code:
		if m.n.settled.Load() {
			m.n.rebalances.Add(1)
		}
		return false, nil
	}
	m.n.failed.Add(1)
	return m.refused("heartbeat", r.ErrorCode)
}

func (m *member) leave() {
	q := kmsg.NewPtrLeaveGroupRequest()
	q.SetVersion(5)
	q.Group = m.g.name
	lm := kmsg.NewLeaveGroupRequestMember()
	lm.MemberID = m.id
	q.Members = append(q.Members, lm)
	if _, err := call[*kmsg.LeaveGroupResponse](m.c, q); err != nil {
		m.n.failure("leave: " + err.Error())
	}
}
