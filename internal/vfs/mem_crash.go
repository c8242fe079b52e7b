package vfs

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// SectorBytes is what a disk writes whole or not at all: an unsynced write may
// be torn at its multiples.
const SectorBytes = 512

// Survival says what becomes of unsynced state in a crash.
type Survival int

// What a crash leaves of what was not synced.
const (
	// LoseUnsynced: nothing. The strictest power loss.
	LoseUnsynced Survival = iota
	// KeepUnsynced: all, still unsynced. This is the kill of a process: the
	// page cache survives, and a later power loss may still take it.
	KeepUnsynced
	// SomeUnsynced: a power loss that leaves an arbitrary part.
	SomeUnsynced
)

// CrashOptions of CrashClone. The zero value loses all that was not synced.
type CrashOptions struct {
	// Files and Dirs say what becomes of unsynced bytes and of unsynced names.
	// KeepUnsynced must be the choice of both or of neither.
	Files, Dirs Survival
}

// PowerLoss leaves an arbitrary part of what was not synced.
var PowerLoss = CrashOptions{Files: SomeUnsynced, Dirs: SomeUnsynced}

// ProcessKill loses nothing but locks and open files.
var ProcessKill = CrashOptions{Files: KeepUnsynced, Dirs: KeepUnsynced}

// CrashClone returns the file system as the machine finds it after a crash at
// this instant. m goes on unharmed, and what is done to it, or through files
// open in it, does not reach the clone. The same rng state gives the same clone.
//
// With SomeUnsynced:
//   - a file: of every sector, some prefix of the writes to it since the last
//     sync, each sector for itself, so that writes are torn and reordered;
//     every truncation or not; and the size may have grown, with zeros, where
//     a write that was lost would have ended. A file is then what its synced
//     content and these make.
//   - a directory: some prefix of its changes since the last sync, each
//     directory for itself. A rename is whole or not at all, between
//     directories too.
//
// What is found after a power loss is on the disk: it is durable in the clone.
func (m *Mem) CrashClone(rng *rand.Rand, opts CrashOptions) *Mem {
	if (opts.Files == KeepUnsynced) != (opts.Dirs == KeepUnsynced) {
		panic("vfs: a crash keeps unsynced files and names both or neither")
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	c := &crash{rng: rng, opts: opts, clones: map[*memNode]*memNode{}}
	out := &Mem{locks: map[string]bool{}, devices: maps.Clone(m.devices), capacity: m.capacity}
	if opts.Files == KeepUnsynced {
		out.root = c.keep(m.root)
		c.linkTwins()
	} else {
		c.chooseCuts(m.root)
		out.root = c.lose(m.root)
	}
	out.root.countLinks()
	for _, n := range c.clones {
		if !n.dir && n.links > 0 {
			out.used += int64(len(n.data))
		}
	}
	return out
}

// Unsynced reports whether a power loss could take anything of what is visible
// under name: bytes of the file, or of the files and names below a directory.
func (m *Mem) Unsynced(name string) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	n, err := m.lookup(name)
	if err != nil {
		return false, pathError("stat", name, err)
	}
	return n.unsynced(), nil
}

func (n *memNode) unsynced() bool {
	if len(n.pending) > 0 || len(n.ops) > 0 {
		return true
	}
	for _, child := range n.entries {
		if child.unsynced() {
			return true
		}
	}
	return false
}

type crash struct {
	rng    *rand.Rand
	opts   CrashOptions
	clones map[*memNode]*memNode
	dirs   []*memNode // in a fixed order
	cuts   map[*memNode]int
	twins  map[*memDirOp]*memDirOp
}

// countLinks sets every file's count of names.
func (n *memNode) countLinks() {
	for _, child := range n.entries {
		if child.dir {
			child.countLinks()
		} else {
			child.links++
		}
	}
}

// chooseCuts picks how many pending operations survive in each directory, then
// lowers cuts until every rename between directories is whole or absent.
func (c *crash) chooseCuts(root *memNode) {
	c.cuts = map[*memNode]int{}
	c.collect(root)
	for _, d := range c.dirs {
		if c.opts.Dirs == SomeUnsynced {
			c.cuts[d] = c.prefix(len(d.ops))
		}
	}
	for again := true; again; {
		again = false
		for _, d := range c.dirs {
			for i, op := range d.ops[:c.cuts[d]] {
				if op.twin != nil && slices.Index(op.twinDir.ops, op.twin) >= c.cuts[op.twinDir] {
					c.cuts[d] = i
					again = true
					break
				}
			}
		}
	}
}

// collect lists the directories that are, were or may come to be reachable.
func (c *crash) collect(d *memNode) {
	if _, seen := c.cuts[d]; seen || !d.dir {
		return
	}
	c.cuts[d] = 0
	c.dirs = append(c.dirs, d)
	for _, name := range sortedNames(d.durable) {
		c.collect(d.durable[name])
	}
	for _, op := range d.ops {
		if op.node != nil {
			c.collect(op.node)
		}
		if op.twinDir != nil {
			c.collect(op.twinDir)
		}
	}
}

// prefix picks a length of 0..n, the ends more often than the middle.
func (c *crash) prefix(n int) int {
	switch {
	case n == 0:
		return 0
	case c.rng.IntN(4) == 0:
		return 0
	case c.rng.IntN(3) == 0:
		return n
	}
	return c.rng.IntN(n + 1)
}

// lose clones n as a power loss leaves it.
func (c *crash) lose(n *memNode) *memNode {
	if clone, ok := c.clones[n]; ok {
		return clone
	}
	clone := &memNode{dir: n.dir, modTime: n.modTime}
	c.clones[n] = clone
	if !n.dir {
		clone.data = c.content(n)
		clone.synced = clone.data
		clone.dataShared, clone.syncedShared = true, true
		return clone
	}
	found := maps.Clone(n.durable)
	for _, op := range n.ops[:c.cuts[n]] {
		op.apply(found)
	}
	clone.entries = make(map[string]*memNode, len(found))
	for _, name := range sortedNames(found) {
		clone.entries[name] = c.lose(found[name])
	}
	clone.durable = maps.Clone(clone.entries)
	return clone
}

// content is what a power loss leaves of a file.
func (c *crash) content(n *memNode) []byte {
	if c.opts.Files == LoseUnsynced || len(n.pending) == 0 {
		n.syncedShared = true
		return n.synced
	}
	// One mood per file, or the sum of many coins would always be about half.
	survive := [...]float64{0, 0.1, 0.5, 0.9, 1}[c.rng.IntN(5)]
	grows := c.rng.IntN(4) == 0
	limits := c.sectorLimits(n, survive)
	seen := make(map[int64]int, len(limits))
	b := slices.Clone(n.synced)
	for _, w := range n.pending {
		if w.data == nil {
			if c.rng.Float64() < survive {
				b = w.apply(b)
			}
			continue
		}
		for piece := range w.sectors {
			s := piece.off / SectorBytes
			if seen[s] < limits[s] {
				b = piece.apply(b)
			}
			seen[s]++
		}
		if end := w.off + int64(len(w.data)); grows && end > int64(len(b)) {
			b = growTo(b, int64(len(b))+c.rng.Int64N(end-int64(len(b))+1))
		}
	}
	return b
}

// sectorLimits picks for every sector how many of the writes to it survive: a
// sector goes to disk as the page cache had it at some time.
func (c *crash) sectorLimits(n *memNode, survive float64) map[int64]int {
	writes := map[int64]int{}
	for _, w := range n.pending {
		for piece := range w.sectors {
			writes[piece.off/SectorBytes]++
		}
	}
	for _, s := range slices.Sorted(maps.Keys(writes)) {
		if c.rng.Float64() >= survive {
			writes[s] = c.rng.IntN(writes[s]) // fewer than all
		}
	}
	return writes
}

// sectors yields the parts of a write that lie in one sector each.
func (w memWrite) sectors(yield func(memWrite) bool) {
	for off, data := w.off, w.data; len(data) > 0; {
		k := min(SectorBytes-int(off%SectorBytes), len(data))
		if !yield(memWrite{off: off, data: data[:k]}) {
			return
		}
		off, data = off+int64(k), data[k:]
	}
}

// keep clones n with all its pending state.
func (c *crash) keep(n *memNode) *memNode {
	if clone, ok := c.clones[n]; ok {
		return clone
	}
	clone := &memNode{dir: n.dir, modTime: n.modTime}
	c.clones[n] = clone
	if !n.dir {
		n.dataShared, n.syncedShared = true, true
		clone.data, clone.synced = n.data, n.synced
		clone.dataShared, clone.syncedShared = true, true
		clone.pending = slices.Clone(n.pending)
		return clone
	}
	clone.entries = c.keepEntries(n.entries)
	clone.durable = c.keepEntries(n.durable)
	for _, op := range n.ops {
		cp := &memDirOp{del: op.del, add: op.add}
		if op.node != nil {
			cp.node = c.keep(op.node)
		}
		if op.twin != nil {
			cp.twinDir = c.keep(op.twinDir)
			if c.twins == nil {
				c.twins = map[*memDirOp]*memDirOp{}
			}
			c.twins[op] = cp
		}
		clone.ops = append(clone.ops, cp)
	}
	return clone
}

func (c *crash) keepEntries(entries map[string]*memNode) map[string]*memNode {
	out := make(map[string]*memNode, len(entries))
	for name, n := range entries {
		out[name] = c.keep(n)
	}
	return out
}

// linkTwins joins the copies of the halves of a rename.
func (c *crash) linkTwins() {
	for op, cp := range c.twins {
		cp.twin = c.twins[op.twin]
	}
}
