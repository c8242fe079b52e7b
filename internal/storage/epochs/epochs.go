// Package epochs remembers where each leader epoch of a log begins (KIP-101,
// KIP-320): a list in memory and its file, leader-epoch-checkpoint, which is
// byte for byte Apache Kafka's:
//
//	0                    version
//	2                    number of lines that follow
//	0 0                  epoch, offset of its first record
//	3 4711
//
// Epochs and offsets both rise strictly from entry to entry. The epoch of an
// offset is that of the last entry at or below it.
//
// Changes are made in memory and reach the file by Sync, which the caller runs
// off its locks. An entry that was added has to be durable before the log's
// flushed end passes its start: Unsynced says whether one is not. A file that
// still has entries which were truncated does no harm by itself: who opens a
// log cuts the list at what the log holds, and above the recovery point takes
// epochs from the batches.
//
// Reading methods take no lock and may be called from anywhere. Changes may be
// called concurrently too, though their order then is the caller's business.
package epochs

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/checkpoint"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// FileName is the file's name in the directory of its log.
const FileName = "leader-epoch-checkpoint"

// Undefined is the end offset of an epoch that is not known.
const Undefined int64 = -1

// Entry is one leader epoch and the offset of its first record.
type Entry struct {
	Epoch kafka.LeaderEpoch
	Start int64
}

// Cache is the list of one log. Make one with New.
type Cache struct {
	fsys vfs.FS
	log  *slog.Logger

	state atomic.Pointer[state] // replaced whole, under mu

	mu  sync.Mutex // serializes changes
	dir string

	syncMu sync.Mutex // serializes writes of the file
	synced atomic.Uint64
}

// state is one version of the list; it is never changed.
type state struct {
	entries []Entry
	// version counts changes, added those that added an entry: as of which
	// version the newest addition was made.
	version, added uint64
}

// New returns an empty list whose file lies in dir. It reads nothing: see
// Load. A nil logger discards.
func New(fsys vfs.FS, dir string, log *slog.Logger) *Cache {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Cache{fsys: fsys, dir: dir, log: log}
	c.state.Store(&state{})
	return c
}

// Load replaces the list by the file's; a missing file is an empty list. After
// an error, which for a damaged file is a vfs.CorruptError, the list is empty
// and counts as changed, so that the next Sync replaces the file; the caller
// fills it from the batches.
func (c *Cache) Load() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.state.Load()
	next := &state{version: old.version + 1, added: old.added}
	name := filepath.Join(c.dir, FileName)
	data, err := vfs.ReadFile(c.fsys, name, checkpoint.MaxBytes)
	if err == nil {
		next.entries, err = Parse(name, data)
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	c.state.Store(next)
	if err != nil {
		return fmt.Errorf("load leader epochs: %w", err)
	}
	c.synced.Store(next.version)
	return nil
}

// Assign notes that epoch begins at start, and reports whether that was news.
// The newest epoch keeps its start however often it is assigned, unless the
// new one is lower. Entries that contradict the new one, of the same or a
// higher epoch or at the same or a higher offset, are dropped.
func (c *Cache) Assign(epoch kafka.LeaderEpoch, start int64) (bool, error) {
	if epoch < 0 || start < 0 {
		return false, fmt.Errorf("leader epoch %d at offset %d: neither may be negative", epoch, start)
	}
	if !c.state.Load().news(epoch, start) {
		return false, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.state.Load()
	if !s.news(epoch, start) {
		return false, nil
	}
	keep := len(s.entries)
	for keep > 0 && (s.entries[keep-1].Epoch >= epoch || s.entries[keep-1].Start >= start) {
		keep--
	}
	// An epoch that began where the new one does had no records: nothing to tell.
	if dropped := s.entries[keep:]; len(dropped) > 1 || len(dropped) == 1 && dropped[0].Start != start {
		c.log.Warn("leader epoch contradicts known ones, which are dropped", "dir", c.dir, "epoch", epoch, "start", start, "dropped", dropped)
	}
	c.change(append(slices.Clip(s.entries[:keep]), Entry{epoch, start}), true)
	return true, nil
}

func (s *state) news(epoch kafka.LeaderEpoch, start int64) bool {
	if len(s.entries) == 0 {
		return true
	}
	last := s.entries[len(s.entries)-1]
	return epoch != last.Epoch || start < last.Start
}

// change publishes a list. c.mu is held.
func (c *Cache) change(entries []Entry, added bool) {
	s := c.state.Load()
	next := &state{entries: entries, version: s.version + 1, added: s.added}
	if added {
		next.added = next.version
	}
	c.state.Store(next)
}

// TruncateFromEnd drops the epochs that begin at or above end.
func (c *Cache) TruncateFromEnd(end int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries := c.state.Load().entries
	if keep := from(entries, end); keep < len(entries) {
		c.change(slices.Clip(entries[:keep]), false)
	}
}

// TruncateFromStart drops the epochs that end at or below start; the one that
// holds start begins there from now on.
func (c *Cache) TruncateFromStart(start int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entries := c.state.Load().entries
	next := from(entries, start+1)
	if next == 0 || next == 1 && entries[0].Start == start {
		return
	}
	cut := slices.Clone(entries[next-1:])
	cut[0].Start = start
	c.change(cut, false)
}

// Clear drops all entries.
func (c *Cache) Clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.state.Load().entries) > 0 {
		c.change(nil, false)
	}
}

// from returns the index of the first entry that begins at or above offset.
func from(entries []Entry, offset int64) int {
	return sort.Search(len(entries), func(i int) bool { return entries[i].Start >= offset })
}

// EndFor answers OffsetForLeaderEpoch: the largest known epoch at or below the
// asked one, and the offset where the next known epoch begins, which is logEnd
// for the latest. Asked for an epoch below the first known one, it answers the
// asked epoch and the first known start: the records are gone, and that is
// where replication goes on. An epoch above the latest, NoEpoch, and an empty
// list are answered by NoEpoch and Undefined.
func (c *Cache) EndFor(epoch kafka.LeaderEpoch, logEnd int64) (kafka.LeaderEpoch, int64) {
	entries := c.state.Load().entries
	if epoch == kafka.NoEpoch || len(entries) == 0 {
		return kafka.NoEpoch, Undefined
	}
	higher := sort.Search(len(entries), func(i int) bool { return entries[i].Epoch > epoch })
	switch {
	case higher == 0:
		return epoch, entries[0].Start
	case higher < len(entries):
		return entries[higher-1].Epoch, entries[higher].Start
	case entries[higher-1].Epoch == epoch:
		return epoch, logEnd
	}
	return kafka.NoEpoch, Undefined
}

// EpochAt returns the epoch of the record at offset, known or to come; NoEpoch
// below the first entry.
func (c *Cache) EpochAt(offset int64) kafka.LeaderEpoch {
	entries := c.state.Load().entries
	if i := sort.Search(len(entries), func(i int) bool { return entries[i].Start > offset }); i > 0 {
		return entries[i-1].Epoch
	}
	return kafka.NoEpoch
}

// Latest returns the newest epoch, or NoEpoch.
func (c *Cache) Latest() kafka.LeaderEpoch {
	if e, ok := c.LatestEntry(); ok {
		return e.Epoch
	}
	return kafka.NoEpoch
}

// LatestEntry returns the newest entry; ok is false when there is none.
func (c *Cache) LatestEntry() (e Entry, ok bool) {
	entries := c.state.Load().entries
	if len(entries) == 0 {
		return Entry{kafka.NoEpoch, Undefined}, false
	}
	return entries[len(entries)-1], true
}

// Previous returns the newest entry of an epoch below the given one; ok is
// false when there is none. A follower steps down by it while it looks for the
// point where its log and the leader's part.
func (c *Cache) Previous(epoch kafka.LeaderEpoch) (e Entry, ok bool) {
	entries := c.state.Load().entries
	i := sort.Search(len(entries), func(i int) bool { return entries[i].Epoch >= epoch })
	if i == 0 {
		return Entry{kafka.NoEpoch, Undefined}, false
	}
	return entries[i-1], true
}

// Entries returns the list, which the caller must not change.
func (c *Cache) Entries() []Entry { return slices.Clip(c.state.Load().entries) }

// InRange returns the entries that the records in [start, end) need, as a file
// of their own would hold them: the first begins at start or later.
func (c *Cache) InRange(start, end int64) []Entry {
	entries := c.state.Load().entries
	first := max(from(entries, start+1)-1, 0)
	last := from(entries, end)
	if first >= last || start >= end {
		return nil
	}
	out := slices.Clone(entries[first:last])
	out[0].Start = max(out[0].Start, start)
	return out
}

// Dirty reports whether the file differs from the list.
func (c *Cache) Dirty() bool { return c.state.Load().version > c.synced.Load() }

// Unsynced reports whether an entry was added that is not durable: the flushed
// end of the log must not pass its start before a Sync.
func (c *Cache) Unsynced() bool { return c.state.Load().added > c.synced.Load() }

// Sync makes the list as it was at the call, or newer, durable. It does nothing
// when the file is up to date. After an error the list stays Dirty.
func (c *Cache) Sync() error {
	c.syncMu.Lock()
	defer c.syncMu.Unlock()
	s := c.state.Load()
	if s.version <= c.synced.Load() {
		return nil
	}
	if err := vfs.ReplaceFile(c.fsys, filepath.Join(c.currentDir(), FileName), Format(s.entries)); err != nil {
		return fmt.Errorf("write leader epochs: %w", err)
	}
	c.synced.Store(s.version)
	return nil
}

// Moved tells that the log's directory has another name now.
func (c *Cache) Moved(dir string) {
	c.syncMu.Lock() // not while a Sync writes under the old name
	defer c.syncMu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dir = dir
}

func (c *Cache) currentDir() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.dir
}

// Format returns the content of the file.
func Format(entries []Entry) []byte {
	b := checkpoint.AppendHeader(nil, len(entries))
	for _, e := range entries {
		b = append(strconv.AppendInt(b, int64(e.Epoch), 10), ' ')
		b = append(strconv.AppendInt(b, e.Start, 10), '\n')
	}
	return b
}

// Parse parses what Format returns; name only names the file in errors, which
// are vfs.CorruptError.
func Parse(name string, data []byte) ([]Entry, error) {
	var entries []Entry
	err := checkpoint.ParseLines(name, data, 2, func(line int, f []string) error {
		epoch, err := checkpoint.ParseNumber(name, line, "epoch", f[0], 32, 0)
		if err != nil {
			return err
		}
		start, err := checkpoint.ParseNumber(name, line, "start offset", f[1], 64, 0)
		if err != nil {
			return err
		}
		e := Entry{kafka.LeaderEpoch(epoch), start}
		if n := len(entries); n > 0 && (e.Epoch <= entries[n-1].Epoch || e.Start <= entries[n-1].Start) {
			return vfs.CorruptLinef(name, line, "epoch %d at offset %d does not follow epoch %d at offset %d",
				e.Epoch, e.Start, entries[n-1].Epoch, entries[n-1].Start)
		}
		entries = append(entries, e)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return entries, nil
}
