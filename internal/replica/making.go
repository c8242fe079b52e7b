package replica

import (
	"context"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/storage"
)

const (
	// creators bounds how many logs are made side by side: each costs a few syncs,
	// and the device does them together.
	creators = 16
	// makeAtOnce is how many logs Apply makes, and a batch of Next's.
	makeAtOnce = 64
	// makersBehind bounds how many Make makes side by side. More are not faster where
	// brokers share a disk, and those whose records are synced meanwhile wait for all.
	makersBehind = 2
)

// Making is a log that is being made in the background.
type Making struct {
	tp  kafka.TopicPartition
	id  kafka.TopicID
	cfg storage.Config
	err error
}

// portion leaves of work what Apply does itself: all that needs no new log, and
// few new logs where none wait. Else they wait for Next: the image waits for Apply,
// and a broker whose image is behind for long is fenced, so a topic of thousands of
// partitions would fence all who hold it. First in a queue are partitions that
// this broker is to lead: they serve the sooner, and brokers that make the same
// topic name directories of different partitions at a time. failed are those that
// were tried before.
func (m *Manager) portion(work []change, failed map[kafka.TopicPartition]bool) []change {
	now := make([]change, 0, len(work))
	var fresh []change
	for _, c := range work {
		switch {
		case !m.fresh(c):
			now = append(now, c)
		case m.waits[c.tp]:
			if failed[c.tp] {
				m.unmade[c.tp] = true
			}
		default:
			fresh = append(fresh, c)
		}
	}
	if len(m.waits) == 0 && len(fresh) <= makeAtOnce {
		return append(now, fresh...)
	}
	slices.SortStableFunc(fresh, func(a, b change) int { return m.place(a) - m.place(b) })
	var added []kafka.TopicPartition
	for _, c := range fresh {
		if failed[c.tp] {
			m.unmade[c.tp] = true
		} else {
			m.waits[c.tp] = true
			added = append(added, c.tp)
		}
	}
	if len(added) <= makeAtOnce {
		m.few = append(m.few, added...)
	} else {
		m.many = append(m.many, added...)
	}
	return now
}

// fresh says that a partition needs a log that is still to be made.
func (m *Manager) fresh(c change) bool {
	if dirOf(c.state, m.self) != kafka.DirUnassigned {
		return false
	}
	log, ok := m.logs.Get(c.tp)
	return !ok || log.TopicID() != c.topic.ID
}

// place is this broker's place among the replicas: 0 is the preferred leader.
func (m *Manager) place(c change) int {
	return slices.IndexFunc(c.state.Replicas, func(r meta.Replica) bool { return r.Node == m.self })
}

// Next takes a batch of the logs that Apply left to be made, for Make, without
// which none of it is tried again. With again, what could not be made before is
// queued first. It is called by whoever calls Apply.
func (m *Manager) Next(img *meta.Image, again bool) []*Making {
	if again && len(m.unmade) > makeAtOnce { // else Apply tries
		for tp := range m.unmade {
			if c, ok := stateIn(img, tp); ok && m.fresh(c) && !m.waits[tp] {
				m.many, m.waits[tp] = append(m.many, tp), true
			}
		}
	}
	out := m.take(nil, img, &m.few, makeAtOnce/2) // thousands do not keep a few waiting, nor these all of those
	out = m.take(out, img, &m.many, makeAtOnce)
	return m.take(out, img, &m.few, makeAtOnce)
}

// take begins what comes first in a queue, until there are n in all.
func (m *Manager) take(out []*Making, img *meta.Image, queue *[]kafka.TopicPartition, n int) []*Making {
	for len(*queue) > 0 && len(out) < n {
		tp := (*queue)[0]
		*queue = (*queue)[1:]
		c, ok := stateIn(img, tp)
		if !ok || !m.fresh(c) {
			delete(m.waits, tp) // it went, or is another broker's
			continue
		}
		out = append(out, m.begin(img, c))
	}
	return out
}

// begin is the part of making a log that others must not see half done.
func (m *Manager) begin(img *meta.Image, c change) *Making {
	k := &Making{tp: c.tp, id: c.topic.ID}
	k.cfg, _ = m.settings(img, c.tp.Topic)
	if log, ok := m.logs.Get(c.tp); ok {
		k.err = m.replace(img, c.tp, log.TopicID())
	}
	return k
}

// Make makes logs; others may call Apply meanwhile. An error, also that of ctx, is
// worth another try.
func (m *Manager) Make(ctx context.Context, ks []*Making) {
	var g errgroup.Group
	g.SetLimit(makersBehind)
	for _, k := range ks {
		g.Go(func() error {
			if k.err == nil {
				k.err = ctx.Err()
			}
			if k.err == nil {
				_, k.err = m.logs.Create(k.tp, k.id, k.cfg)
			}
			return nil
		})
	}
	_ = g.Wait()
}

// Finish takes over logs that Make has made, as Apply would have. A log whose
// partition is gone, or another broker's, is given up. It is called by whoever
// calls Apply.
func (m *Manager) Finish(ctx context.Context, img *meta.Image, ks []*Making, epoch int64) []Assignment {
	var work []change
	var failed []kafka.TopicPartition
	for _, k := range ks {
		delete(m.waits, k.tp)
		c, ok := stateIn(img, k.tp)
		switch {
		case ok && c.topic.ID == k.id && dirOf(c.state, m.self) != kafka.DirLost:
			if k.err != nil {
				m.log.Debug("partition not made", "tp", k.tp, "err", k.err)
				failed = append(failed, k.tp)
			} else {
				work = append(work, c)
			}
			continue
		case k.err == nil:
			if err := m.logs.Delete(k.tp, k.id); err != nil {
				m.log.Error("log of a partition that is not of this broker any more stays", "tp", k.tp, "err", err)
			}
		}
		if ok && m.fresh(c) {
			m.few, m.waits[k.tp] = append(m.few, k.tp), true // made again under its name meanwhile
		}
	}
	return m.apply(ctx, img, &meta.Delta{}, epoch, work, failed)
}
