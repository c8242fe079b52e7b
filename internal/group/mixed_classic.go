package group

import (
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// Members of the classic protocol in a consumer group: they join, sync and
// heartbeat as ever, but none of them assigns, and none waits for the others. A heartbeat is
// answered with REBALANCE_IN_PROGRESS where the member has a step to take;
// the join takes it, and the sync brings the assignment.

// joinConsumerGroup takes a member of the classic protocol in, or one step further.
func (s *step) joinConsumerGroup(to coord.Token, c *JoinGroup, g *Group, cons *consumer) {
	resp, err := s.joinMixed(c, cons)
	if err != nil {
		resp = joinError("", err)
	}
	s.reply(to, resp)
}

func (s *step) joinMixed(c *JoinGroup, cons *consumer) (*kmsg.JoinGroupResponse, *kerr.Error) {
	req, id := c.Req, c.Req.MemberID
	anonymous := id == ""
	if anonymous {
		id = c.NewMemberID
	}
	switch {
	case s.cfg.ConsumerMigration == Migration{}:
		return nil, kerr.InconsistentGroupProtocol
	case s.full(cons, id, req.InstanceID):
		return nil, kerr.GroupMaxSizeReached
	case !cons.accepts(req):
		return nil, kerr.InconsistentGroupProtocol
	case anonymous && req.InstanceID == nil && req.Version >= joinKnownID:
		return joinError(id, kerr.MemberIDRequired), nil
	}
	m, replaces, no := classicFor(cons, id, req.InstanceID, anonymous)
	if no != nil {
		return nil, no.err
	}
	sub, ok := subscriptionOf(req.Protocols[0].Metadata)
	if !ok {
		return nil, kerr.InconsistentGroupProtocol
	}
	next := m.meta.withClassic(c, sub)
	if next != m.meta && !s.fits(&memberRecord{Group: cons.group, Member: id, Value: next}) {
		return nil, kerr.UnknownServerError
	}
	// The last member of the consumer protocol is restarted with the classic one.
	last := cons.staticOf(req.InstanceID)
	downgrades := last != nil && !last.classic() && cons.classics == len(cons.members)-1 && s.mayDowngrade(len(cons.members))

	if replaces != nil {
		s.replaceStatic(cons, replaces.id, m)
	}
	cons, changed := s.subscribe(cons, m, next, nil)
	m = cons.members[m.id]
	resp := kmsg.NewPtrJoinGroupResponse()
	resp.MemberID, resp.ProtocolType, resp.Protocol = m.id, kmsg.StringPtr("consumer"), kmsg.StringPtr(m.meta.Classic.Protocols[0].Name)
	owned := s.ownedByName(sub.OwnedPartitions)
	if downgrades {
		if epoch, ok := s.downgradeWith(cons, m, changed, owned); ok {
			resp.Generation = epoch
			return resp, nil
		}
	}
	s.assignIfDue(cons)
	m = s.reconcile(cons, m, changed, owned)
	resp.Generation = m.cur.Epoch
	s.cancelJoin(cons, m)
	s.renew(cons, m, m.classicSession())
	s.expectSync(cons, m)
	return resp, nil
}

// downgradeWith makes the group a classic one as its last member of the consumer
// protocol comes with the classic one. They join anew unless everybody has its
// part already; Apache Kafka asks for it only if there is no target assignment
// for the group's epoch. It gives the epoch that the member is in; ok is false
// where the log would not take the record.
func (s *step) downgradeWith(c *consumer, m *consumerMember, changed bool, owned []topicPartitions) (epoch int32, ok bool) {
	if c.made.Epoch >= c.epoch {
		m = s.reconcile(c, m, changed, owned)
	}
	rebalance := c.made.Epoch < c.epoch || c.settled[c.made.Epoch] < len(c.members)
	draft := s.draftDowngrade(c, c.ids())
	if draft == nil {
		return 0, false
	}
	g := s.downgrade(c, draft)
	if rebalance {
		s.prepareRebalance(g, draft)
	}
	return m.cur.Epoch, true
}

// classicFor finds the member that a join is of, or makes a new one.
func classicFor(c *consumer, id string, instance *string, anonymous bool) (m, replaces *consumerMember, no *refusal) {
	there := c.staticOf(instance)
	switch {
	case instance != nil && anonymous && there != nil:
		return there.successor(id), there, nil
	case instance != nil && !anonymous:
		return there, nil, checkInstance(there, id, *instance)
	}
	old, made := c.change(id)
	if old != nil {
		return old, nil, nil
	}
	return made, nil, nil
}

func (c *consumer) staticOf(instance *string) *consumerMember {
	if instance == nil {
		return nil
	}
	return c.static(*instance)
}

// accepts says whether a member can be among those of the classic protocol: it
// has a protocol that all of them have.
func (c *consumer) accepts(r *kmsg.JoinGroupRequest) bool {
	return r.ProtocolType == "consumer" && slices.ContainsFunc(r.Protocols, func(p kmsg.JoinGroupRequestProtocol) bool {
		return c.offered[p.Name] == c.classics
	})
}

// withClassic is what a member says of itself by joining with the classic
// protocol. It is v itself where nothing is new.
func (v *memberMetadata) withClassic(c *JoinGroup, sub kmsg.ConsumerMemberMetadata) *memberMetadata {
	next := *v
	if c.Req.InstanceID != nil {
		next.Instance = kmsg.StringPtr(*c.Req.InstanceID)
	}
	if rack := rackOf(sub); rack != nil {
		next.Rack = rack
	}
	next.RebalanceTimeoutMs = rebalanceMs(c.Req)
	next.Topics, next.Regex = topicSet(sub.Topics), noMetadata.Regex
	next.client(c.Client)
	next.Classic = &classicMetadata{SessionTimeoutMs: c.Req.SessionTimeoutMillis, Protocols: protocolsOf(c.Req)}
	if v.equal(&next) {
		return v
	}
	return &next
}

// first is the protocol that the member likes best. One that joined has some;
// a record may have none.
func (v *classicMetadata) first() (p kmsg.JoinGroupRequestProtocol) {
	if len(v.Protocols) > 0 {
		p = v.Protocols[0]
	}
	return p
}

func (m *consumerMember) classicSession() time.Duration {
	return millis(m.meta.Classic.SessionTimeoutMs)
}

func (s *step) ownedByName(list []kmsg.ConsumerMemberMetadataOwnedPartition) []topicPartitions {
	out := make([]topicPartitions, 0, len(list))
	for _, t := range list {
		if topic, ok := s.image.Topic(t.Topic); ok {
			out = append(out, topicPartitions{Topic: topic.ID, Partitions: t.Partitions})
		}
	}
	return out
}

// syncConsumerGroup brings a member of the classic protocol what is assigned to it.
func (s *step) syncConsumerGroup(to coord.Token, c *SyncGroup, g *Group, cons *consumer) {
	req := c.Req
	m, err := classicMemberOf(cons, req.MemberID, req.InstanceID, req.Generation)
	switch {
	case err != nil:
	case req.ProtocolType != nil && *req.ProtocolType != "consumer",
		req.Protocol != nil && *req.Protocol != m.meta.Classic.first().Name:
		err = kerr.InconsistentGroupProtocol
	case cons.made.Epoch > m.cur.Epoch && m.cur.State != memberUnrevokedPartitions:
		s.expectJoin(cons, m)
		err = kerr.RebalanceInProgress
	}
	if err != nil {
		s.reply(to, syncError(err))
		return
	}
	s.cancelSync(cons, m)
	s.renew(cons, m, m.classicSession())
	resp := kmsg.NewPtrSyncGroupResponse()
	resp.ProtocolType, resp.Protocol = req.ProtocolType, req.Protocol
	resp.MemberAssignment = s.serialize(m.cur.Assigned, versionOf(m.meta.Classic.first().Metadata))
	s.reply(to, resp)
}

// heartbeatConsumerGroup keeps a member's session, and tells it where it has a
// step to take.
func (s *step) heartbeatConsumerGroup(to coord.Token, c *Heartbeat, g *Group, cons *consumer) {
	m, err := classicMemberOf(cons, c.Req.MemberID, c.Req.InstanceID, c.Req.Generation)
	if err == nil {
		s.renew(cons, m, m.classicSession())
		if m.cur.Epoch < cons.made.Epoch || m.cur.State == memberUnrevokedPartitions ||
			m.cur.State == memberUnreleasedPartitions && !cons.waits(m) {
			s.expectJoin(cons, m)
			err = kerr.RebalanceInProgress
		}
	}
	s.reply(to, heartbeatAnswer(err))
}

// waits says whether somebody has yet to give up a partition of the member's target.
func (c *consumer) waits(m *consumerMember) bool {
	for _, t := range targetOf(c.targets[m.id]).Topics {
		assigned := partitionsOf(m.cur.Assigned, t.Topic).Partitions
		for _, p := range t.Partitions {
			if _, has := slices.BinarySearch(assigned, p); !has && c.held(t.Topic, p, "") {
				return true
			}
		}
	}
	return false
}

// classicMemberOf finds a member that speaks the classic protocol and is in the generation that it says.
func classicMemberOf(c *consumer, id string, instance *string, generation int32) (*consumerMember, *kerr.Error) {
	m := c.members[id]
	if instance != nil {
		m = c.static(*instance)
		if no := checkInstance(m, id, *instance); no != nil {
			return nil, no.err
		}
	}
	switch {
	case m == nil || !m.classic():
		return nil, kerr.UnknownMemberID
	case m.cur.Epoch != generation:
		return nil, kerr.IllegalGeneration
	}
	return m, nil
}

// leaveConsumerGroup takes members out: a rebalance for all of them. An
// administrator may take out those of the consumer protocol as well.
func (s *step) leaveConsumerGroup(to coord.Token, c *LeaveGroup, g *Group, cons *consumer) {
	var going []string
	gone := map[string]bool{}
	resp := leaveAnswer(c.Req, func(r kmsg.LeaveGroupRequestMember) *kerr.Error {
		m := cons.members[r.MemberID]
		if r.InstanceID != nil {
			m = cons.static(*r.InstanceID)
			id := r.MemberID
			if id == "" && m != nil {
				id = m.id
			}
			if no := checkInstance(m, id, *r.InstanceID); no != nil {
				return no.err
			}
		} else if m == nil {
			return kerr.UnknownMemberID
		}
		if !gone[m.id] {
			gone[m.id] = true
			going = append(going, m.id)
		}
		return nil
	})
	s.fence(cons, going)
	s.reply(to, resp)
}

// A member of the classic protocol has its rebalance timeout to join once it was told to,
// and again to sync once it joined.

func (s *step) expectJoin(c *consumer, m *consumerMember) {
	if !m.pulse.joins {
		m.pulse.joins = true
		s.timer(timerJoinMember, c.group, m.id, s.now.Add(millis(m.meta.RebalanceTimeoutMs)))
	}
}

func (s *step) cancelJoin(c *consumer, m *consumerMember) {
	if m.pulse.joins {
		m.pulse.joins = false
		s.cancel(timerJoinMember, c.group, m.id)
	}
}

func (s *step) expectSync(c *consumer, m *consumerMember) {
	m.pulse.syncs = true
	s.timer(timerSyncMember, c.group, m.id, s.now.Add(millis(m.meta.RebalanceTimeoutMs)))
}

func (s *step) cancelSync(c *consumer, m *consumerMember) {
	if m.pulse.syncs {
		m.pulse.syncs = false
		s.cancel(timerSyncMember, c.group, m.id)
	}
}

// stepExpired takes out a member that did not join, or not sync, in time.
func (s *step) stepExpired(group, member string) {
	if c := s.consumerIn(group); c != nil && c.members[member] != nil {
		s.fence(c, []string{c.members[member].id})
	}
}
