package levels

import (
	"log/slog"
	"maps"
	"slices"
)

// Spec is what settings say: a level for all, and others for single parts.
type Spec struct {
	Root  slog.Level
	Parts map[string]slog.Level // by the part's name, as it stands in With("part", name)
}

// Configure takes over what settings say. Parts that they do not name go by the
// root's level; one whose logger comes later has its level from the beginning.
func (l *Levels) Configure(s Spec) {
	l.SetRoot(s.Root)
	for _, name := range slices.Sorted(maps.Keys(s.Parts)) {
		l.part(name).level.Store(int64(s.Parts[name]))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, p := range l.parts {
		if _, named := s.Parts[name[len(prefix):]]; !named {
			p.level.Store(unset)
		}
	}
}
