package storage

import (
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// unsyncedName is the mark of a log that is counted on for records that no sync
// has covered (safety 11). It names the system's boot: the page cache lives as
// long. An orderly stop removes it, once everything is on disk.
const unsyncedName = "barnabas.unsynced"

type unsyncedFile struct {
	BootID string `json:"boot_id"` // "" where the system does not tell
}

// Counted is the offset that this replica can be counted on for: the flushed
// end; on a topic that is not durable the written end, from when the log is
// marked as one that may lose what was not synced.
func (l *Log) Counted() int64 {
	end := l.End() // before the look at relaxed: the flush that removes the mark begins after that ended
	if l.relaxed.Load() {
		return end
	}
	return l.FlushedEnd()
}

// Relaxed reports whether the written end is Counted, so that Hooks.Flushed is
// not needed to tell that it moved.
func (l *Log) Relaxed() bool { return l.relaxed.Load() }

// Doubtful reports whether the log may lack records that it was counted on for:
// it was marked before the system, and with it the page cache, went down.
// Nothing changes that until Vouch.
func (l *Log) Doubtful() bool { return l.doubtful.Load() }

// Vouch tells that nobody counts any more on what a doubtful log may lack.
func (m *Manager) Vouch() {
	for _, l := range m.Logs() {
		l.doubtful.Store(false)
	}
}

// loadUnsynced reads the mark when the log is opened. One that cannot be
// understood is of another boot.
func (l *Log) loadUnsynced() error {
	b, err := vfs.ReadFile(l.m.fs, l.dir.Join(unsyncedName), maxMetaBytes)
	if err != nil {
		return err
	}
	var v unsyncedFile
	same := json.Unmarshal(b, &v) == nil && v.BootID != "" && v.BootID == l.m.cfg.BootID
	l.unsyncedMark, l.unsyncedNow = true, same
	l.doubtful.Store(!same)
	return nil
}

// remark sets the mark, or removes it, after a sync that covered everything
// written before the configuration durable was looked at. One call at a time.
func (l *Log) remark(durable bool) error {
	if l.future.Load() || l.doubtful.Load() {
		return nil
	}
	if durable {
		return l.unmark()
	}
	if l.relaxed.Load() {
		return nil
	}
	if err := l.mark(); err != nil {
		return err
	}
	l.relaxed.Store(true)
	if l.cfg.Load().Durable { // SetConfig may have looked just before
		l.tighten()
	}
	return nil
}

// tighten ends that the written end counts, and asks for the sync that makes
// true what it counted for.
func (l *Log) tighten() {
	if l.relaxed.Swap(false) {
		l.requestSync()
	}
}

// mark says on disk that the log may lose what is not synced.
func (l *Log) mark() error {
	if l.unsyncedNow {
		return nil
	}
	b, err := json.Marshal(unsyncedFile{BootID: l.m.cfg.BootID})
	if err != nil {
		return err
	}
	if err := vfs.ReplaceFile(l.m.fs, l.dir.Join(unsyncedName), append(b, '\n')); err != nil {
		return markError{err}
	}
	l.unsyncedMark, l.unsyncedNow = true, true
	return nil
}

// unmark takes the mark away. That a power loss brings it back costs no more than
// a doubt.
func (l *Log) unmark() error {
	if !l.unsyncedMark {
		return nil
	}
	if err := l.m.fs.Remove(l.dir.Join(unsyncedName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l.unsyncedMark, l.unsyncedNow = false, false
	return nil
}
