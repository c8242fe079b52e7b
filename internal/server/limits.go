package server

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"time"
)

// limiter counts connections against max.connections and max.connections.per.ip,
// and paces them by max.connection.creation.rate.
type limiter struct {
	total     int // 0: no limit
	perIP     int
	overrides map[netip.Addr]int
	rate      float64 // a second; 0: no limit

	mu     sync.Mutex
	open   int
	byIP   map[netip.Addr]int
	freed  chan struct{} // signal: open fell
	tokens float64
	filled time.Time
}

func newLimiter(cfg Config) *limiter {
	return &limiter{
		total: cfg.MaxConnections, perIP: cfg.MaxConnectionsPerIP, overrides: cfg.MaxConnectionsPerIPOverrides,
		rate: float64(cfg.MaxConnectionRate), byIP: map[netip.Addr]int{}, freed: make(chan struct{}, 1),
		tokens: max(float64(cfg.MaxConnectionRate), 1),
	}
}

// await blocks until another connection may be accepted: like Apache Kafka, a full
// broker leaves newcomers in the backlog, and its own listener between brokers is
// exempt. False when ctx ended.
func (l *limiter) await(ctx context.Context, exempt bool) bool {
	for !exempt && l.total > 0 {
		l.mu.Lock()
		full := l.open >= l.total
		if l.open+1 < l.total {
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
	return l.pace(ctx, exempt)
}

func (l *limiter) pace(ctx context.Context, exempt bool) bool {
	if exempt || l.rate <= 0 {
		return ctx.Err() == nil
	}
	l.mu.Lock()
	now := time.Now()
	if !l.filled.IsZero() {
		l.tokens = min(l.tokens+now.Sub(l.filled).Seconds()*l.rate, max(l.rate, 1))
	}
	l.filled = now
	l.tokens--
	wait := time.Duration(-l.tokens / l.rate * float64(time.Second))
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
	limit, special := l.overrides[ip]
	if !special {
		limit = l.perIP
	}
	if ip.IsValid() && (special || limit > 0) && l.byIP[ip] >= limit {
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
