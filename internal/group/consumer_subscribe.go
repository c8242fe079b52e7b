package group

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/barnabas-mq/barnabas/internal/group/assign"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
)

// From what members read to a group epoch, and from that to a target assignment.

// subscribe writes what a member says of itself, and a new group epoch where
// that follows; by is nil for a member of the classic protocol. It gives the
// group, which the first record makes, and whether the member reads other topics now.
func (s *step) subscribe(c *consumer, m *consumerMember, next *memberMetadata, by *ConsumerHeartbeat) (*consumer, bool) {
	assignor, may := s.assignorOf(c), s.mayScan(c)
	known := c.regexes[next.regex()] > 0
	if next != m.meta {
		s.emit(&memberRecord{Group: c.group, Member: m.id, Value: next})
		c = s.consumerIn(c.group)
	}
	topics := !slices.Equal(m.meta.Topics, next.Topics)
	regex, need := s.changeRegex(c, m.meta, next, known)
	bump := topics || regex == regexResolved || assignor != s.assignorOf(c)
	if next.Classic != nil {
		// What this client may see is not known: a look waits for a heartbeat.
		bump = topics || regex != regexSame
	} else {
		s.wantScan(c, need, may, by)
	}
	if bump || !c.fresh {
		s.refresh(c, bump)
	}
	return c, topics || regex != regexSame
}

// refresh compares the topics that the group reads with those of its epoch.
func (s *step) refresh(c *consumer, bump bool) {
	if hash := s.metadataHash(c); bump || hash != c.hash {
		s.bump(c, hash)
	}
	c.fresh = true
	if c.legacy {
		s.emit(&partitionMetadataRecord{Group: c.group, Tombstone: true})
	}
}

// bump begins a new group epoch.
func (s *step) bump(c *consumer, hash int64) {
	s.emit(&groupEpochRecord{Group: c.group, Value: &groupEpoch{Epoch: c.epoch + 1, MetadataHash: hash}})
	s.lookup(c.group).rebalances++
}

// assignorOf is the assignor that most members want; of equals the first that is configured.
func (s *step) assignorOf(c *consumer) string {
	best := s.cfg.ConsumerAssignors[0]
	for _, name := range s.cfg.ConsumerAssignors {
		if c.assignors[name] > c.assignors[best] {
			best = name
		}
	}
	return best
}

// assignIfDue makes a target assignment for the group's epoch, unless there is
// one, or the last is too young (KIP-1263); the next heartbeat will see then.
func (s *step) assignIfDue(c *consumer) {
	if c.made.Epoch >= c.epoch {
		return
	}
	since := s.now.UnixMilli() - c.made.AtMs
	interval := s.settings(c.group).AssignmentInterval.Milliseconds()
	if c.made.AtMs != 0 && interval != 0 && since >= 0 && since < interval {
		return
	}
	by, _ := assign.ByName(s.assignorOf(c))
	spec := s.spec(c)
	for i, parts := range by.Assign(spec) {
		id := spec.Members[i].ID
		if old, ok := c.targets[id]; !ok || !maps.EqualFunc(old, parts, slices.Equal) {
			s.emit(&targetRecord{Group: c.group, Member: id, Value: targetOf(parts)})
		}
	}
	s.emit(&targetEpochRecord{Group: c.group, Value: &targetEpoch{Epoch: c.epoch, AtMs: s.now.UnixMilli()}})
}

func targetOf(parts map[kafka.TopicID][]int32) *target {
	out := &target{}
	for _, id := range slices.SortedFunc(maps.Keys(parts), compareIDs) {
		out.Topics = append(out.Topics, topicPartitions{Topic: id, Partitions: parts[id]})
	}
	return out
}

// spec is what the assignor is to know. Topics that do not exist are left out.
func (s *step) spec(c *consumer) assign.Spec {
	spec := assign.Spec{Homogeneous: c.homogeneous()}
	read := s.topicsOf(c)
	ids := make(map[string]kafka.TopicID, len(read))
	for _, t := range read {
		ids[t.Name] = t.ID
		spec.Topics = append(spec.Topics, assign.Topic{ID: t.ID, Partitions: int32(len(t.Partitions)), Racks: knownRacks(s.racks(t))})
	}
	slices.SortFunc(spec.Topics, func(a, b assign.Topic) int { return compareIDs(a.ID, b.ID) })
	var last *memberMetadata // of the member before: most read the same
	var topics []kafka.TopicID
	for _, id := range slices.Sorted(maps.Keys(c.members)) {
		v := c.members[id].meta
		if last == nil || !slices.Equal(last.Topics, v.Topics) || last.regex() != v.regex() {
			topics, last = c.subscribed(v, read, ids), v
		}
		m := assign.Member{ID: id, Topics: topics, Owned: c.targets[id]}
		if v.Instance != nil {
			m.Instance = *v.Instance
		}
		if v.Rack != nil {
			m.Rack = *v.Rack
		}
		spec.Members = append(spec.Members, m)
	}
	return spec
}

func knownRacks(racks [][]string) [][]string {
	if slices.ContainsFunc(racks, func(in []string) bool { return len(in) > 0 }) {
		return racks
	}
	return nil
}

// subscribed are the topics that a member reads, by name and by regular
// expression, of those that the group reads and that exist.
func (c *consumer) subscribed(v *memberMetadata, read []*meta.Topic, ids map[string]kafka.TopicID) []kafka.TopicID {
	var out []kafka.TopicID
	add := func(names []string) {
		if len(names) > len(read) {
			for _, t := range read {
				if _, named := slices.BinarySearch(names, t.Name); named {
					out = append(out, t.ID)
				}
			}
			return
		}
		for _, name := range names {
			if id, ok := ids[name]; ok {
				out = append(out, id)
			}
		}
	}
	add(v.Topics)
	if r := c.resolved[v.regex()]; r != nil {
		add(r.Topics)
	}
	slices.SortFunc(out, compareIDs)
	return slices.Compact(out)
}

// homogeneous says whether all members read the same topics, as Apache Kafka
// counts it: all by name, or all by one regular expression.
func (c *consumer) homogeneous() bool {
	want := readers{byName: len(c.members)}
	if len(c.regexes) > 0 {
		want = readers{byRegex: 1}
		for _, r := range slices.Sorted(maps.Keys(c.regexes)) {
			if c.regexes[r] != len(c.members) {
				return false
			}
		}
	}
	for _, r := range slices.SortedFunc(maps.Keys(c.alike), readers.compare) {
		if r.byName != want.byName || len(c.regexes) > 0 && r != want {
			return false
		}
	}
	return true
}

// settings are those of a group: its own, within the broker's bounds, or the broker's.
func (s *step) settings(group string) Settings {
	out, own := s.cfg.ConsumerDefaults, s.image.GroupConfig(group)
	set := func(key string, to *time.Duration, least, most time.Duration) {
		if v, ok := own[key]; ok {
			if ms, err := strconv.ParseInt(v, 10, 32); err == nil {
				*to = min(max(time.Duration(ms)*time.Millisecond, least), most)
			}
		}
	}
	least, most := s.cfg.ConsumerMin, s.cfg.ConsumerMax
	set("consumer.session.timeout.ms", &out.Session, least.Session, most.Session)
	set("consumer.heartbeat.interval.ms", &out.Heartbeat, least.Heartbeat, most.Heartbeat)
	set("consumer.assignment.interval.ms", &out.AssignmentInterval, least.AssignmentInterval, most.AssignmentInterval)
	return out
}
