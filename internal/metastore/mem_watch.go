package metastore

import (
	"context"
	"fmt"
	"sort"
	"strings"
	"sync"
)

// memBatchRevs bounds how many revisions of history one Change carries, so that consumers meet Changes of several revisions as etcd sends them.
const memBatchRevs = 1000

// Watch implements Store.
func (m *Mem) Watch(ctx context.Context, prefix string, from int64) (Watcher, error) {
	if err := m.enter(ctx); err != nil {
		return nil, unavailable(err)
	}
	defer m.mu.Unlock()
	w := &memWatcher{
		prefix: prefix,
		from:   from,
		ch:     make(chan Change),
		wake:   make(chan struct{}, 1),
	}
	if from <= 0 {
		w.from = m.rev + 1
	}
	if w.from < m.compacted {
		w.fail(fmt.Errorf("watch %q from %d, compacted at %d: %w", prefix, from, m.compacted, ErrCompacted))
	} else {
		w.replay(m.log)
		m.watchers[w] = struct{}{}
	}
	go func() {
		w.pump(ctx)
		m.mu.Lock()
		delete(m.watchers, w)
		m.mu.Unlock()
		close(w.ch)
	}()
	return w, nil
}

// RequestProgress implements ProgressRequester.
func (m *Mem) RequestProgress(ctx context.Context) error {
	if err := m.enter(ctx); err != nil {
		return unavailable(err)
	}
	defer m.mu.Unlock()
	for w := range m.watchers {
		if m.rev >= w.from {
			w.add(Change{Rev: m.rev})
		}
	}
	return nil
}

type memWatcher struct {
	prefix string
	from   int64
	ch     chan Change
	wake   chan struct{}

	mu    sync.Mutex
	queue []Change
	err   error
	ended bool
}

func (w *memWatcher) C() <-chan Change { return w.ch }

func (w *memWatcher) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// replay queues the history from w.from on.
func (w *memWatcher) replay(log []memRev) {
	log = log[sort.Search(len(log), func(i int) bool { return log[i].rev >= w.from }):]
	for len(log) > 0 {
		n := min(memBatchRevs, len(log))
		var c Change
		for _, r := range log[:n] {
			c.Events = append(c.Events, w.mine(r.events)...)
		}
		if len(c.Events) > 0 {
			c.Rev = c.Events[len(c.Events)-1].KV.ModRev
			w.add(c)
		}
		log = log[n:]
	}
}

// offer queues a new revision's events under the prefix.
func (w *memWatcher) offer(r memRev) {
	if r.rev < w.from {
		return
	}
	if evs := w.mine(r.events); len(evs) > 0 {
		w.add(Change{Events: evs, Rev: r.rev})
	}
}

func (w *memWatcher) mine(events []Event) []Event {
	var out []Event
	for _, e := range events {
		if strings.HasPrefix(e.KV.Key, w.prefix) {
			out = append(out, e)
		}
	}
	return out
}

func (w *memWatcher) add(c Change) {
	w.mu.Lock()
	w.queue = append(w.queue, c)
	w.mu.Unlock()
	w.nudge()
}

func (w *memWatcher) fail(err error) {
	w.mu.Lock()
	w.err, w.ended = err, true
	w.mu.Unlock()
	w.nudge()
}

func (w *memWatcher) nudge() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// pump moves the queue into the channel until the watch ends.
func (w *memWatcher) pump(ctx context.Context) {
	for {
		w.mu.Lock()
		queue, ended := w.queue, w.ended
		w.queue = nil
		w.mu.Unlock()
		for _, c := range queue {
			select {
			case w.ch <- c:
			case <-ctx.Done():
				w.fail(ctx.Err())
				return
			}
		}
		if ended {
			return
		}
		select {
		case <-w.wake:
		case <-ctx.Done():
			w.fail(ctx.Err())
			return
		}
	}
}
