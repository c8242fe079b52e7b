package replica

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/storage"
)

// Settings resolves a topic's configuration for its partitions.
type Settings func(img *meta.Image, topic string) (storage.Config, Rules)

// Assignment asks that a partition's state name the directory of its new log.
// Until it does, the replica neither leads nor follows: a log that nobody
// wrote down must be known to be new, not lost.
type Assignment struct {
	Partition meta.PartitionID
	Dir       kafka.DirID
	// From is the directory that the log moved from: the state is to name Dir
	// where it names that. Zero: the log is new. With Dir DirUnassigned the log is
	// lost for good, and nobody counts on it: From is to be given up.
	From kafka.DirID
}

// Manager holds this broker's partitions and follows the metadata image. Get
// may be called from any goroutine; Apply from one at a time.
type Manager struct {
	self     kafka.NodeID
	logs     *storage.Manager
	settings Settings
	log      *slog.Logger

	mu     sync.RWMutex // the map only
	hosted map[kafka.TopicPartition]*Partition

	// Moved is told that a partition's log is in another directory now, which
	// its state is to name. Set before the first Apply.
	Moved func(Assignment)
	// Propose is told of the ISR that a leader wants; it must not block. Set
	// before the first Apply.
	Propose func(Proposal)
	// Entered is told of every partition whose role was looked at, and of those
	// that ended; it must not block. Set before the first Apply.
	Entered func(*Partition)

	// Of the goroutine whose turn it is: what is to be tried again; what is to be
	// made in the background, in order, that of small changes apart, and all of it
	// that is not made yet.
	unmade    map[kafka.TopicPartition]bool
	few, many []kafka.TopicPartition
	waits     map[kafka.TopicPartition]bool
}

// NewManager makes a manager without partitions.
func NewManager(self kafka.NodeID, logs *storage.Manager, s Settings, log *slog.Logger) *Manager {
	return &Manager{
		self: self, logs: logs, settings: s, log: log,
		hosted: make(map[kafka.TopicPartition]*Partition), unmade: make(map[kafka.TopicPartition]bool),
		waits: make(map[kafka.TopicPartition]bool),
	}
}

// Get returns the partition that this broker hosts.
func (m *Manager) Get(tp kafka.TopicPartition) (*Partition, bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	p, ok := m.hosted[tp]
	return p, ok
}

// All returns the hosted partitions, in no order.
func (m *Manager) All() []*Partition {
	m.mu.RLock()
	defer m.mu.RUnlock()
	out := make([]*Partition, 0, len(m.hosted))
	for _, p := range m.hosted {
		out = append(out, p)
	}
	return out
}

// Loss is a partition whose state counts on a log of this broker that is not
// here: its directory is another one, or went offline, or the log is gone; or on
// one that may not be whole.
type Loss struct {
	Partition meta.PartitionID
	// Doubtful: the log is here, and storage.Log.Doubtful.
	Doubtful bool
	// LogMissing: the directory named is here and works, and has no such log.
	LogMissing bool
}

// Lost lists them, also where nobody counts on the log. The broker takes itself
// out of their ISR before it registers, so that an empty disk under an old node id
// never counts as a copy.
func (m *Manager) Lost(img *meta.Image) []Loss {
	here := make(map[kafka.DirID]bool)
	for _, d := range m.logs.Dirs() {
		here[d.ID] = d.Offline == nil
	}
	var out []Loss
	for t := range img.Topics() {
		for _, p := range t.Partitions {
			named := dirOf(p, m.self)
			if named == kafka.DirUnassigned || named == kafka.DirLost {
				continue
			}
			log, ok := m.logs.Get(kafka.TopicPartition{Topic: t.Name, Partition: p.Partition})
			from, moved := movedFrom(log)
			moved = moved && log.TopicID() == t.ID && from == named // the state does not know yet: see Moves
			switch {
			case !ok || log.TopicID() != t.ID || log.Dir() != named && !moved:
				out = append(out, Loss{Partition: p.ID(), LogMissing: here[named]})
			case log.Doubtful():
				out = append(out, Loss{Partition: p.ID(), Doubtful: true})
			}
		}
	}
	return out
}

// Moves lists the partitions whose log moved to another directory shortly
// before the last stop, so that their states name the old one. It is whole: the
// old copy ended where this one goes on.
func (m *Manager) Moves(img *meta.Image) []Assignment {
	var out []Assignment
	for p := range img.PartitionsNaming(m.self) {
		t, _, ok := img.Partition(p.ID())
		if !ok {
			continue
		}
		log, ok := m.logs.Get(kafka.TopicPartition{Topic: t.Name, Partition: p.Partition})
		if from, moved := movedFrom(log); ok && moved && log.TopicID() == t.ID && from == dirOf(p, m.self) {
			out = append(out, Assignment{Partition: p.ID(), Dir: log.Dir(), From: from})
		}
	}
	return out
}

func movedFrom(l *storage.Log) (kafka.DirID, bool) {
	if l == nil {
		return kafka.DirID{}, false
	}
	return l.MovedFrom()
}

// moved is a partition's news that its log is in another directory.
func (m *Manager) moved(p *Partition, number int32) {
	from, ok := p.Log().MovedFrom()
	if ok && m.Moved != nil {
		m.Moved(Assignment{Partition: meta.PartitionID{Topic: p.id, Partition: number}, Dir: p.Log().Dir(), From: from})
	}
}

// dirOf is the directory that holds n's copy; DirLost when n has none.
func dirOf(p *meta.Partition, n kafka.NodeID) kafka.DirID {
	if r, ok := p.Replica(n); ok {
		return r.Dir
	}
	return kafka.DirLost
}

// Sweep puts aside the logs that the image does not know: renamed to -stray,
// or deleted where the image says that the topic was. It is called once,
// before the first Apply.
func (m *Manager) Sweep(img *meta.Image) error {
	var errs []error
	for _, log := range m.logs.Logs() {
		tp := log.Partition()
		if t, ok := img.TopicByID(log.TopicID()); ok && t.Name == tp.Topic && m.assigned(t, tp.Partition) {
			continue
		}
		var err error
		if _, dead := img.Tombstone(log.TopicID()); dead {
			err = m.logs.Delete(tp, log.TopicID())
		} else {
			m.log.Warn("log belongs to no partition of this broker, put aside", "tp", tp, "topic_id", log.TopicID())
			err = m.logs.Stray(tp)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func (m *Manager) assigned(t *meta.Topic, partition int32) bool {
	return int(partition) < len(t.Partitions) && dirOf(t.Partitions[partition], m.self) != kafka.DirLost
}

// Drop ends the partitions of deleted topics, and those that are assigned to
// other brokers now. It is called once the image without them is published:
// whoever waits for one of them is woken by its end, and must find it gone.
func (m *Manager) Drop(d *meta.Delta) {
	for _, c := range d.Partitions {
		if c.Old == nil {
			continue
		}
		gone := c.New == nil || c.New.Topic != c.Old.Topic
		if !gone {
			_, stays := c.New.Replica(m.self)
			gone = !stays
		}
		if gone {
			m.drop(kafka.TopicPartition{Topic: c.Topic.Name, Partition: partitionOf(c)}, c.Old.Topic)
		}
	}
}

// Apply takes over what changed between two images, but for deletions (Drop); epoch is this broker's
// own registration in img, 0 before there is one. It returns when the
// partitions have their new roles. Partitions whose log could not be made or
// written are tried again with the next call: Unmade says that there are some.
// The logs of many new partitions are left to Next.
func (m *Manager) Apply(ctx context.Context, img *meta.Image, d *meta.Delta, epoch int64) []Assignment {
	return m.apply(ctx, img, d, epoch, nil, nil)
}

// apply is Apply, for some partitions more, and after it failed to make others.
func (m *Manager) apply(ctx context.Context, img *meta.Image, d *meta.Delta, epoch int64, work []change, failed []kafka.TopicPartition) []Assignment {
	seen := make(map[kafka.TopicPartition]bool)
	for _, c := range work {
		seen[c.tp] = true
	}
	for _, c := range d.Partitions {
		tp := kafka.TopicPartition{Topic: c.Topic.Name, Partition: partitionOf(c)}
		if c.New != nil {
			work = append(work, change{tp, c.Topic, c.New})
			seen[tp] = true
		}
	}
	for tp := range m.unmade {
		if c, ok := stateIn(img, tp); ok && !seen[tp] {
			work = append(work, c)
			seen[tp] = true
		}
	}
	work = append(work, m.concerned(img, d, seen)...)
	before := m.unmade
	m.unmade = make(map[kafka.TopicPartition]bool)
	for _, tp := range failed {
		m.unmade[tp] = true
	}
	m.reconfigure(img, d) // first: a role is entered under the rules of its image
	out := m.applyAll(ctx, img, m.portion(work, before), epoch)
	m.tellUnmade(ctx, before)
	return out
}

// tellUnmade warns of partitions that do not serve and did before: of a few by
// name, for one cause may stop thousands. When the broker stops they need not.
func (m *Manager) tellUnmade(ctx context.Context, before map[kafka.TopicPartition]bool) {
	if ctx.Err() != nil {
		return
	}
	const named = 5
	more := -named
	for tp := range m.unmade {
		if before[tp] {
			continue
		}
		if more++; more <= 0 {
			m.log.Warn("partition does not serve yet, and is tried again until it does", "tp", tp)
		}
	}
	if more > 0 {
		m.log.Warn("more partitions do not serve yet, and are tried again until they do", "partitions", more)
	}
}

// Unmade counts the partitions that the last Apply could not make. It is called
// by whoever calls Apply.
func (m *Manager) Unmade() int { return len(m.unmade) }

// change is one partition whose state is to be taken over.
type change struct {
	tp    kafka.TopicPartition
	topic *meta.Topic
	state *meta.Partition
}

// stateIn is what an image says of a partition.
func stateIn(img *meta.Image, tp kafka.TopicPartition) (change, bool) {
	t, ok := img.Topic(tp.Topic)
	if !ok || int(tp.Partition) >= len(t.Partitions) {
		return change{}, false
	}
	return change{tp, t, t.Partitions[tp.Partition]}, true
}

func partitionOf(c meta.PartitionChange) int32 {
	if c.New != nil {
		return c.New.Partition
	}
	return c.Old.Partition
}

// applyAll makes what logs are missing, several at once, then enters the roles.
func (m *Manager) applyAll(ctx context.Context, img *meta.Image, work []change, epoch int64) []Assignment {
	made := make([]*Partition, len(work))
	failed := make([]error, len(work))
	var g errgroup.Group
	g.SetLimit(creators)
	for i, c := range work {
		if dirOf(c.state, m.self) == kafka.DirLost {
			continue
		}
		if p, ok := m.Get(c.tp); ok && p.id == c.topic.ID {
			made[i] = p
			continue
		}
		g.Go(func() error {
			made[i], failed[i] = m.open(ctx, img, c)
			return nil
		})
	}
	_ = g.Wait()

	var out []Assignment
	for i, c := range work {
		p := made[i]
		if failed[i] != nil {
			m.log.Debug("partition not made", "tp", c.tp, "err", failed[i])
			m.unmade[c.tp] = true
		}
		if p == nil {
			if r, ok := c.state.Replica(m.self); ok && failed[i] == nil && m.waived(c.state) {
				m.log.Warn("log is lost, and nobody counts on it: it is made anew", "tp", c.tp)
				out = append(out, Assignment{Partition: c.state.ID(), Dir: kafka.DirUnassigned, From: r.Dir})
			}
			continue
		}
		m.mu.Lock()
		m.hosted[c.tp] = p
		m.mu.Unlock()
		named, log := dirOf(c.state, m.self), p.Log()
		from, moved := log.MovedFrom()
		switch {
		case named == kafka.DirUnassigned:
			out = append(out, Assignment{Partition: c.state.ID(), Dir: log.Dir()})
		case named == log.Dir(), moved && named == from:
			if named == from && moved {
				out = append(out, Assignment{Partition: c.state.ID(), Dir: log.Dir(), From: from})
			} else {
				log.Settled()
			}
			if err := m.enter(p, img, c, epoch); err != nil {
				m.log.Debug("role not taken", "tp", c.tp, "err", err)
				m.unmade[c.tp] = true
			}
		default:
			m.log.Error("state names another directory than the one that holds the log", "tp", c.tp, "dir", p.Log().Dir())
		}
	}
	return out
}

// waived says of a log that is missing that it does not come back, for no
// directory is offline, and that the ISR goes on without it.
func (m *Manager) waived(p *meta.Partition) bool {
	_, counts := p.InSync(m.self)
	return !counts && !slices.ContainsFunc(m.logs.Dirs(), func(d storage.DirStatus) bool { return d.Offline != nil })
}

// open finds the log of a partition or makes it; an error is worth another try.
// A log that the state counts on is never made anew: it would be an empty copy
// that passes for a full one.
func (m *Manager) open(ctx context.Context, img *meta.Image, c change) (*Partition, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	cfg, rules := m.settings(img, c.tp.Topic)
	log, ok := m.logs.Get(c.tp)
	if ok && log.TopicID() != c.topic.ID {
		if err := m.replace(img, c.tp, log.TopicID()); err != nil {
			return nil, fmt.Errorf("log of another topic under this name could not be put aside: %w", err)
		}
		ok = false
	}
	switch {
	case ok:
		log.SetConfig(cfg)
	case dirOf(c.state, m.self) != kafka.DirUnassigned:
		if !m.waived(c.state) {
			m.log.Error("log is missing: the partition stays without a leader until its directory returns", "tp", c.tp)
		}
		return nil, nil
	default:
		var err error
		if log, err = m.logs.Create(c.tp, c.topic.ID, cfg); err != nil {
			return nil, err
		}
	}
	p := newPartition(c.tp, m.self, log, rules)
	p.moved = func(p *Partition) { m.moved(p, c.tp.Partition) }
	p.propose = m.Propose
	return p, nil
}

// replace makes room for a topic under the name of another: the other's
// deletion was seen, or its log is kept as stray.
func (m *Manager) replace(img *meta.Image, tp kafka.TopicPartition, old kafka.TopicID) error {
	if p, ok := m.Get(tp); ok && p.id == old {
		p.close()
		m.entered(p)
	}
	if _, dead := img.Tombstone(old); dead {
		return m.logs.Delete(tp, old)
	}
	m.log.Warn("log of another topic under this name, put aside", "tp", tp, "topic_id", old)
	return m.logs.Stray(tp)
}

// drop ends a partition that is not of this broker any more, and gives its log up.
func (m *Manager) drop(tp kafka.TopicPartition, id kafka.TopicID) {
	m.mu.Lock()
	p := m.hosted[tp]
	if p != nil && p.id == id {
		delete(m.hosted, tp)
	}
	m.mu.Unlock()
	if p == nil || p.id != id {
		return
	}
	p.close()
	m.entered(p)
	if err := m.logs.Delete(tp, id); err != nil {
		m.log.Error("log of a partition that is not of this broker any more stays", "tp", tp, "err", err)
	}
}

// reconfigure hands changed settings to the partitions they concern.
func (m *Manager) reconfigure(img *meta.Image, d *meta.Delta) {
	everyone := d.ClusterConfig || len(d.BrokerConfigs) > 0
	if !everyone && len(d.TopicConfigs) == 0 {
		return
	}
	changed := make(map[string]bool, len(d.TopicConfigs))
	for _, name := range d.TopicConfigs {
		changed[name] = true
	}
	for _, p := range m.All() {
		if everyone || changed[p.tp.Topic] {
			cfg, rules := m.settings(img, p.tp.Topic)
			p.configure(cfg, rules)
		}
	}
}

// Close ends all partitions: whoever waits is told that this broker no longer leads.
func (m *Manager) Close() {
	for _, p := range m.All() {
		p.close()
	}
}

// configure takes over rules; the high watermark may move by them. The log
// cannot be replaced meanwhile.
func (p *Partition) configure(c storage.Config, r Rules) {
	p.mu.Lock()
	p.Log().SetConfig(c)
	p.setRules(r)
	p.view.MinInSync = r.MinInSync
	woken := p.advanceLocked()
	p.mu.Unlock()
	woken.finish(p)
}
