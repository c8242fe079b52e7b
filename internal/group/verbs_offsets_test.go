package group

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
)

func init() {
	maps.Copy(verbs, map[string]func(*rig, metatest.Words) string{
		"commit":         (*rig).commit,
		"marker":         (*rig).marker,
		"fetch":          (*rig).fetch,
		"delete-offsets": (*rig).deleteOffsets,
		"remove-offsets": (*rig).removeOffsets,
		"observe":        (*rig).observe,
	})
}

// dumpOffsets is the hard state of a group's offsets. It holds the counts and
// the soft state against it in passing.
func dumpOffsets(m *Machine, g *Group) string {
	var b strings.Builder
	counts := map[*topic]int32{}
	for _, at := range m.committed.byTopic(g.offsets.places(true)) {
		t := m.committed.at(at)
		if v, ok := g.offsets.get(t, partitionOf(at)); ok {
			counts[t]++
			fmt.Fprintf(&b, "  %s-%d %s\n", t.name, partitionOf(at), briefOffset(v))
		}
		open := g.offsets.open[at]
		if open == nil {
			continue
		}
		counts[t]++
		for _, p := range open.producers {
			v, ok := m.pending.by[p][pendingAt{g, at}]
			if !ok {
				panic(fmt.Sprintf("%s %s-%d is open for %d, which has nothing pending", g.id, t.name, partitionOf(at), p))
			}
			stale := ""
			if v.seq < open.newest {
				stale = " (older)"
			}
			fmt.Fprintf(&b, "  %s-%d producer %d: %s%s\n", t.name, partitionOf(at), p, briefOffset(v.offset), stale)
		}
	}
	checkCounts(m, g, counts)
	return b.String()
}

func checkCounts(m *Machine, g *Group, counts map[*topic]int32) {
	if g.offsets.empty() && g.members == nil {
		panic(g.id + " is empty and there")
	}
	for name, t := range m.committed.byName {
		if t.groups[g] != counts[t] || len(t.groups) == 0 || m.committed.byNumber[t.number] != t {
			panic(fmt.Sprintf("%s counts %d of %s and has %d", g.id, t.groups[g], name, counts[t]))
		}
	}
	for producer, txn := range m.pending.by {
		for at := range txn {
			open := at.g.offsets.open[at.at]
			if open == nil || !slices.Contains(open.producers, producer) || m.groups[at.g.id] != at.g {
				panic(fmt.Sprintf("%d has something pending for %s, which does not know", producer, at.g.id))
			}
		}
	}
}

func briefOffset(v offset) string {
	s := fmt.Sprintf("%d at %d", v.Offset, v.CommitMs)
	if v.LeaderEpoch != -1 {
		s += fmt.Sprintf(" epoch %d", v.LeaderEpoch)
	}
	if v.ExpireMs != -1 {
		s += fmt.Sprintf(" expires %d", v.ExpireMs)
	}
	if v.Metadata != "" {
		s += fmt.Sprintf(" %.20q", v.Metadata)
	}
	if !v.TopicID.IsZero() {
		s += fmt.Sprintf(" #%d", v.TopicID[0])
	}
	return s
}

func (r *rig) topicID(name string) kafka.TopicID {
	if t, ok := r.w.Img.Topic(name); ok {
		return t.ID
	}
	return kafka.TopicID{}
}

// commit g=g m=m1 i=instance gen=1 v=9 retention=60000 producer=7
//
//	topic partition offset [epoch=3] [meta=text] [long=4097] [id=none]
func (r *rig) commit(a metatest.Words) string {
	c := &CommitOffsets{
		Group: a.Str("g", "g"), Member: a.Str("m", ""), Generation: int32(a.Int("gen", -1)),
		Version: int16(a.Int("v", 9)), RetentionMs: a.Int("retention", -1),
	}
	if a.D.HasArg("i") {
		c.Instance = ptr(a.Str("i", ""))
	}
	if a.D.HasArg("producer") {
		c.Producer = &CommitProducer{ID: a.Int("producer", 0)}
	}
	for line := range strings.Lines(a.D.Input) {
		c.Partitions = append(c.Partitions, r.partition(strings.Fields(line)))
	}
	return r.do("commit", c)
}

func (r *rig) partition(f []string) CommitPartition {
	p := CommitPartition{Topic: f[0], Partition: int32(number(f[1])), Offset: number(f[2]), LeaderEpoch: -1, TopicID: r.topicID(f[0])}
	for _, arg := range f[3:] {
		switch key, value, _ := strings.Cut(arg, "="); key {
		case "epoch":
			p.LeaderEpoch = int32(number(value))
		case "meta":
			p.Metadata = value
		case "long":
			p.Metadata = strings.Repeat("x", int(number(value)))
		case "umlauts": // two bytes each, one to Apache Kafka
			p.Metadata = strings.Repeat("ü", int(number(value)))
		case "id":
			p.TopicID = kafka.TopicID{}
			if value != "none" {
				p.TopicID[0] = byte(number(value))
			}
		default:
			panic("what is " + arg)
		}
	}
	return p
}

func number(s string) int64 {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}

// marker producer=7 [abort]: the marker is in the log as it would be.
func (r *rig) marker(a metatest.Words) string {
	p, commit := coord.Producer{ID: a.Int("producer", 0)}, !a.D.HasArg("abort")
	r.log = append(r.log, coord.Record{})
	r.metas = append(r.metas, coord.Meta{Producer: p, Transactional: commit})
	r.m.ApplyMarker(p, commit)
	return ""
}

// fetch g=g m=m1 epoch=3 stable all
//
//	topic partition... [id=none]
func (r *rig) fetch(a metatest.Words) string {
	c := &FetchOffsets{Group: a.Str("g", "g"), MemberEpoch: int32(a.Int("epoch", -1)), RequireStable: a.D.HasArg("stable")}
	if a.D.HasArg("m") {
		c.Member = ptr(a.Str("m", ""))
	}
	if !a.D.HasArg("all") {
		c.Topics = []FetchTopic{}
	}
	for line := range strings.Lines(a.D.Input) {
		f := strings.Fields(line)
		t := FetchTopic{Name: f[0]}
		for _, arg := range f[1:] {
			if id, ok := strings.CutPrefix(arg, "id="); ok {
				t.ID[0] = byte(number(id))
				continue
			}
			t.Partitions = append(t.Partitions, int32(number(arg)))
		}
		c.Topics = append(c.Topics, t)
	}
	return r.do("fetch", c)
}

// delete-offsets g=g
//
//	topic partition...
func (r *rig) deleteOffsets(a metatest.Words) string {
	c := &DeleteOffsets{Group: a.Str("g", "g")}
	for line := range strings.Lines(a.D.Input) {
		f := strings.Fields(line)
		for _, p := range f[1:] {
			c.Partitions = append(c.Partitions, kafka.TopicPartition{Topic: f[0], Partition: int32(number(p))})
		}
	}
	return r.do("delete", c)
}

// remove-offsets g=g: what deleting a group does first.
func (r *rig) removeOffsets(a metatest.Words) string {
	var out coord.Out
	s := &step{Machine: r.m, now: r.now, out: &out}
	s.removeOffsets(r.m.lookup(a.Str("g", "g")))
	s.settle()
	return r.took("", out)
}

func (r *rig) observe(metatest.Words) string {
	r.tokens++
	var b strings.Builder
	for _, st := range r.m.Step(r.now, r.tokens, &Observe{}).Replies[0].Body.([]Stats) {
		fmt.Fprintf(&b, "%s %s %s members=%d rebalances=%d commits=%d", st.Group, st.Type, st.State, st.Members, st.Rebalances, st.Commits)
		for _, o := range st.Offsets {
			fmt.Fprintf(&b, " %s=%d(%d)", o.TopicPartition, o.Offset, o.At.UnixMilli())
		}
		b.WriteString("\n")
	}
	return b.String()
}
