package group

import (
	"bytes"
	"cmp"
	"maps"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Records may come in any order that compaction leaves: a tombstone of
// something that is not there is nothing, and a record that names a member
// makes one.

// consumerIn is the group's consumer protocol side, nil if it has none.
func (m *Machine) consumerIn(group string) *consumer {
	if g := m.lookup(group); g != nil {
		c, _ := g.members.(*consumer)
		return c
	}
	return nil
}

// consumerOf is that, made where there is none.
func (m *Machine) consumerOf(group string) *consumer {
	g := m.of(group)
	c, ok := g.members.(*consumer)
	if !ok {
		c = newConsumer(g.id, &m.topics)
		g.members = c
	}
	return c
}

func (m *Machine) applyGroupEpoch(b *groupEpochRecord) {
	if b.Value != nil {
		c := m.consumerOf(b.Group)
		c.epoch, c.hash = b.Value.Epoch, b.Value.MetadataHash
		return
	}
	c := m.consumerIn(b.Group)
	if c == nil {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(c.topics)) {
		m.topics.remove(name, c.group)
	}
	g := m.lookup(b.Group)
	g.members = nil
	m.drop(g)
}

func (m *Machine) applyPartitionMetadata(b *partitionMetadataRecord) {
	if !b.Tombstone {
		m.consumerOf(b.Group).legacy = true
	} else if c := m.consumerIn(b.Group); c != nil {
		c.legacy = false
	}
}

func (m *Machine) applyMember(b *memberRecord) {
	if b.Value == nil {
		if c := m.consumerIn(b.Group); c != nil && c.members[b.Member] != nil {
			c.replace(c.members[b.Member], nil)
		}
		return
	}
	c := m.consumerOf(b.Group)
	old, now := c.change(b.Member)
	now.meta = b.Value
	c.replace(old, now)
}

func (m *Machine) applyCurrent(b *currentRecord) {
	if b.Value == nil {
		if c := m.consumerIn(b.Group); c != nil && c.members[b.Member] != nil {
			old, now := c.change(b.Member)
			now.cur = noCurrent
			c.replace(old, now)
		}
		return
	}
	c := m.consumerOf(b.Group)
	old, now := c.change(b.Member)
	now.cur = b.Value.ordered()
	c.replace(old, now)
}

func (m *Machine) applyTargetEpoch(b *targetEpochRecord) {
	if b.Value != nil {
		m.consumerOf(b.Group).made = *b.Value
	} else if c := m.consumerIn(b.Group); c != nil {
		c.made = targetEpoch{Epoch: -1}
	}
}

func (m *Machine) applyTarget(b *targetRecord) {
	if b.Value == nil {
		if c := m.consumerIn(b.Group); c != nil {
			delete(c.targets, b.Member)
		}
		return
	}
	parts := make(map[kafka.TopicID][]int32, len(b.Value.Topics))
	for _, t := range b.Value.Topics {
		parts[t.Topic] = ascending(t.Partitions)
	}
	m.consumerOf(b.Group).targets[b.Member] = parts
}

func (m *Machine) applyRegex(b *regexRecord) {
	var c *consumer
	if b.Value != nil {
		c = m.consumerOf(b.Group)
		c.scanned.Version, c.scanned.AtMs = b.Value.Version, b.Value.AtMs
		for _, name := range b.Value.Topics {
			c.read(name, 0, 1)
		}
	} else if c = m.consumerIn(b.Group); c == nil {
		return
	}
	if old := c.resolved[b.Regex]; old != nil {
		for _, name := range old.Topics {
			c.read(name, 0, -1)
		}
	}
	if b.Value != nil {
		c.resolved[b.Regex] = b.Value
	} else {
		delete(c.resolved, b.Regex)
	}
}

// change gives a member as it is, nil if there is none, and a copy to change.
func (c *consumer) change(id string) (old, now *consumerMember) {
	old = c.members[id]
	if old == nil {
		return nil, &consumerMember{id: id, meta: noMetadata, cur: noCurrent, pulse: &pulse{}}
	}
	m := *old
	return old, &m
}

// replace puts one state of a member in the place of another, either of them
// nil for none, and keeps the sums.
func (c *consumer) replace(old, now *consumerMember) {
	if old == nil || now == nil || old.meta != now.meta {
		if old != nil && old.meta.Instance != nil && c.statics[*old.meta.Instance] == old.id {
			delete(c.statics, *old.meta.Instance)
		}
		if now != nil {
			c.countMeta(now.meta, 1)
			if now.meta.Instance != nil {
				c.statics[*now.meta.Instance] = now.id
			}
		}
		if old != nil {
			c.countMeta(old.meta, -1)
		}
	}
	if old == nil || now == nil || old.cur != now.cur {
		if old != nil {
			c.disown(old.id, old.cur.Assigned)
			c.disown(old.id, old.cur.PendingRevocation)
			c.countSettled(old, -1)
		}
		if now != nil {
			c.own(now.id, now.cur.Assigned)
			c.own(now.id, now.cur.PendingRevocation)
			c.countSettled(now, 1)
		}
	}
	if now != nil {
		c.members[now.id] = now
	} else {
		delete(c.members, old.id)
	}
}

func (c *consumer) countMeta(v *memberMetadata, by int) {
	for _, name := range v.Topics {
		c.read(name, by, 0)
	}
	if r := v.regex(); r != "" {
		count(c.regexes, r, by)
	}
	if v.Assignor != nil {
		count(c.assignors, *v.Assignor, by)
	}
	if v.Classic != nil {
		c.classics += by
		for _, p := range v.Classic.Protocols {
			count(c.offered, p.Name, by)
		}
	}
}

func (c *consumer) countSettled(m *consumerMember, by int) {
	if m.cur.State == memberStable {
		count(c.settled, m.cur.Epoch, by)
	}
}

func count[K comparable](m map[K]int, k K, by int) {
	if m[k] += by; m[k] == 0 {
		delete(m, k)
	}
}

// read counts readers of a topic.
func (c *consumer) read(topic string, byName, byRegex int) {
	was := c.topics[topic]
	is := readers{was.byName + byName, was.byRegex + byRegex}
	if (was != readers{}) {
		count(c.alike, was, -1)
	}
	if (is != readers{}) {
		count(c.alike, is, 1)
	}
	switch {
	case is == readers{}:
		delete(c.topics, topic)
		c.index.remove(topic, c.group)
		return
	case was == readers{}:
		c.index.add(topic, c.group)
	}
	c.topics[topic] = is
}

func (c *consumer) own(member string, list []topicPartitions) {
	for _, t := range list {
		owners := c.owners[t.Topic]
		if owners == nil {
			owners = map[int32]string{}
			c.owners[t.Topic] = owners
		}
		for _, p := range t.Partitions {
			owners[p] = member
		}
	}
}

// disown leaves alone what another member took over already.
func (c *consumer) disown(member string, list []topicPartitions) {
	for _, t := range list {
		owners := c.owners[t.Topic]
		for _, p := range t.Partitions {
			if owners[p] == member {
				delete(owners, p)
			}
		}
		if len(owners) == 0 {
			delete(c.owners, t.Topic)
		}
	}
}

// ordered is the same with topics and partitions in order and an epoch for each
// partition: another broker, or an older one, may have written it otherwise.
func (v *current) ordered() *current {
	out := *v
	if out.State != memberStable && out.State != memberUnrevokedPartitions && out.State != memberUnreleasedPartitions {
		out.State = memberUnknown
	}
	out.Assigned = orderedList(v.Assigned, max(v.Epoch, 0))
	out.PendingRevocation = orderedList(v.PendingRevocation, max(v.Epoch, 0))
	return &out
}

func orderedList(list []topicPartitions, epoch int32) []topicPartitions {
	byTopic := func(a, b topicPartitions) int { return compareIDs(a.Topic, b.Topic) }
	good := slices.IsSortedFunc(list, byTopic)
	for _, t := range list {
		good = good && slices.IsSorted(t.Partitions) && len(t.Epochs) == len(t.Partitions)
	}
	if good {
		return list
	}
	out := make([]topicPartitions, len(list))
	for i, t := range list {
		out[i] = t.ordered(epoch)
	}
	slices.SortFunc(out, byTopic)
	return out
}

func (t topicPartitions) ordered(epoch int32) topicPartitions {
	type pair struct{ partition, epoch int32 }
	pairs := make([]pair, len(t.Partitions))
	for i, p := range t.Partitions {
		pairs[i] = pair{p, epoch}
		if len(t.Epochs) == len(t.Partitions) {
			pairs[i].epoch = t.Epochs[i]
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.partition, b.partition) })
	out := topicPartitions{Topic: t.Topic}
	for _, p := range pairs {
		out.Partitions, out.Epochs = append(out.Partitions, p.partition), append(out.Epochs, p.epoch)
	}
	return out
}

func ascending(list []int32) []int32 {
	if slices.IsSorted(list) {
		return list
	}
	return slices.Sorted(slices.Values(list))
}

func compareIDs(a, b kafka.TopicID) int { return bytes.Compare(a[:], b[:]) }
