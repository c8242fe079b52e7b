package broker

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/metastore"
)

const (
	// pulseDials, spread over pulseSpan, have to be refused.
	pulseDials = 3
	pulseSpan  = 200 * time.Millisecond
	// pulseSoon is when a broker is tried again that hung up; up to pulseAgain
	// where it does that all the time, or could not be reached.
	pulseSoon  = 20 * time.Millisecond
	pulseAgain = time.Second
	// pulseTry is how long the end of a session is waited for before it is asked
	// for again: what was asked of a leader of the metadata that died as well is
	// lost, and the next one does not know of it.
	pulseTry = 300 * time.Millisecond
	// pulseTrust is for how long a broker is left to its session that came back
	// without having restarted: its port refuses for other reasons than its death.
	pulseTrust = 10 * time.Minute
)

// pulse ends the session of a broker whose process died, long before it runs out
// (safety 34). A process that is killed takes its connections and its port with
// it: so the controller holds an idle connection to each broker, and each broker
// one to the controller. Where it ends, and the port refuses three times, the
// lease of exactly that registration is revoked, if it is still there. A machine
// that is lost refuses nothing, and costs the session's time.
type pulse struct {
	self     kafka.NodeID
	listener string // between brokers
	keeper   *imageKeeper
	store    metastore.Store
	valid    func() bool
	dial     func(ctx context.Context, address string) (net.Conn, error)
	log      *slog.Logger

	mu      sync.Mutex
	trusted map[kafka.NodeID]trust
}

// trust is in a start of a broker whose session was ended, and that lived.
type trust struct {
	startID string
	until   time.Time
}

// patient is a registration whose pulse is felt.
type patient struct {
	node  kafka.NodeID
	epoch int64
	at    string
}

// Run feels the pulses of those whom the image gives this broker, until ctx ends.
func (p *pulse) Run(ctx context.Context) error {
	felt := map[patient]context.CancelFunc{}
	var wg sync.WaitGroup
	defer wg.Wait()
	defer func() {
		for _, stop := range felt {
			stop()
		}
	}()
	for {
		changed := p.keeper.Changed()
		wanted := p.patients(p.keeper.Image())
		for who, stop := range felt {
			if !wanted[who] {
				stop()
				delete(felt, who)
			}
		}
		for who := range wanted {
			if felt[who] == nil {
				own, stop := context.WithCancel(ctx)
				felt[who] = stop
				wg.Go(func() { p.feel(own, who) })
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-changed:
		}
	}
}

// patients are all others for the controller, and the controller for others.
func (p *pulse) patients(img *meta.Image) map[patient]bool {
	out := map[patient]bool{}
	for _, b := range img.Brokers() {
		if b.ID == p.self || b.Lease == 0 || !p.mine(img, b.ID) {
			continue
		}
		if host, port, ok := addressOf(b, p.listener); ok {
			out[patient{b.ID, b.Epoch, net.JoinHostPort(host, strconv.Itoa(int(port)))}] = true
		}
	}
	return out
}

// mine: it is for this broker to end that one's session.
func (p *pulse) mine(img *meta.Image, node kafka.NodeID) bool {
	controller, _ := img.Controller()
	return controller == p.self || controller == node
}

func addressOf(b *meta.Broker, listener string) (host string, port int32, ok bool) {
	for _, l := range b.Listeners {
		if l.Name == listener {
			return l.Host, l.Port, true
		}
	}
	return "", 0, false
}

// feel holds a connection, and looks closer when it ends. A process that dies
// may end a connection before it gives up its port: so the next one is held like
// the last, and only refusals tell.
func (p *pulse) feel(ctx context.Context, who patient) {
	var ended error // how the last connection did; nil: there was none
	soon := pulseSoon
	for ctx.Err() == nil {
		pause := pulseAgain
		nc, dead := p.look(ctx, who.at)
		switch {
		case nc != nil:
			began := time.Now()
			if ended = hold(ctx, nc); time.Since(began) > pulseAgain {
				soon = pulseSoon
			}
			pause, soon = soon, min(2*soon, pulseAgain)
		case dead && ended != nil && ctx.Err() == nil:
			p.end(ctx, who, ended)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// hold waits until an idle connection ends.
func hold(ctx context.Context, nc net.Conn) error {
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	defer nc.Close()
	_, err := io.Copy(io.Discard, nc)
	if err == nil {
		err = io.EOF
	}
	return err
}

// look connects. dead says that nobody listens there, and the host says so, each time.
func (p *pulse) look(ctx context.Context, at string) (nc net.Conn, dead bool) {
	for n := range pulseDials {
		if n > 0 {
			select {
			case <-ctx.Done():
				return nil, false
			case <-time.After(pulseSpan / (pulseDials - 1)):
			}
		}
		if nc, dead := p.knock(ctx, at); !dead {
			return nc, false
		}
	}
	return nil, true
}

// knock connects; dead says that the host refuses.
func (p *pulse) knock(ctx context.Context, at string) (nc net.Conn, dead bool) {
	ctx, cancel := context.WithTimeout(ctx, pulseAgain)
	defer cancel()
	nc, err := p.dial(ctx, at)
	if err != nil {
		return nil, errors.Is(err, syscall.ECONNREFUSED)
	}
	return nc, false
}

// end revokes the lease of a registration that is still there, for as long as
// its port refuses.
func (p *pulse) end(ctx context.Context, who patient, cause error) {
	b, ok := p.condemned(p.keeper.Image(), who, time.Now())
	if !ok {
		return
	}
	for dead := true; dead && p.valid() && ctx.Err() == nil; {
		try, cancel := context.WithTimeout(ctx, pulseTry)
		gone, err := p.revoke(try, b)
		if err == nil {
			cancel()
			if gone {
				p.log.Warn("broker is dead: its connection ended, and its port refuses; its session is ended", "broker", who.node, "epoch", who.epoch, "cause", cause)
			}
			return
		}
		p.log.Info("session of a dead broker is not ended yet", "broker", who.node, "err", err)
		<-try.Done()
		cancel()
		var nc net.Conn
		if nc, dead = p.knock(ctx, who.at); nc != nil {
			_ = nc.Close()
		}
	}
}

// revoke ends the session of a registration; false: it is not what it was.
func (p *pulse) revoke(ctx context.Context, b *meta.Broker) (bool, error) {
	get := []kv.Op{kv.GetOp(p.keeper.Image().Keys().Broker(b.ID))}
	res, err := p.store.Txn(ctx, kv.Txn{If: []kv.Cmp{kv.ModIs(get[0].Key, b.ModRev)}, Then: get, Else: get})
	if err != nil || !res.Succeeded {
		return false, err
	}
	p.remember(b, time.Now())
	if err := p.store.Revoke(ctx, b.Lease); err != nil && !errors.Is(err, metastore.ErrLeaseGone) {
		return false, err
	}
	return true, nil
}

// condemned is a registration whose lease may be revoked, as far as the image
// tells. One that is leaving has given up what it had, and revokes its own.
func (p *pulse) condemned(img *meta.Image, who patient, now time.Time) (*meta.Broker, bool) {
	b, there := img.Broker(who.node)
	if !there || b.Epoch != who.epoch || b.Lease == 0 || b.Leaving || !p.mine(img, who.node) || !p.valid() {
		return nil, false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	t, known := p.trusted[who.node]
	return b, !known || t.startID != b.StartID || now.After(t.until)
}

func (p *pulse) remember(b *meta.Broker, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.trusted == nil {
		p.trusted = map[kafka.NodeID]trust{}
	}
	p.trusted[b.ID] = trust{b.StartID, now.Add(pulseTrust)}
}
