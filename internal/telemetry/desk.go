package telemetry

import (
	"container/list"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// maxInstances bounds the clients that are remembered; the one that was silent
	// for longest goes first. It costs it no more than a push taken too early.
	maxInstances = 16384
	// keepMs is how long a silent client is remembered at least, and keepPushes
	// how many of its intervals.
	keepMs     = 60_000
	keepPushes = 3
)

// Desk admits requests. Make it with NewDesk.
type Desk struct {
	subs    []Subscription
	version int // of subs
	byID    map[ID]*list.Element
	recent  *list.List // of *instance; the front was used last
	byConn  map[uint64]ID
	sweptMs int64
}

// instance is what is known of one client.
type instance struct {
	id                ID
	conn              uint64 // that it came by first
	asked             Asked
	version           int // of the subscriptions that asked was made from
	lastGet, lastPush int64
	terminating       bool
	last              *kerr.Error // what the last push, or the question after it, was answered
	untilMs           int64
}

// NewDesk returns a Desk without subscriptions.
func NewDesk() *Desk {
	return &Desk{byID: make(map[ID]*list.Element), recent: list.New(), byConn: make(map[uint64]ID)}
}

// Subscribe replaces all subscriptions. Every client is matched anew, and may
// ask at once.
func (d *Desk) Subscribe(subs []Subscription) { d.subs, d.version = subs, d.version+1 }

// Instances is the number of clients that are remembered.
func (d *Desk) Instances() int { return d.recent.Len() }

// Get answers GetTelemetrySubscriptions. isNew says that conn is to be told to
// HungUp. Refusal: THROTTLING_QUOTA_EXCEEDED.
func (d *Desk) Get(nowMs int64, conn uint64, c Client) (a Asked, isNew bool, err error) {
	i, isNew := d.instance(nowMs, conn, &c)
	if nowMs-max(i.lastGet, i.lastPush) >= int64(i.asked.IntervalMs) {
		i.lastGet = nowMs
	} else if i.last != kerr.UnknownSubscriptionID && i.last != kerr.UnsupportedCompressionType {
		return a, isNew, kerr.ThrottlingQuotaExceeded
	}
	i.last = nil
	return i.asked, isNew, nil
}

// Push is what admission looks at of a PushTelemetry request.
type Push struct {
	SubscriptionID int32
	Terminating    bool
	Compression    int8
	Bytes          int
}

// Push admits PushTelemetry, and tells the client's interval. Refusals:
// INVALID_REQUEST for an id that nobody has, and after the client's last push;
// THROTTLING_QUOTA_EXCEEDED, UNKNOWN_SUBSCRIPTION_ID,
// UNSUPPORTED_COMPRESSION_TYPE, TELEMETRY_TOO_LARGE.
func (d *Desk) Push(nowMs int64, conn uint64, c Client, p Push, maxBytes int) (intervalMs int32, isNew bool, err error) {
	if c.ID == none || c.ID == reserved {
		return 0, false, kerr.InvalidRequest
	}
	i, isNew := d.instance(nowMs, conn, &c)
	refused := i.admit(nowMs, p, maxBytes)
	i.terminating = p.Terminating
	i.last = refused
	if refused != nil {
		return i.asked.IntervalMs, isNew, refused
	}
	return i.asked.IntervalMs, isNew, nil
}

func (i *instance) admit(nowMs int64, p Push, maxBytes int) *kerr.Error {
	if i.terminating {
		return kerr.InvalidRequest
	}
	switch early := i.lastGet <= i.lastPush && nowMs-i.lastPush < int64(i.asked.IntervalMs); {
	case !early:
		i.lastPush = nowMs
	case !p.Terminating:
		return kerr.ThrottlingQuotaExceeded
	}
	switch {
	case p.SubscriptionID != i.asked.ID:
		return kerr.UnknownSubscriptionID
	case p.Compression < 0 || p.Compression > 4:
		return kerr.UnsupportedCompressionType
	case p.Bytes > maxBytes:
		return kerr.TelemetryTooLarge
	}
	return nil
}

// HungUp forgets the client that came by a connection: it may come back by
// another, and ask at once.
func (d *Desk) HungUp(conn uint64) {
	if id, there := d.byConn[conn]; there {
		d.forget(d.byID[id])
	}
}

// instance finds a client or gets to know it; what is remembered of it is made
// anew when the subscriptions changed.
func (d *Desk) instance(nowMs int64, conn uint64, c *Client) (i *instance, isNew bool) {
	d.sweep(nowMs)
	if e, there := d.byID[c.ID]; there {
		i = e.Value.(*instance)
		if i.untilMs > nowMs && i.version == d.version {
			d.recent.MoveToFront(e)
			i.keep(nowMs)
			return i, false
		}
		d.forget(e)
	}
	for d.recent.Len() >= maxInstances {
		d.forget(d.recent.Back())
	}
	i = &instance{id: c.ID, conn: conn, asked: ask(d.subs, c), version: d.version}
	i.keep(nowMs)
	d.byID[c.ID] = d.recent.PushFront(i)
	d.byConn[conn] = c.ID
	return i, true
}

func (i *instance) keep(nowMs int64) {
	i.untilMs = nowMs + max(keepMs, keepPushes*int64(i.asked.IntervalMs))
}

func (d *Desk) forget(e *list.Element) {
	i := d.recent.Remove(e).(*instance)
	delete(d.byID, i.id)
	if d.byConn[i.conn] == i.id {
		delete(d.byConn, i.conn)
	}
}

// sweep forgets clients that were silent for too long.
func (d *Desk) sweep(nowMs int64) {
	if nowMs-d.sweptMs < keepMs {
		return
	}
	d.sweptMs = nowMs
	for e := d.recent.Back(); e != nil; {
		older := e.Prev()
		if e.Value.(*instance).untilMs <= nowMs {
			d.forget(e)
		}
		e = older
	}
}

// Invalid notes that what was admitted could not be read.
func (d *Desk) Invalid(id ID) {
	if e, there := d.byID[id]; there {
		e.Value.(*instance).last = kerr.InvalidRecord
	}
}
