package group

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// pendingOffsets are offsets of transactions that have not ended, by producer.
// Records are numbered as they come, so that a transaction that ends late does
// not replace what was committed after its own record.
type pendingOffsets struct {
	by  map[int64]map[pendingAt]pendingOffset
	seq uint64
}

type pendingAt struct {
	g  *Group
	at uint64 // place
}

type pendingOffset struct {
	offset
	seq uint64
}

// isOffset says whether a record of the log has an offset's key.
func isOffset(key []byte) bool {
	return len(key) >= 2 && key[0] == 0 && (key[1] == byte(keyOffset) || key[1] == byte(keyLegacyOffset))
}

// loadOffset is Apply for an offset. Nothing is allocated for one that is
// known already.
func (m *Machine) loadOffset(rec coord.Record, meta coord.Meta) error {
	k := kbin.Reader{Src: rec.Key}
	typ := k.Int16()
	group, topic, partition, err := readOffsetKey(k)
	if err != nil {
		return fmt.Errorf("group: record of key type %d: %w", typ, err)
	}
	if rec.Value == nil {
		m.removeOffset(m.groups[string(group)], m.committed.byName[string(topic)], partition)
		return nil
	}
	var v offset
	if err := readOffset(typ, rec.Value, &v); err != nil {
		return fmt.Errorf("group: record of key type %d: %w", typ, err)
	}
	g := m.groups[string(group)]
	if g == nil {
		g = m.of(string(group))
	}
	t := m.committed.byName[string(topic)]
	if t == nil {
		t = m.committed.of(string(topic))
	}
	m.putOffset(g, t, partition, &v, meta)
	return nil
}

func (m *Machine) applyOffset(b *offsetRecord, meta coord.Meta) {
	if b.Value == nil {
		m.removeOffset(m.lookup(b.Group), m.committed.byName[b.Topic], b.Partition)
		return
	}
	m.putOffset(m.of(b.Group), m.committed.of(b.Topic), b.Partition, b.Value, meta)
}

func (m *Machine) putOffset(g *Group, t *topic, partition int32, v *offset, meta coord.Meta) {
	o := &g.offsets
	if first := m.expiry(v, v.CommitMs); o.firstMs == 0 || first < o.firstMs {
		o.firstMs = first
	}
	if meta.Transactional {
		m.putPending(g, t, partition, v, meta.Producer.ID)
		return
	}
	if o.put(t, partition, v) {
		t.groups[g]++
	}
	if open := o.open[place(t, partition)]; open != nil {
		m.pending.seq++
		open.newest = m.pending.seq
	}
}

func (m *Machine) putPending(g *Group, t *topic, partition int32, v *offset, producer int64) {
	o, at := &g.offsets, place(t, partition)
	open := o.open[at]
	if open == nil {
		open = &openTxn{}
		if o.open == nil {
			o.open = map[uint64]*openTxn{}
		}
		o.open[at] = open
		t.groups[g]++
	}
	if i, found := slices.BinarySearch(open.producers, producer); !found {
		open.producers = slices.Insert(open.producers, i, producer)
	}
	txn := m.pending.by[producer]
	if txn == nil {
		txn = map[pendingAt]pendingOffset{}
		if m.pending.by == nil {
			m.pending.by = map[int64]map[pendingAt]pendingOffset{}
		}
		m.pending.by[producer] = txn
	}
	m.pending.seq++
	txn[pendingAt{g, at}] = pendingOffset{*v, m.pending.seq}
}

// removeOffset takes a tombstone: the committed offset goes, and every pending
// one.
func (m *Machine) removeOffset(g *Group, t *topic, partition int32) {
	if g == nil || t == nil {
		return
	}
	at := place(t, partition)
	if open := g.offsets.open[at]; open != nil {
		for _, producer := range open.producers {
			m.pending.remove(producer, pendingAt{g, at})
		}
		delete(g.offsets.open, at)
		m.committed.leave(t, g)
	}
	if g.offsets.remove(at) {
		m.committed.leave(t, g)
	}
	m.drop(g)
}

func (p *pendingOffsets) remove(producer int64, at pendingAt) {
	txn := p.by[producer]
	delete(txn, at)
	if len(txn) == 0 {
		delete(p.by, producer)
	}
}

// ApplyMarker takes a marker that ends a producer's transaction. What it
// commits takes the place of an older offset only.
func (m *Machine) ApplyMarker(p coord.Producer, commit bool) {
	txn := m.pending.by[p.ID]
	delete(m.pending.by, p.ID)
	for _, at := range slices.SortedFunc(maps.Keys(txn), comparePending) {
		g, t, v := at.g, m.committed.at(at.at), txn[at]
		open := g.offsets.open[at.at]
		if commit && v.seq > open.newest {
			open.newest = v.seq
			if g.offsets.put(t, partitionOf(at.at), &v.offset) {
				t.groups[g]++
			}
		}
		i, _ := slices.BinarySearch(open.producers, p.ID)
		if open.producers = slices.Delete(open.producers, i, i+1); len(open.producers) == 0 {
			delete(g.offsets.open, at.at)
			m.committed.leave(t, g)
		}
		m.drop(g)
	}
}

func comparePending(a, b pendingAt) int {
	return cmp.Or(cmp.Compare(a.g.id, b.g.id), cmp.Compare(a.at, b.at))
}

// expiry is the wall time at which an offset expires whose age counts from
// base; it is not 0.
func (m *Machine) expiry(v *offset, baseMs int64) int64 {
	if v.ExpireMs != -1 {
		return max(v.ExpireMs, 1)
	}
	return max(plus(baseMs, m.cfg.OffsetsRetention.Milliseconds()), 1)
}

// plus adds, and stops at the last moment there is.
func plus(ms, d int64) int64 {
	if d > math.MaxInt64-max(ms, 0) {
		return math.MaxInt64
	}
	return ms + d
}
