package group

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// The change of a live group from one protocol to the other (KIP-848): a
// classic group becomes a consumer group when the first member of the consumer
// protocol comes, and a classic one again when the last of them goes. Those of the
// classic protocol stay members meanwhile; see mixed_classic.go.

// entry is a group as a member that comes finds it.
type entry struct {
	*consumer           // as it is, or will be; empty for one that is yet to be
	classic   *classic  // that is to become it; nil
	converts  []convert // its members
}

// convert is one member on its way from the classic protocol.
type convert struct {
	member memberRecord
	cur    currentRecord
	target targetRecord
}

// enter finds the group that a heartbeat is for. One that is not there is made
// for a member that joins, once open is called: an empty group of whatever
// kind gives way, and a classic one is turned into a consumer group.
func (s *step) enter(group string, join bool) (*entry, *refusal) {
	g := s.lookup(group)
	if g == nil && !join {
		return nil, refuse(kerr.GroupIDNotFound, "Consumer group %s not found.", group)
	}
	if c := s.consumerIn(group); c != nil {
		return &entry{consumer: c}, nil
	}
	if !join {
		return nil, refuse(kerr.GroupIDNotFound, "Group %s is not a consumer group.", group)
	}
	if _, c := s.classicOf(group); c != nil && c.phase != phaseEmpty {
		return s.enterClassic(c)
	}
	return &entry{consumer: newConsumer(group, &s.topics)}, nil
}

// open makes the group what enter said.
func (s *step) open(e *entry) *consumer {
	if e.classic != nil {
		return s.upgrade(e)
	}
	if g := s.lookup(e.group); g != nil && g.members != nil && g.members != protocol(e.consumer) {
		g.members.remove(s)
	}
	return e.consumer
}

// full says whether the group has no room for a member.
func (s *step) full(c *consumer, id string, instance *string) bool {
	if instance != nil && c.static(*instance) != nil {
		return false
	}
	return len(c.members) >= s.cfg.ConsumerMaxSize && c.members[id] == nil
}

// enterClassic reads the members of a classic group that is to become a
// consumer group. Nothing of the machine changes.
func (s *step) enterClassic(c *classic) (*entry, *refusal) {
	cannot := func(why string) (*entry, *refusal) {
		return nil, refuse(kerr.GroupIDNotFound, "Cannot upgrade classic group %s to consumer group because %s.", c.id, why)
	}
	switch {
	case !s.cfg.ConsumerMigration.Upgrade:
		return cannot("online upgrade is disabled")
	case c.kind != "consumer":
		return cannot("the group does not use the consumer embedded protocol")
	case len(c.members) > s.cfg.ConsumerMaxSize:
		return cannot("the group size exceeds the consumer group maximum size")
	}
	e := &entry{classic: c}
	view := &Machine{groups: map[string]*Group{}} // what the group will be
	e.consumer = view.consumerOf(c.id)
	for _, m := range c.sorted() {
		v, why := s.convert(c, m)
		if why != "" {
			return cannot(why)
		}
		e.converts = append(e.converts, v)
		view.applyMember(&v.member)
		view.applyCurrent(&v.cur)
	}
	return e, nil
}

// convert is what a member of a classic group is in a consumer group: in its
// generation, with what it was assigned. why is set where that cannot be said.
func (s *step) convert(c *classic, m *classicMember) (out convert, why string) {
	const malformed = "the embedded consumer protocol is malformed"
	protocol := m.protocols[0].Name // of a group that has yet to agree on one
	if c.protocol != nil {
		protocol = *c.protocol
	}
	sub, ok := subscriptionOf(m.metadata(protocol))
	if !ok {
		return out, malformed
	}
	parts := map[kafka.TopicID][]int32{}
	if len(m.assignment) > 0 {
		a := kmsg.NewConsumerMemberAssignment()
		if a.ReadFrom(m.assignment) != nil || a.Version < 0 {
			return out, malformed
		}
		if len(a.UserData) > 0 {
			return out, "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default assignor before re-attempting the upgrade"
		}
		for _, t := range a.Topics {
			if topic, ok := s.image.Topic(t.Topic); ok && len(t.Partitions) > 0 {
				parts[topic.ID] = slices.Compact(slices.Sorted(slices.Values(t.Partitions)))
			}
		}
	}
	cur := &current{Epoch: c.generation, PreviousEpoch: c.generation, Assigned: orderedList(targetOf(parts).Topics, c.generation)}
	v := &memberMetadata{
		Instance: m.instance, Rack: rackOf(sub), ClientID: m.clientID, Host: m.host, Topics: topicSet(sub.Topics), Regex: noMetadata.Regex,
		RebalanceTimeoutMs: m.rebalanceMs, Classic: &classicMetadata{SessionTimeoutMs: m.sessionMs, Protocols: m.protocols},
	}
	out.member = memberRecord{Group: c.id, Member: m.id, Value: v}
	out.cur = currentRecord{Group: c.id, Member: m.id, Value: cur}
	out.target = targetRecord{Group: c.id, Member: m.id, Value: targetOf(parts)}
	return out, ""
}

// upgrade turns a classic group into a consumer group, as it stands.
func (s *step) upgrade(e *entry) *consumer {
	id, generation := e.classic.id, e.classic.generation
	s.dissolve(e.classic)
	c := s.consumerOf(id)
	for i := range e.converts {
		s.emit(&e.converts[i].member)
	}
	s.emit(&groupEpochRecord{Group: id, Value: &groupEpoch{Epoch: generation, MetadataHash: s.metadataHash(c)}})
	for i := range e.converts {
		s.emit(&e.converts[i].target)
	}
	s.emit(&targetEpochRecord{Group: id, Value: &targetEpoch{Epoch: generation}})
	for i := range e.converts {
		s.emit(&e.converts[i].cur)
	}
	for _, id := range c.ids() {
		s.renew(c, c.members[id], c.members[id].classicSession())
	}
	return c
}

// downgradeWithout makes a group without the members that go a classic one, if
// only members of that protocol stay and policy allows it. They are asked to join anew.
func (s *step) downgradeWithout(c *consumer, going []string) bool {
	left, classics := len(c.members)-len(going), c.classics
	goes := make(map[string]bool, len(going))
	for _, id := range going {
		goes[id] = true
		if c.members[id].classic() {
			classics--
		}
	}
	if left == 0 || left != classics || !s.mayDowngrade(left) {
		return false
	}
	draft := s.draftDowngrade(c, slices.DeleteFunc(c.ids(), func(id string) bool { return goes[id] }))
	if draft == nil {
		return false
	}
	s.prepareRebalance(s.downgrade(c, draft), draft)
	return true
}

func (s *step) mayDowngrade(size int) bool {
	return s.cfg.ConsumerMigration.Downgrade && size <= s.cfg.MaxSize
}

// draftDowngrade is the classic group that the members would be: each has what
// it may still use, so that no one else gets that if the group is upgraded again
// before they rejoined. (Apache Kafka writes the target, which is the same
// once they are settled.) Nil where the log would not take it.
func (s *step) draftDowngrade(c *consumer, stay []string) *classic {
	members := make([]*classicMember, 0, len(stay))
	for _, id := range stay {
		m := c.members[id]
		members = append(members, &classicMember{
			id: m.id, instance: m.meta.Instance, clientID: m.meta.ClientID, host: m.meta.Host,
			rebalanceMs: m.meta.RebalanceTimeoutMs, sessionMs: m.meta.Classic.SessionTimeoutMs, protocols: m.meta.Classic.Protocols,
		})
	}
	draft := draftClassic(c.group, c.epoch, members, s.now)
	for _, m := range members {
		m.assignment = s.serialize(c.members[m.id].uses(), versionOf(m.metadata(*draft.protocol)))
	}
	if !s.fits(draft.body()) {
		return nil
	}
	return draft
}

func (s *step) downgrade(c *consumer, draft *classic) *Group {
	for _, id := range c.ids() {
		s.cancelTimers(c, c.members[id])
	}
	c.remove(s)
	return s.restoreClassic(draft)
}

// bury writes the tombstones of all that the group has.
func (s *step) bury(c *consumer) {
	ids := c.ids()
	for _, id := range ids {
		s.emit(&currentRecord{Group: c.group, Member: id})
	}
	for _, id := range slices.Sorted(maps.Keys(c.targets)) {
		s.emit(&targetRecord{Group: c.group, Member: id})
	}
	s.emit(&targetEpochRecord{Group: c.group})
	for _, id := range ids {
		s.emit(&memberRecord{Group: c.group, Member: id})
	}
	for _, r := range slices.Sorted(maps.Keys(c.resolved)) {
		s.emit(&regexRecord{Group: c.group, Regex: r})
	}
	s.emit(&partitionMetadataRecord{Group: c.group, Tombstone: true})
	s.emit(&groupEpochRecord{Group: c.group})
}

// What consumers of the classic protocol say and are told is their own format
// in the protocol's bytes.

// highestVersion of that format that Apache Kafka knows.
const highestVersion = 3

func subscriptionOf(metadata []byte) (v kmsg.ConsumerMemberMetadata, ok bool) {
	v = kmsg.NewConsumerMemberMetadata()
	err := v.ReadFrom(metadata)
	return v, err == nil && v.Version >= 0
}

func rackOf(v kmsg.ConsumerMemberMetadata) *string {
	if v.Rack == nil || *v.Rack == "" {
		return nil
	}
	return v.Rack
}

// versionOf is the version of the format that a member's metadata has; what it
// says under protocols that were not looked at may be anything.
func versionOf(metadata []byte) int16 {
	if len(metadata) < 2 {
		return 0
	}
	return min(max(int16(binary.BigEndian.Uint16(metadata)), 0), highestVersion)
}

// serialize writes an assignment in that version.
func (s *step) serialize(list []topicPartitions, version int16) []byte {
	a := kmsg.NewConsumerMemberAssignment()
	a.Version = version
	for _, t := range list {
		if topic, ok := s.image.TopicByID(t.Topic); ok {
			at := kmsg.NewConsumerMemberAssignmentTopic()
			at.Topic, at.Partitions = topic.Name, t.Partitions
			a.Topics = append(a.Topics, at)
		}
	}
	return a.AppendTo(nil)
}
