package check

import (
	"fmt"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Op is the kind of an operation.
type Op uint8

// The operations, as the package comment describes them.
const (
	Produce Op = iota + 1
	Read
	Commit
	Fetch
	Begin
	End
	Delete
	Topic
	Gone
)

var opNames = []string{"", "produce", "read", "commit", "fetch", "begin", "end", "delete", "topic", "gone"}

func (o Op) String() string { return name(opNames, int(o)) }

// Outcome is what a client knows of an operation.
type Outcome uint8

// OK: it took effect. Failed: it certainly never does. Maybe: nobody knows.
// Open: it has not returned.
const (
	OK Outcome = iota
	Failed
	Maybe
	Open
)

var outcomeNames = []string{"ok", "failed", "maybe", "open"}

func (o Outcome) String() string { return name(outcomeNames, int(o)) }

func name(names []string, i int) string {
	if i < len(names) {
		return names[i]
	}
	return fmt.Sprintf("%d?", i)
}

// AcksAll is the acks of a producer whose records must not be lost.
const AcksAll = -1

// Place is where an event was written down: a line of a file, or the event's
// number in a history that came from no file.
type Place struct {
	File string
	Line int
}

func (p Place) String() string {
	if p.File == "" {
		return fmt.Sprintf("event %d", p.Line)
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// An Event is one operation. New makes one in which nothing is told yet.
type Event struct {
	Place    Place // of an event without a file, the judge counts
	Op       Op
	Client   string
	Observer string
	Begin    int64
	End      int64
	Out      Outcome

	Topic     string
	Partition int32
	// Offset is where a record was acknowledged, what a group committed or was
	// told, and up to where records were deleted; -1: not told, or none.
	Offset int64
	// Txn is the transaction that a record, a commit, a begin or an end belongs to.
	Txn string

	// Of a produce.
	Producer   string
	Idempotent bool
	Acks       int32 // AcksAll, 1 or 0
	Seq        int64 // grows within a producer
	ID         string
	Sum        uint32 // checksum of the record; 0: not told
	Attempts   int32  // how often a producer that is not idempotent may have sent it; 0: not told
	InFlight   int32  // requests of the producer in flight; 0: not told, at most 5

	// Of a read.
	Committed bool  // isolation read_committed
	From      int64 // the position asked for; -1: that of the first record
	Next      int64 // the position after; -1: the one after the last record
	High      int64 // high watermark told; -1: not told
	Stable    int64 // last stable offset told; -1: not told
	Start     int64 // log start told, also by delete; -1: not told
	Follower  bool  // a follower answered
	Final     bool
	Done      bool // the final reading of the partition is over
	Records   []Record

	Group    string
	IsCommit bool // of an end: commit, not abort

	// Of a topic.
	Retention bool
	Compacted bool
}

// A Record is what a reader saw at an offset.
type Record struct {
	Offset int64
	ID     string
	Sum    uint32
	Epoch  kafka.LeaderEpoch // NoEpoch: not known
}

// New is an event in which nothing is told yet.
func New(op Op) Event {
	return Event{Op: op, Offset: -1, From: -1, Next: -1, High: -1, Stable: -1, Start: -1}
}

func (e *Event) tp() kafka.TopicPartition {
	return kafka.TopicPartition{Topic: e.Topic, Partition: e.Partition}
}
