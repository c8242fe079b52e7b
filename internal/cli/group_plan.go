package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
)

// resetPlan is what reset-offsets looks up before it decides.
type resetPlan struct {
	flags        resetFlags
	group        string
	committed    kadm.OffsetResponses
	starts, ends kadm.ListedOffsets
	times        kadm.ListedOffsets // the first record from a time on, or the end
	notes        []string
}

// planReset says what would be committed, and notes what is not as was asked.
func planReset(ctx context.Context, adm *kadm.Client, group string, rf resetFlags) ([]move, []string, error) {
	p := &resetPlan{flags: rf, group: group}
	var err error
	if p.committed, err = committedOffsets(ctx, adm, group); err != nil {
		return nil, nil, err
	}
	todo, err := p.partitions(ctx, adm)
	if err != nil {
		return nil, nil, err
	}
	topics := todo.names()
	if len(topics) == 0 {
		return nil, p.notes, nil
	}
	if p.starts, err = adm.ListStartOffsets(ctx, topics...); err != nil {
		return nil, nil, err
	}
	if p.ends, err = adm.ListEndOffsets(ctx, topics...); err != nil {
		return nil, nil, err
	}
	if rf.to == "to-datetime" || rf.to == "by-duration" {
		if p.times, err = adm.ListOffsetsAfterMilli(ctx, rf.timeMs, topics...); err != nil {
			return nil, nil, err
		}
	}
	moves := []move{}
	for _, topic := range topics {
		for _, n := range todo[topic] {
			m, err := p.move(topic, n)
			if err != nil {
				return nil, nil, err
			}
			moves = append(moves, m)
		}
	}
	return moves, p.notes, nil
}

// partitions are those to reset, of topics that exist.
func (p *resetPlan) partitions(ctx context.Context, adm *kadm.Client) (scope, error) {
	todo := scope{}
	for topic, ps := range p.flags.scope {
		todo[topic] = ps
	}
	if p.flags.allTopics {
		for _, tp := range p.committed.Partitions().Sorted() {
			todo[tp.Topic] = tp.Partitions
		}
	}
	for _, l := range p.flags.lines {
		if !slices.Contains(todo[l.topic], l.partition) {
			todo[l.topic] = append(todo[l.topic], l.partition)
		}
	}
	if len(todo) == 0 {
		return nil, fmt.Errorf("the group %s has no committed offsets: name the topics with --topic", p.group)
	}
	found, err := adm.ListTopicsWithInternal(ctx, todo.names()...)
	if err != nil {
		return nil, err
	}
	for _, topic := range todo.names() {
		d := found[topic]
		if p.flags.allTopics && errors.Is(d.Err, kerr.UnknownTopicOrPartition) {
			p.notes = append(p.notes, fmt.Sprintf("topic %s is gone: its offsets are left as they are", topic))
			delete(todo, topic)
			continue
		}
		if err := refusal("topic", topic, d.Err, ""); err != nil {
			return nil, err
		}
		if todo[topic] == nil {
			todo[topic] = d.Partitions.Numbers()
		}
		for _, n := range todo[topic] {
			if _, ok := d.Partitions[n]; !ok {
				return nil, usagef("topic %s has the partitions 0 to %d, not %d", topic, len(d.Partitions)-1, n)
			}
		}
	}
	return todo, nil
}

// move decides about one partition.
func (p *resetPlan) move(topic string, n int32) (move, error) {
	start, ok := p.starts.Lookup(topic, n)
	end, ok2 := p.ends.Lookup(topic, n)
	for _, l := range []kadm.ListedOffset{start, end} {
		if l.Err != nil {
			return move{}, fmt.Errorf("partition %d of %s: %w", n, topic, l.Err)
		}
	}
	if !ok || !ok2 {
		return move{}, fmt.Errorf("partition %d of %s: no broker said where it begins and ends", n, topic)
	}
	m := move{Topic: topic, Partition: n, New: end.Offset}
	if o, ok := p.committed.Lookup(topic, n); ok && o.Err == nil && o.At >= 0 {
		m.Old = &o.At
	}
	switch p.flags.to {
	case "to-earliest":
		m.New = start.Offset
	case "to-current":
		if m.Old != nil {
			m.New = *m.Old
		}
		return m, nil
	case "to-offset":
		m.New = p.flags.offset
	case "shift-by":
		if m.Old == nil {
			return m, fmt.Errorf("partition %d of %s: there is no committed offset to shift", n, topic)
		}
		m.New = *m.Old + p.flags.shift
	case "to-datetime", "by-duration":
		if t, ok := p.times.Lookup(topic, n); ok && t.Err == nil && t.Offset >= 0 {
			m.New = t.Offset
		}
	case "from-file":
		for _, l := range p.flags.lines {
			if l.topic == topic && l.partition == n {
				m.New = l.offset
			}
		}
	}
	if held := min(max(m.New, start.Offset), end.Offset); held != m.New {
		p.notes = append(p.notes, fmt.Sprintf("partition %d of %s begins at %d and ends at %d: %d becomes %d", n, topic, start.Offset, end.Offset, m.New, held))
		m.New = held
	}
	return m, nil
}
