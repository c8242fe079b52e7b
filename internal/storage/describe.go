package storage

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// DirDescription is a log directory with what it holds, as DescribeLogDirs tells it.
type DirDescription struct {
	ID       kafka.DirID
	Path     string // absolute
	Offline  error  // nil while it works; then nothing else is told
	Cordoned bool
	Usage    vfs.Usage
	Logs     []LogDescription // by topic and partition
}

// LogDescription is one log in a directory.
type LogDescription struct {
	Partition kafka.TopicPartition
	SizeBytes int64 // of the data files
	Lag       int64 // offsets it is behind: the high watermark, or with Future the log that it will replace; -1 unknown
	Future    bool  // on its way here from another directory
}

// Describe tells what the directories hold. Nothing is read from disk but each
// device's usage: sizes are known. want selects partitions; nil takes all.
func (m *Manager) Describe(want func(kafka.TopicPartition) bool) []DirDescription {
	out := make([]DirDescription, 0, len(m.dirs))
	for _, d := range m.dirs {
		x := DirDescription{ID: d.id, Path: absolute(d.path), Offline: d.offline(), Cordoned: d.cordoned.Load()}
		if x.Offline == nil {
			x.Usage, x.Offline = m.fs.Usage(d.path)
		}
		if x.Offline == nil {
			for _, l := range d.list() {
				if want == nil || want(l.tp) {
					x.Logs = append(x.Logs, LogDescription{Partition: l.tp, SizeBytes: l.Size(), Lag: max(l.HighWatermark()-l.End(), 0)})
				}
			}
			for _, f := range d.listFutures() {
				if want == nil || want(f.tp) {
					x.Logs = append(x.Logs, LogDescription{Partition: f.tp, SizeBytes: f.Size(), Lag: m.behind(f), Future: true})
				}
			}
			slices.SortFunc(x.Logs, compareLogs)
		}
		out = append(out, x)
	}
	return out
}

// behind is how much a future log lacks.
func (m *Manager) behind(f *Log) int64 {
	if l, ok := m.Get(f.tp); ok {
		return max(l.End()-f.End(), 0)
	}
	return -1
}

func compareLogs(a, b LogDescription) int {
	if c := strings.Compare(a.Partition.Topic, b.Partition.Topic); c != 0 {
		return c
	}
	return int(a.Partition.Partition) - int(b.Partition.Partition)
}

// absolute is the path as clients know it.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// SetCordoned says which directories take no new logs (KIP-1066); "*" stands
// for all. Names that are no log directory are not looked at: whoever takes
// the setting checks them.
func (m *Manager) SetCordoned(paths []string) {
	for _, d := range m.dirs {
		d.cordoned.Store(slices.ContainsFunc(paths, func(p string) bool { return p == "*" || absolute(p) == absolute(d.path) }))
	}
}

// Cordoned are the directories that take no new logs.
func (m *Manager) Cordoned() []kafka.DirID {
	var out []kafka.DirID
	for _, d := range m.dirs {
		if d.cordoned.Load() {
			out = append(out, d.id)
		}
	}
	return out
}
