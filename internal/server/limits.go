package server

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// Limits bound the connections of a server; they may change while it runs.
type Limits struct {
	Connections int                // max.connections, over all listeners: 0, no limit
	PerIP       int                // max.connections.per.ip: 0, no limit; negative: only who is in Overrides
	Overrides   map[netip.Addr]int // max.connections.per.ip.overrides
	Rate        int                // max.connection.creation.rate, a second: 0, no limit
}

// SetLimits replaces the limits for connections to come; those that are open
// stay. The map is not to be changed afterwards.
func (s *Server) SetLimits(l Limits) { s.limits.set(l) }

// limiter counts connections against their limits, and paces them by the rate.
type limiter struct {
	freed chan struct{} // signal: there may be room

	mu     sync.Mutex
	limits Limits
	open   int
	byIP   map[netip.Addr]int
	tokens float64
	filled time.Time
}

func newLimiter(limits Limits) *limiter {
	l := &limiter{byIP: map[netip.Addr]int{}, freed: make(chan struct{}, 1)}
	l.set(limits)
	return l
}

func (l *limiter) set(limits Limits) {
	l.mu.Lock()
	if limits.Rate != l.limits.Rate {
		l.tokens, l.filled = max(float64(limits.Rate), 1), time.Time{}
	}
	l.limits = limits
	l.mu.Unlock()
	signal(l.freed)
}

// await blocks until another connection may be accepted: like Apache Kafka, a full
// broker leaves newcomers in the backlog, and its own listener between brokers is
// exempt. False when ctx ended.
func (l *limiter) await(ctx context.Context, exempt bool) bool {
	return l.room(ctx, exempt) && l.pace(ctx, exempt)
}

// room blocks while there are as many connections as may be.
func (l *limiter) room(ctx context.Context, exempt bool) bool {
	for !exempt {
		l.mu.Lock()
		total := l.limits.Connections
		full := total > 0 && l.open >= total
		if total <= 0 || l.open+1 < total {
			signal(l.freed) // another acceptor may go on too
		}
		l.mu.Unlock()
		if !full {
			break
		}
		select {
		case <-l.freed:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (l *limiter) pace(ctx context.Context, exempt bool) bool {
	l.mu.Lock()
	rate := float64(l.limits.Rate)
	if exempt || rate <= 0 {
		l.mu.Unlock()
		return ctx.Err() == nil
	}
	now := time.Now()
	if !l.filled.IsZero() {
		l.tokens = min(l.tokens+now.Sub(l.filled).Seconds()*rate, max(rate, 1))
	}
	l.filled = now
	l.tokens--
	wait := time.Duration(-l.tokens / rate * float64(time.Second))
	l.mu.Unlock()
	if wait <= 0 {
		return ctx.Err() == nil
	}
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// add counts a connection; false when its address has too many.
func (l *limiter) add(a net.Addr) bool {
	ip := addrOf(a)
	l.mu.Lock()
	defer l.mu.Unlock()
	limit, special := l.limits.Overrides[ip]
	if !special {
		limit = l.limits.PerIP
	}
	if ip.IsValid() && (special || limit != 0) && l.byIP[ip] >= limit {
		return false
	}
	l.open++
	if ip.IsValid() {
		l.byIP[ip]++
	}
	return true
}

func (l *limiter) remove(a net.Addr) {
	ip := addrOf(a)
	l.mu.Lock()
	l.open--
	if ip.IsValid() {
		if l.byIP[ip]--; l.byIP[ip] == 0 {
			delete(l.byIP, ip)
		}
	}
	l.mu.Unlock()
	signal(l.freed)
}

// addrOf is the peer's IP; invalid for what has none (a pipe), which only the total limits.
func addrOf(a net.Addr) netip.Addr {
	if t, ok := a.(*net.TCPAddr); ok {
		return t.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}
