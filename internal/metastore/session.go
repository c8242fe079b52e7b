package metastore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"
)

// SessionConfig of a Session. Only TTL has no default.
type SessionConfig struct {
	// TTL of the lease. 0: a single node, which registers without a lease and is always valid.
	TTL time.Duration
	// Margin taken off each validity, for clocks that run apart: a ninth of TTL.
	Margin time.Duration
	// Clock must go on while the machine sleeps: Boottime. Valid's now is a reading of it.
	Clock func() time.Duration
	// Position is the revision of the consumer's image (Follower.Rev). Nil: freshness is not looked at.
	Position func() int64
	// Stale is called when the image was behind for a third of TTL, once per time that it is: restart the watch (Follower.Restart).
	Stale func()
	// Logger: one line per fencing and unfencing.
	Logger *slog.Logger
}

// renewalsInFlight bounds the renewals that wait for an answer (safety 31).
const renewalsInFlight = 4

// Session keeps a lease and says until when it holds, by rules 31-33 of the
// design's safety: it bounds how stale a cut-off broker can be, and fencing is
// reversible: a later renewal of the same lease makes it valid again.
//
// Run is called once; all other methods may be called concurrently.
type Session struct {
	store  Store
	cfg    SessionConfig
	lease  int64         // set before ready is closed
	ready  chan struct{} // the lease is there
	until  atomic.Int64  // Clock reading up to which the lease is certain
	freshD atomic.Int64  // Clock reading up to which the image counts as fresh without looking

	mu      sync.Mutex
	behind  []seenRev // revisions read that the image had not reached, ascending
	key     string    // registration to watch over: "" none
	epoch   int64     // its create revision
	stale   bool      // Stale was called for this time
	valid   bool      // as last logged
	ended   bool      // no answer that is still on its way makes it valid again
	wasGone error     // why the session was lost
}

type seenRev struct {
	rev int64
	by  time.Duration // the image must be there by then
}

// ErrSessionLost: the lease or the registration under it is gone; only a new session and a new registration help.
var ErrSessionLost = errors.New("session lost")

// NewSession makes a session; Run grants its lease.
func NewSession(store Store, cfg SessionConfig) *Session {
	if cfg.Margin == 0 {
		cfg.Margin = cfg.TTL / 9
	}
	if cfg.Clock == nil {
		cfg.Clock = Boottime
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	s := &Session{store: store, cfg: cfg, ready: make(chan struct{})}
	s.freshD.Store(math.MaxInt64)
	if cfg.TTL == 0 {
		close(s.ready)
	}
	return s
}

// Lease waits for the lease to be granted: 0 for a session without.
func (s *Session) Lease(ctx context.Context) (int64, error) {
	select {
	case <-s.ready:
		return s.lease, nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

// Guard makes the session watch over the registration under its lease: without
// key at createRev the session is lost, lease or not (safety 34).
func (s *Session) Guard(key string, createRev int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.key, s.epoch = key, createRev
}

// Valid says whether the session holds at now, a reading of the session's
// clock. It takes no lock unless the image is behind.
func (s *Session) Valid(now time.Duration) bool {
	if s.cfg.TTL == 0 {
		return true
	}
	if int64(now) >= s.until.Load() {
		return false
	}
	if int64(now) < s.freshD.Load() {
		return true
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.prune()
	return int64(now) < s.freshD.Load()
}

// ValidNow is Valid at the clock's reading, which it spares a session without lease.
func (s *Session) ValidNow() bool {
	return s.cfg.TTL == 0 || s.Valid(s.cfg.Clock())
}

// Revoke ends the lease at once, and with it the registration. A lease that is already gone is no error.
func (s *Session) Revoke(ctx context.Context) error {
	select {
	case <-s.ready:
	default:
		return nil
	}
	if s.cfg.TTL == 0 {
		return nil
	}
	s.end()
	if err := s.store.Revoke(ctx, s.lease); err != nil && !errors.Is(err, ErrLeaseGone) {
		return fmt.Errorf("revoke session: %w", err)
	}
	return nil
}

// Run grants the lease and keeps it until ctx ends, whose error it returns, or
// the session is lost: ErrSessionLost. Leaving does not revoke the lease.
func (s *Session) Run(ctx context.Context) error {
	if s.cfg.TTL == 0 {
		<-ctx.Done()
		return ctx.Err()
	}
	if err := s.grant(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	defer s.end()
	lost := make(chan struct{})
	slots := make(chan struct{}, renewalsInFlight)
	tick := time.NewTicker(s.cfg.TTL / 6)
	defer tick.Stop()
	expiry := time.NewTimer(time.Hour)
	defer expiry.Stop()
	var once sync.Once
	for {
		s.report()
		expiry.Reset(s.nextExpiry())
		select {
		case slots <- struct{}{}:
			wg.Go(func() {
				defer func() { <-slots }()
				if s.round(ctx) {
					once.Do(func() { close(lost) })
				}
			})
		default: // four wait for answers: a fifth would not be quicker
		}
	wait:
		for {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-lost:
				s.report()
				s.mu.Lock()
				defer s.mu.Unlock()
				return s.wasGone
			case <-tick.C:
				break wait
			case <-expiry.C:
				s.report()
			}
		}
	}
}

// grant asks until it has a lease. At first it asks again long before the time of
// one is over: what was asked of a leader that is gone is not answered, and a
// lease that nobody hears of runs out.
func (s *Session) grant(ctx context.Context) error {
	for patience := s.cfg.TTL / 6; ; patience = min(2*patience, s.cfg.TTL) {
		sent := s.cfg.Clock()
		actx, cancel := context.WithTimeout(ctx, patience)
		lease, err := s.store.Grant(actx, s.cfg.TTL)
		cancel()
		if err == nil {
			s.lease = lease
			s.extend(sent, s.cfg.TTL)
			close(s.ready)
			return nil
		}
		s.cfg.Logger.Info("no session yet", "cause", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(s.cfg.TTL / 6):
		}
	}
}

// extend moves the validity forward, never back: answers may come out of order.
func (s *Session) extend(sent, ttl time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if until := int64(sent + ttl - s.cfg.Margin); !s.ended && until > s.until.Load() {
		s.until.Store(until)
	}
}

func (s *Session) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	s.until.Store(0)
}

// round renews once and looks at the revision; it says whether the session is lost.
func (s *Session) round(ctx context.Context) (lost bool) {
	ctx, cancel := context.WithTimeout(ctx, s.cfg.TTL)
	defer cancel()
	sent := s.cfg.Clock()
	_, err := s.store.Renew(ctx, s.lease)
	if errors.Is(err, ErrLeaseGone) {
		s.lose(err)
		return true
	}
	if err != nil {
		return false
	}
	// The lease holds, but it must not carry a broker whose registration went.
	there, rev, err := s.look(ctx)
	if err != nil {
		return false
	}
	if !there {
		s.lose(errors.New("registration gone"))
		return true
	}
	if s.observe(rev) {
		if p, ok := s.store.(ProgressRequester); ok {
			// Events of other prefixes move the revision too: let the watch say that it is there.
			_ = p.RequestProgress(ctx) // the next round asks again
		}
	}
	// Counted as TTL asked for: the engine may have granted more, never less.
	s.extend(sent, s.cfg.TTL)
	return false
}

// look reads, linearizably, the store's revision and whether the registration is there.
func (s *Session) look(ctx context.Context) (there bool, rev int64, err error) {
	s.mu.Lock()
	key, epoch := s.key, s.epoch
	s.mu.Unlock()
	if key == "" {
		rev, err = s.store.Rev(ctx)
		return true, rev, err
	}
	// The Get makes etcd read through the quorum: it calls a transaction of compares alone serializable.
	get := []Op{{Kind: Get, Key: key}}
	res, err := s.store.Txn(ctx, Txn{If: []Cmp{{Key: key, Target: CreateRev, Want: epoch}}, Then: get, Else: get})
	return res.Succeeded, res.Rev, err
}

func (s *Session) lose(why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wasGone == nil {
		s.wasGone = fmt.Errorf("%w: %w", ErrSessionLost, why)
	}
	s.ended = true
	s.until.Store(0)
}

// observe notes that the store was at rev now: the image has a third of TTL to
// be there. It says whether the image is behind.
func (s *Session) observe(rev int64) bool {
	if s.cfg.Position == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	// The oldest decides; the bound only keeps an hour-long lag from growing.
	if n := len(s.behind); n == 0 || n < 64 && s.behind[n-1].rev < rev {
		s.behind = append(s.behind, seenRev{rev: rev, by: s.cfg.Clock() + s.cfg.TTL/3})
	}
	s.prune()
	return len(s.behind) > 0
}

// prune forgets the revisions that the image has reached. s.mu is held.
func (s *Session) prune() {
	at := s.cfg.Position()
	for len(s.behind) > 0 && s.behind[0].rev <= at {
		s.behind = s.behind[1:]
	}
	if len(s.behind) == 0 {
		s.behind = nil
		s.freshD.Store(math.MaxInt64)
		return
	}
	s.freshD.Store(int64(s.behind[0].by))
}

// nextExpiry is how long until the session would fence itself.
func (s *Session) nextExpiry() time.Duration {
	now := int64(s.cfg.Clock())
	next := int64(math.MaxInt64)
	for _, at := range []int64{s.until.Load(), s.freshD.Load()} {
		if at > now {
			next = min(next, at)
		}
	}
	if next == math.MaxInt64 {
		return s.cfg.TTL
	}
	return time.Duration(next - now)
}

// report logs a change of validity, asks lagging watches where they are, and has a stale one restarted.
func (s *Session) report() {
	now := s.cfg.Clock()
	valid := s.Valid(now)
	s.mu.Lock()
	leased := int64(now) < s.until.Load()
	lagging := len(s.behind) > 0
	stale := lagging && int64(now) >= int64(s.behind[0].by)
	restart := stale && !s.stale
	s.stale = stale
	changed := valid != s.valid
	s.valid = valid
	s.mu.Unlock()
	if changed && valid {
		s.cfg.Logger.Info("session valid", "lease", s.lease)
	}
	if changed && !valid {
		s.cfg.Logger.Warn("session fenced", "lease", s.lease, "lease held", leased, "image stale", stale)
	}
	if restart && s.cfg.Stale != nil {
		s.cfg.Stale()
	}
}
