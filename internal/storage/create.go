package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Create returns the log of a partition, making it in the directory with the
// fewest partitions when it is not there. Its topic id is durable on return.
// A directory of the name that belongs to another topic id is put aside as
// stray first, never reused.
func (m *Manager) Create(tp kafka.TopicPartition, id kafka.TopicID, cfg Config) (*Log, error) {
	m.mu.RLock()
	l, ok := m.logs[tp]
	m.mu.RUnlock()
	if ok && l.failed() == nil {
		if l.id == id || l.id.IsZero() {
			return l, l.adoptID(id, cfg)
		}
		if err := m.Stray(tp); err != nil {
			return nil, err
		}
	} else if ok {
		return nil, l.failed()
	}
	d, err := m.pick(tp)
	if err != nil {
		return nil, err
	}
	defer d.making.Add(-1)
	return m.createIn(d, tp, id, cfg)
}

// adoptID gives a log that had no partition.metadata its topic id.
func (l *Log) adoptID(id kafka.TopicID, cfg Config) error {
	l.maint.Lock()
	defer l.maint.Unlock()
	if l.id.IsZero() && !id.IsZero() {
		if err := writeTopicID(l.m.fs, l.dir, id); err != nil {
			return l.writeFailed(err)
		}
		l.id = id
	}
	l.SetConfig(cfg)
	return nil
}

// pick chooses the directory with the fewest partitions, those included that
// others are making, and counts one more that is being made. Cordoned ones are
// taken only where there is no other: then the partition was placed before.
func (m *Manager) pick(tp kafka.TopicPartition) (*logDir, error) {
	m.pickMu.Lock()
	defer m.pickMu.Unlock()
	var best *logDir
	least := 0
	var last error
	for _, d := range m.dirs {
		if err := d.offline(); err != nil {
			last = err
			continue
		}
		d.mu.Lock()
		n := len(d.logs) + len(d.futures) + int(d.making.Load())
		d.mu.Unlock()
		if d.cordoned.Load() {
			n += math.MaxInt / 2
		}
		if m.wished[tp] == d {
			n = -1
		}
		if best == nil || n < least {
			best, least = d, n
		}
	}
	delete(m.wished, tp)
	if best == nil {
		return nil, fmt.Errorf("every log directory is offline: %w: %w", last, kerr.KafkaStorageError)
	}
	best.making.Add(1)
	return best, nil
}

func (m *Manager) createIn(d *logDir, tp kafka.TopicPartition, id kafka.TopicID, cfg Config) (*Log, error) {
	path := d.join(tp.String())
	l := d.newLog(tp, id, path, cfg)
	err := m.dropOrphans(tp)
	if err == nil {
		err = d.forgetRemoved(tp)
	}
	if err == nil {
		err = l.makeRoom(id)
	}
	if err == nil {
		err = l.makeFiles(id)
	}
	if err != nil {
		return nil, l.writeFailed(err)
	}
	m.mu.Lock()
	if have, ok := m.logs[tp]; ok {
		m.mu.Unlock()
		l.release()
		return have, nil
	}
	d.add(l)
	m.mu.Unlock()
	return l, nil
}

// makeFiles makes the directory and the first files of a new log durable. Names
// are synced once all are there, for each sync is a commit of the file system's
// journal: whoever makes thousands waits for those. What a crash leaves of it
// nobody counts on, and the next try completes it, or puts it aside.
func (l *Log) makeFiles(id kafka.TopicID) error {
	fsys, path := l.m.fs, l.Path()
	if err := fsys.MkdirAll(path); err != nil {
		return err
	}
	if err := putTopicID(fsys, l.dir, id); err != nil {
		return err
	}
	o := opening{l: l, clean: true}
	if err := o.open(context.Background()); err != nil {
		return err
	}
	if !o.named {
		if err := fsys.SyncDir(path); err != nil {
			return err
		}
	}
	return fsys.SyncDir(l.d.path)
}

// makeRoom puts aside what stands, unlisted, where the log is to be made and
// is not its own: a directory that could not be renamed away when its topic
// was deleted. Its records would appear in another topic. What an earlier try
// of this log left has its id, or nothing in it yet.
func (l *Log) makeRoom(id kafka.TopicID) error {
	names, err := l.m.fs.List(l.Path())
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(names) == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	have, err := readTopicID(l.m.fs, l.dir)
	if err == nil && have == id {
		return nil
	}
	name, err := awayName(l.tp, strayDirSuffix)
	if err != nil {
		return err
	}
	away := l.d.join(name)
	if err := l.m.fs.Rename(l.Path(), away); err != nil {
		return err
	}
	if err := l.m.fs.SyncDir(l.d.path); err != nil {
		return err
	}
	l.d.schedule(deletion{due: l.m.now().Add(l.m.cfg.StrayDelay), path: away})
	l.logs.Warn("a directory of another topic stood in the way, put aside", "tp", l.tp, "topic_id", have, "to", name)
	return nil
}

// add lists an open log; m.mu is held.
func (d *logDir) add(l *Log) {
	d.m.logs[l.tp] = l
	d.mu.Lock()
	d.logs[l.tp] = l
	d.remark()
	d.mu.Unlock()
	d.m.metrics.logs.Inc()
}
