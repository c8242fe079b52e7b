package coord

import "time"

// Token names a request that waits for its reply; 0 is nobody.
type Token uint64

// Command is what a machine is asked; its type is the machine's.
type Command any

// Query is a command that writes nothing, whatever the machine holds, so that it
// is taken while the partition cannot be written, too, be it before Loaded.
type Query interface{ Query() }

// Parker is a command that is told, once, when the machine has taken it and
// its caller waits on: nothing of it is needed any more. Parked is called between
// steps and does not block.
type Parker interface{ Parked() }

// Record is one record of the internal topic. Value is nil for a tombstone.
// Body is the machine's own form of it, so that what was just encoded is not
// decoded again; it is nil in records that were read from the log.
type Record struct {
	Key, Value []byte
	Body       any
}

// Meta is what the log says about a record that is loaded.
type Meta struct {
	Offset int64
	// Producer wrote it; ID -1 is none.
	Producer Producer
	// Transactional records are pending until their producer's marker.
	Transactional bool
}

// Producer is a producer id with its epoch.
type Producer struct {
	ID    int64
	Epoch int16
}

// NoProducer wrote what the coordinator wrote itself.
var NoProducer = Producer{ID: -1, Epoch: -1}

// Reply answers the request that waits under To, once. A machine answers every
// request in the end, also of callers that have left, which it does not hear of.
type Reply struct {
	To   Token
	Body any
}

// Effect is something to be done outside the machine once what led to it is
// committed; its type is the machine's.
type Effect any

// TimerKey names a timer. Setting a key again replaces the timer, and an
// expiry of the replaced one that is under way already is dropped, so that a
// machine never sees a timer that it has replaced or cancelled (safety 25).
type TimerKey struct {
	Kind    uint8
	ID, Sub string
}

// Timer is set for At, which is made from the now of the call, or cancelled
// where At is zero.
type Timer struct {
	Key TimerKey
	At  time.Time
}

// Out is what one call of a machine asks of its runtime. The records have been
// applied by the machine already, in this order; they go to the log as one
// append. Replies and effects are held back until the records are committed;
// without records, until everything written before them is (safety 21, 25).
type Out struct {
	Records []Record
	Txn     *Producer // of whose transaction the records are; nil: none
	Replies []Reply
	Effects []Effect
	Timers  []Timer
}

// Machine decides. It has no clock, goroutine or I/O, and its outputs do not
// depend on the order of a map. Its hard state changes in Apply alone, which it
// calls itself for each record that it puts out; soft state (who waits,
// deadlines, a rebalance under way) may change in Step and Fire, and is lost by
// design when the machine is loaded anew. The runtime never calls two methods
// of a machine at once.
type Machine interface {
	// Step takes a command, whose memory may be the caller's again after the call,
	// answered or not: what the machine keeps it copies. to is 0 where nobody waits.
	// now has a monotonic reading, and never goes back.
	Step(now time.Time, to Token, cmd Command) Out
	// Fire takes the expiry of a timer.
	Fire(now time.Time, key TimerKey) Out
	// Apply takes a record of the log while it is loaded. Its bytes are used again
	// after the call: what the machine keeps it copies. An error is a record that
	// cannot be understood and must not be skipped: it fails the load.
	Apply(rec Record, meta Meta) error
	// ApplyMarker takes a marker that ends a producer's transaction.
	ApplyMarker(p Producer, commit bool)
	// Loaded is called once, when the whole log was applied and the partition can
	// be written, before anything but queries: time to set timers.
	Loaded(now time.Time) Out
}
