package sim

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/barnabas-mq/barnabas/internal/check"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// history is what clients did and saw. Positions are the time since the start,
// each later than the one before.
type history struct {
	mu     sync.Mutex
	began  time.Time
	last   int64
	judge  *check.Judge
	bad    error // of a history that is none
	acked  int
	starts map[int32]int64 // by partition, as DeleteRecords was answered
}

// now is a position.
func (h *history) now() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.next()
}

func (h *history) next() int64 {
	h.last = max(h.last+1, int64(time.Since(h.began)))
	return h.last
}

// add writes an event down; its end is now.
func (h *history) add(e *check.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	e.Observer, e.End = "sim", h.next()
	if e.Op == check.Produce && e.Out == check.OK && e.Acks == check.AcksAll {
		h.acked++
	}
	if e.Op == check.Delete && e.Out == check.OK {
		h.starts[e.Partition] = max(h.starts[e.Partition], e.Start)
	}
	if err := h.judge.Add(e); err != nil && h.bad == nil {
		h.bad = err
	}
}

// deleted is what is certain of a log start that a reader was told: up to what
// was acknowledged. A leader tells its own start before the others have it, and
// when it dies then, theirs is told.
func (h *history) deleted(part int32, start int64) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return min(start, h.starts[part])
}

func (h *history) acknowledged() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.acked
}

// trace is what happened, a line each, to be read when something went wrong.
type trace struct {
	mu    sync.Mutex
	began time.Time
	lines []string
}

func (t *trace) add(format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf("%9.3fs %s", time.Since(t.began).Seconds(), line))
}

// watch notes what changes in the metadata store, until ctx ends.
func (t *trace) watch(ctx context.Context, store metastore.Store) {
	w, err := store.Watch(ctx, meta.Root, 1)
	if err != nil {
		return
	}
	for c := range w.C() {
		for _, e := range c.Events {
			_, key, _ := strings.Cut(strings.TrimPrefix(e.KV.Key, meta.Root), "/")
			what := "gone"
			if !e.Deleted {
				what = string(e.KV.Value)
			}
			t.add("metadata at %d: %s: %s", e.KV.ModRev, key, what)
		}
	}
}

func (t *trace) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

// of is a logger's handler: its lines are those of one who speaks.
func (t *trace) of(who string) slog.Handler { return speaker{t: t, who: who} }

type speaker struct {
	t          *trace
	who, attrs string
}

func (s speaker) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelInfo }

func (s speaker) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %v %s%s", s.who, r.Level, r.Message, s.attrs)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	s.t.add("%s", b.String())
	return nil
}

func (s speaker) WithAttrs(attrs []slog.Attr) slog.Handler {
	for _, a := range attrs {
		if a.Key != "part" {
			s.attrs += fmt.Sprintf(" %s=%v", a.Key, a.Value)
		}
	}
	return s
}

func (s speaker) WithGroup(string) slog.Handler { return s }
