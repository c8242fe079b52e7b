package group

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// ConsumerGroupHeartbeat v0-1 (KIP-848). Version 1 brings regular expressions,
// and wants the client to make its member id.
//
// Whatever may refuse a heartbeat is looked at before the first record is written.

// refusal is a protocol error, with the words that Apache Kafka has for it.
type refusal struct {
	err     *kerr.Error
	message string
}

func refuse(err *kerr.Error, format string, args ...any) *refusal {
	return &refusal{err, fmt.Sprintf(format, args...)}
}

func (s *step) consumerHeartbeat(to coord.Token, c *ConsumerHeartbeat) {
	resp := kmsg.NewPtrConsumerGroupHeartbeatResponse()
	no := s.checkHeartbeat(c.Req)
	switch {
	case no != nil:
	case c.Req.MemberEpoch < 0:
		no = s.depart(c.Req, resp)
	default:
		no = s.beat(c, resp)
	}
	if no != nil {
		resp = kmsg.NewPtrConsumerGroupHeartbeatResponse()
		resp.ErrorCode = no.err.Code
		if no.message != "" {
			resp.ErrorMessage = &no.message
		}
	}
	s.reply(to, resp)
}

// checkHeartbeat refuses a request that is wrong whatever the group.
func (s *step) checkHeartbeat(r *kmsg.ConsumerGroupHeartbeatRequest) *refusal {
	invalid := func(message string) *refusal { return refuse(kerr.InvalidRequest, "%s", message) }
	blank := func(v *string) bool {
		return v != nil && strings.TrimFunc(*v, func(c rune) bool { return c <= ' ' }) == ""
	}
	switch {
	case !s.cfg.ConsumerEnabled:
		return refuse(kerr.UnsupportedVersion, "%s", "The consumer group protocol is not enabled.")
	case (r.Version >= 1 || r.MemberEpoch > 0 || r.MemberEpoch == -1) && blank(&r.MemberID):
		return invalid("MemberId can't be empty.")
	case blank(&r.Group):
		return invalid("GroupId can't be empty.")
	case blank(r.InstanceID):
		return invalid("InstanceId can't be empty.")
	case blank(r.RackID):
		return invalid("RackId can't be empty.")
	case r.MemberEpoch == 0 && r.RebalanceTimeoutMillis == -1:
		return invalid("RebalanceTimeoutMs must be provided in first request.")
	case r.MemberEpoch == 0 && (r.Topics == nil || len(r.Topics) > 0):
		return invalid("TopicPartitions must be empty when (re-)joining.")
	case r.MemberEpoch == 0 && r.SubscribedTopicNames == nil && r.SubscribedTopicRegex == nil:
		return invalid("Either SubscribedTopicNames or SubscribedTopicRegex must be non-null when (re-)joining.")
	case r.MemberEpoch == epochLeft && r.InstanceID == nil:
		return invalid("InstanceId can't be null.")
	case r.MemberEpoch < epochLeft:
		return invalid("MemberEpoch is invalid.")
	case !heartbeatFitsRecord(r):
		return invalid("A string of the request is too long.")
	case r.ServerAssignor != nil && !slices.Contains(s.cfg.ConsumerAssignors, *r.ServerAssignor):
		return refuse(kerr.UnsupportedAssignor, "ServerAssignor %s is not supported. Supported assignors: %s.",
			*r.ServerAssignor, strings.Join(s.cfg.ConsumerAssignors, ", "))
	}
	return nil
}

// heartbeatFitsRecord says whether the strings of a heartbeat fit those of the
// records: keys have a length of two bytes, and Apache Kafka reads no longer
// ones in values either. It reads no such request.
func heartbeatFitsRecord(r *kmsg.ConsumerGroupHeartbeatRequest) bool {
	longest := max(len(r.Group), len(r.MemberID))
	for _, s := range []*string{r.InstanceID, r.RackID, r.SubscribedTopicRegex} {
		if s != nil {
			longest = max(longest, len(*s))
		}
	}
	for _, name := range r.SubscribedTopicNames {
		longest = max(longest, len(name))
	}
	return longest <= maxString
}

// beat takes a heartbeat of a member that joins or stays.
func (s *step) beat(c *ConsumerHeartbeat, resp *kmsg.ConsumerGroupHeartbeatResponse) *refusal {
	req, id := c.Req, c.Req.MemberID
	if id == "" {
		id = c.NewMemberID
	}
	e, no := s.enter(req.Group, req.MemberEpoch == 0)
	if no != nil {
		return no
	}
	if s.full(e.consumer, id, req.InstanceID) {
		return refuse(kerr.GroupMaxSizeReached, "The consumer group has reached its maximum capacity of %d members.", s.cfg.ConsumerMaxSize)
	}
	owned := ownedBy(req)
	m, replaces, no := memberFor(e.consumer, req, id, owned)
	if no != nil {
		return no
	}
	next := m.meta.with(c)
	if no := checkRegex(e.consumer, m.meta, next, c); no != nil {
		return no
	}
	if m.cur.State == memberUnknown && (owned == nil || len(owned) > 0) {
		return refuse(kerr.FencedMemberEpoch, "The consumer group member is in a unknown state. The member must abandon all its partitions and rejoin.")
	}
	if next != m.meta && !s.fits(&memberRecord{Group: req.Group, Member: id, Value: next}) {
		return refuse(kerr.UnknownServerError, "")
	}

	cons := s.open(e)
	if replaces != nil {
		s.replaceStatic(cons, replaces.id, m)
	}
	cons, changed := s.subscribe(cons, m, next, c)
	s.assignIfDue(cons)
	now := s.reconcile(cons, cons.members[m.id], changed, owned)
	set := s.settings(cons.group)
	s.renew(cons, now, set.Session)
	s.cancelJoin(cons, now) // of what it may have been: a member of the classic protocol
	s.cancelSync(cons, now)

	resp.MemberID = &now.id
	resp.MemberEpoch = now.cur.Epoch
	resp.HeartbeatIntervalMillis = int32(set.Heartbeat / time.Millisecond)
	full := req.RebalanceTimeoutMillis != -1 && (req.SubscribedTopicNames != nil || req.SubscribedTopicRegex != nil) && req.Topics != nil
	if req.MemberEpoch == 0 || full || !slices.EqualFunc(m.cur.Assigned, now.cur.Assigned, topicPartitions.equal) {
		resp.Assignment = assignmentOf(now.cur)
	}
	return nil
}

// memberFor finds the member that a heartbeat is of, or makes a new one, and
// refuses epochs that are not its own. replaces is the static member whose
// place it takes (KIP-345).
func memberFor(c *consumer, req *kmsg.ConsumerGroupHeartbeatRequest, id string, owned []topicPartitions) (m, replaces *consumerMember, no *refusal) {
	join := req.MemberEpoch == 0
	if req.InstanceID == nil {
		m = c.members[id]
		if m == nil && !join {
			return nil, nil, unknownMember(c, id)
		}
	} else {
		there := c.static(*req.InstanceID)
		switch {
		case join && there == nil:
			m = c.members[id]
		case join && !there.classic() && there.cur.Epoch != epochLeft:
			return nil, nil, refuse(kerr.UnreleasedInstanceID, "Static member %s with instance id %s cannot join the group because the instance id is owned by %s member.", id, *req.InstanceID, there.id)
		case join:
			return there.successor(id), there, nil
		default:
			if no := checkInstance(there, id, *req.InstanceID); no != nil {
				return nil, nil, no
			}
			m = there
		}
	}
	if m == nil {
		_, m = c.change(id)
	}
	return m, nil, m.checkEpoch(req.MemberEpoch, owned)
}

func unknownMember(c *consumer, id string) *refusal {
	return refuse(kerr.UnknownMemberID, "Member %s is not a member of group %s.", id, c.group)
}

// checkInstance refuses a member whose instance id is unknown, or another's by now.
func checkInstance(there *consumerMember, id, instance string) *refusal {
	if there == nil {
		return refuse(kerr.UnknownMemberID, "Instance id %s is unknown.", instance)
	}
	if there.id != id {
		return refuse(kerr.FencedInstanceID, "Static member %s with instance id %s was fenced by member %s.", id, instance, there.id)
	}
	return nil
}

// checkEpoch fences a member that is not where the coordinator knows it to
// be. The epoch before is good while all that the member owns is still assigned to it: the
// answer that brought it the next one was lost.
func (m *consumerMember) checkEpoch(epoch int32, owned []topicPartitions) *refusal {
	fenced := func(than string) *refusal {
		return refuse(kerr.FencedMemberEpoch, "The consumer group member has a %s member epoch (%d) than the one known by the group coordinator (%d). The member must abandon all its partitions and rejoin.", than, epoch, m.cur.Epoch)
	}
	switch {
	case epoch == 0:
	case epoch > m.cur.Epoch:
		return fenced("greater")
	case epoch < m.cur.Epoch && (epoch != m.cur.PreviousEpoch || owned == nil || !within(owned, m.cur.Assigned)):
		return fenced("smaller")
	}
	return nil
}

// successor is the member that takes a static member's place under another id.
func (m *consumerMember) successor(id string) *consumerMember {
	cur := *m.cur
	cur.Epoch, cur.PreviousEpoch = 0, 0
	return &consumerMember{id: id, meta: m.meta, cur: &cur, pulse: &pulse{}}
}

// replaceStatic gives a static member's place, with all it has, to now.
func (s *step) replaceStatic(c *consumer, old string, now *consumerMember) {
	target := c.targets[old]
	s.cancelTimers(c, c.members[old])
	s.erase(c, old)
	s.emit(&memberRecord{Group: c.group, Member: now.id, Value: now.meta})
	s.emit(&targetRecord{Group: c.group, Member: now.id, Value: targetOf(target)})
	s.emit(&currentRecord{Group: c.group, Member: now.id, Value: now.cur})
}

// with is what the member says of itself after a heartbeat: what is not in it stays.
// It is v itself where nothing is new.
func (v *memberMetadata) with(c *ConsumerHeartbeat) *memberMetadata {
	next, r := *v, c.Req
	keep := func(old, now *string) *string {
		if now == nil || old != nil && *old == *now {
			return old
		}
		return kmsg.StringPtr(*now) // the request is not ours
	}
	next.Instance, next.Rack = keep(v.Instance, r.InstanceID), keep(v.Rack, r.RackID)
	next.Regex, next.Assignor = keep(v.Regex, r.SubscribedTopicRegex), keep(v.Assignor, r.ServerAssignor)
	if r.RebalanceTimeoutMillis != -1 {
		next.RebalanceTimeoutMs = r.RebalanceTimeoutMillis
	}
	if r.SubscribedTopicNames != nil {
		next.Topics = topicSet(r.SubscribedTopicNames)
	}
	next.client(c.Client)
	next.Classic = nil
	if v != noMetadata && v.equal(&next) {
		return v
	}
	return &next
}

func (v *memberMetadata) client(c Client) {
	v.ClientID, v.Host = c.ID, c.Host
}

// topicSet is the names in order, each once.
func topicSet(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}

func (v *memberMetadata) equal(o *memberMetadata) bool {
	same := func(a, b *string) bool { return a == b || a != nil && b != nil && *a == *b }
	return same(v.Instance, o.Instance) && same(v.Rack, o.Rack) && v.ClientID == o.ClientID && v.Host == o.Host &&
		slices.Equal(v.Topics, o.Topics) && v.regex() == o.regex() && v.RebalanceTimeoutMs == o.RebalanceTimeoutMs &&
		same(v.Assignor, o.Assignor) && v.Classic.equal(o.Classic)
}

func (v *classicMetadata) equal(o *classicMetadata) bool {
	if v == nil || o == nil {
		return v == o
	}
	return v.SessionTimeoutMs == o.SessionTimeoutMs && slices.EqualFunc(v.Protocols, o.Protocols,
		func(a, b kmsg.JoinGroupRequestProtocol) bool {
			return a.Name == b.Name && slices.Equal(a.Metadata, b.Metadata)
		})
}

// ownedBy is what a heartbeat says that its member owns; nil: it does not say.
func ownedBy(req *kmsg.ConsumerGroupHeartbeatRequest) []topicPartitions {
	if req.Topics == nil {
		return nil
	}
	out := make([]topicPartitions, 0, len(req.Topics))
	for _, t := range req.Topics {
		out = append(out, topicPartitions{Topic: t.TopicID, Partitions: t.Partitions})
	}
	return out
}

func assignmentOf(cur *current) *kmsg.ConsumerGroupHeartbeatResponseAssignment {
	out := kmsg.NewConsumerGroupHeartbeatResponseAssignment()
	out.Topics = make([]kmsg.ConsumerGroupHeartbeatResponseAssignmentTopic, 0, len(cur.Assigned))
	for _, t := range cur.Assigned {
		topic := kmsg.NewConsumerGroupHeartbeatResponseAssignmentTopic()
		topic.TopicID, topic.Partitions = t.Topic, t.Partitions
		out.Topics = append(out.Topics, topic)
	}
	return &out
}
