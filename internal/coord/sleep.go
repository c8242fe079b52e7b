package coord

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"
)

// sleep notices that this process did not run: it was stopped (SIGSTOP, a
// debugger, a frozen container), or had no processor. What members sent
// meanwhile lies in sockets, so time-outs wait until they could be heard, as they
// do after the partition could not be written.
type sleep struct {
	alive, ended atomic.Pointer[time.Time] // seen running last; when the last sleep was noticed
}

// It is a sleep from asleep on; below are pauses that any session bears.
const (
	watchEvery = time.Second
	asleep     = 3 * time.Second
)

func (s *sleep) begin() {
	now := time.Now()
	s.alive.Store(&now)
}

func (s *sleep) watch(ctx context.Context, log *slog.Logger) {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		now := time.Now()
		if gap := now.Sub(*s.alive.Load()); gap > asleep {
			log.Warn("this process did not run: time-outs of members wait", "for", gap.Round(time.Second), "wait", frozen)
			s.ended.Store(&now)
		}
		s.alive.Store(&now)
	}
}

// until is when time-outs go on; zero or past: they do. Who asks may be the first
// that runs after a sleep.
func (s *sleep) until(now time.Time) time.Time {
	if now.Sub(*s.alive.Load()) > asleep {
		return now.Add(frozen)
	}
	if ended := s.ended.Load(); ended != nil {
		return ended.Add(frozen)
	}
	return time.Time{}
}
