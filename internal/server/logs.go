package server

import (
	"log/slog"
	"sync"
	"time"
)

// sparse lets one line through in an interval and counts the others: strangers must
// not be able to fill the log (PROTO-07).
type sparse struct {
	mu         sync.Mutex
	next       time.Time
	suppressed int
}

const sparseEvery = 10 * time.Second

func (s *sparse) admit() (suppressed int, ok bool) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Before(s.next) {
		s.suppressed++
		return 0, false
	}
	suppressed, s.suppressed = s.suppressed, 0
	s.next = now.Add(sparseEvery)
	return suppressed, true
}

// Warn logs unless a line of this kind was logged shortly before.
func (s *sparse) Warn(l *slog.Logger, msg string, args ...any) {
	if n, ok := s.admit(); ok {
		l.Warn(msg, append(args, "suppressed", n)...)
	}
}

// Error is Warn at level error.
func (s *sparse) Error(l *slog.Logger, msg string, args ...any) {
	if n, ok := s.admit(); ok {
		l.Error(msg, append(args, "suppressed", n)...)
	}
}

type sparseLogs struct {
	garbage, slow, failed, panicked, accept, refused sparse
}
