// Package levels says how much the process logs: one level for all of it, and
// levels of single parts, changed while it runs. A part is what a logger got
// with With("part", name); it is known here from then on, as barnabas.<name>.
//
// The levels and their names are those of Apache Kafka's broker loggers
// (KIP-412). Nothing is kept over a restart. All methods may be called from any
// goroutine.
package levels

import (
	"context"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Levels beyond those of log/slog.
const (
	Trace = slog.LevelDebug - 4
	Fatal = slog.LevelError + 4
)

// Root is the name of the logger whose level counts where a part has none.
const Root = "root"

const prefix = "barnabas."

var names = []struct {
	name  string
	level slog.Level
}{{"DEBUG", slog.LevelDebug}, {"ERROR", slog.LevelError}, {"FATAL", Fatal}, {"INFO", slog.LevelInfo}, {"TRACE", Trace}, {"WARN", slog.LevelWarn}}

// Names are the levels' names in the order of the alphabet.
func Names() []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = n.name
	}
	return out
}

// Parse finds a level by its name in capitals.
func Parse(name string) (slog.Level, bool) {
	for _, n := range names {
		if n.name == name {
			return n.level, true
		}
	}
	return 0, false
}

// Name is the name of the greatest level that is not above l.
func Name(l slog.Level) string {
	best, at := "TRACE", Trace
	for _, n := range names {
		if n.level <= l && n.level >= at {
			best, at = n.name, n.level
		}
	}
	return best
}

// Levels holds the level of each logger.
type Levels struct {
	root atomic.Int64

	mu    sync.Mutex
	parts map[string]*part // by the logger's name
}

// part is the level of one part, or unset.
type part struct{ level atomic.Int64 }

const unset = math.MinInt64

// New begins with one level for everything.
func New(root slog.Level) *Levels {
	l := &Levels{parts: map[string]*part{}}
	l.root.Store(int64(root))
	return l
}

// Of begins with the least level that a handler takes.
func Of(h slog.Handler) *Levels {
	for _, level := range []slog.Level{Trace, slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		if h.Enabled(context.Background(), level) {
			return New(level)
		}
	}
	return New(Fatal)
}

// SetRoot sets the level of every part that has none of its own.
func (l *Levels) SetRoot(level slog.Level) { l.root.Store(int64(level)) }

// Set gives a logger a level; false when there is no logger of that name.
func (l *Levels) Set(logger string, level slog.Level) bool {
	if logger == Root {
		l.SetRoot(level)
		return true
	}
	return l.store(logger, int64(level))
}

// Unset lets a part go by the root's level again; false when there is no part
// of that name.
func (l *Levels) Unset(logger string) bool { return l.store(logger, unset) }

func (l *Levels) store(logger string, level int64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	p, ok := l.parts[logger]
	if ok {
		p.level.Store(level)
	}
	return ok
}

// A Logger is one logger with the level that counts for it.
type Logger struct {
	Name  string
	Level slog.Level
}

// Loggers are the root and the parts that are known, by name.
func (l *Levels) Loggers() []Logger {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := []Logger{{Root, slog.Level(l.root.Load())}}
	for _, name := range slices.Sorted(maps.Keys(l.parts)) {
		out = append(out, Logger{name, l.counts(l.parts[name])})
	}
	slices.SortFunc(out, func(a, b Logger) int { return strings.Compare(a.Name, b.Name) })
	return out
}

// counts is the level that counts for a part; nil is the root.
func (l *Levels) counts(p *part) slog.Level {
	if p != nil {
		if level := p.level.Load(); level != unset {
			return slog.Level(level)
		}
	}
	return slog.Level(l.root.Load())
}

func (l *Levels) part(name string) *part {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.parts[prefix+name]
	if p == nil {
		p = &part{}
		p.level.Store(unset)
		l.parts[prefix+name] = p
	}
	return p
}

// Handler keeps from next what is below the level of its part. What next
// leaves out itself stays out.
func (l *Levels) Handler(next slog.Handler) slog.Handler { return &handler{levels: l, next: next} }

type handler struct {
	levels *Levels
	part   *part
	next   slog.Handler
	deep   bool // in a group: attributes are no longer the logger's own
}

// Enabled implements slog.Handler.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.levels.counts(h.part) && h.next.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (h *handler) Handle(ctx context.Context, r slog.Record) error { return h.next.Handle(ctx, r) }

// WithAttrs implements slog.Handler.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	c := *h
	c.next = h.next.WithAttrs(attrs)
	for _, a := range attrs {
		if a.Key == "part" && !h.deep {
			c.part = h.levels.part(a.Value.String())
		}
	}
	return &c
}

// WithGroup implements slog.Handler.
func (h *handler) WithGroup(name string) slog.Handler {
	c := *h
	c.next, c.deep = h.next.WithGroup(name), true
	return &c
}
