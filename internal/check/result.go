package check

import (
	"fmt"
	"strings"
)

// Kind is a way to break a promise.
type Kind uint8

// The kinds of violations.
const (
	Lost          Kind = iota // acknowledged with acks=all, and not there at the end
	Duplicated                // there more often than its producer may have written it
	Reordered                 // not in the order in which it was acknowledged or sent
	Changed                   // other content, or two readers saw different things at one offset
	Phantom                   // read and never sent, or sent and certainly failed
	OffsetWrong               // acknowledged at an offset where something else is
	MarkBack                  // a high watermark or log start that is behind one told before
	AboveMark                 // read at or above the mark that was told with it
	Vanished                  // a reader saw it, and it is gone
	CommittedBack             // a committed offset that is lost, went back or was never committed
	AbortedSeen               // a record of an aborted transaction, read as committed
	Torn                      // a transaction that is visible in part
	TornOffsets               // a transaction's offsets without its records, or the reverse
	Hang                      // did not return, or end, within its bound
	Unread                    // a partition was not read to its end: nothing is proved
	kinds
)

var kindNames = []string{
	"lost", "duplicated", "reordered", "changed", "phantom", "offset wrong", "mark gone back", "above the mark", "vanished",
	"committed offset gone back", "aborted but visible", "transaction torn", "offsets of a transaction torn", "hang", "not read to the end",
}

func (k Kind) String() string { return name(kindNames, int(k)) }

// kept is how many violations of a kind are kept; all are counted.
const kept = 5

// A Violation is one broken promise and the events that show it.
type Violation struct {
	Kind   Kind
	What   string
	Events []Place
}

func (v Violation) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: %s", v.Kind, v.What)
	for i, p := range v.Events {
		fmt.Fprintf(&b, "%s%v", [2]string{" (", ", "}[min(i, 1)], p)
	}
	if len(v.Events) > 0 {
		b.WriteByte(')')
	}
	return b.String()
}

// Counts is the size of a history.
type Counts struct {
	Events, Sent, Acknowledged, Failed, Maybe int
	Reads, Records, Final                     int // Final: records of final readings
	Commits, Fetches, Transactions            int
}

// A Result is the verdict on a history.
type Result struct {
	Counts     Counts
	Violations []Violation // the first of each kind, in the order of the kinds
	Number     [kinds]int  // of each kind
}

// OK tells whether no promise was seen broken.
func (r *Result) OK() bool { return len(r.Violations) == 0 }

// Has tells whether a promise was broken in that way.
func (r *Result) Has(k Kind) bool { return r.Number[k] > 0 }

func (r *Result) String() string {
	var b strings.Builder
	c := r.Counts
	fmt.Fprintf(&b, "%d events: %d records sent, %d acknowledged, %d failed, %d maybe; %d reads of %d records, %d in final readings; %d commits, %d fetches of offsets, %d transactions\n",
		c.Events, c.Sent, c.Acknowledged, c.Failed, c.Maybe, c.Reads, c.Records, c.Final, c.Commits, c.Fetches, c.Transactions)
	for k, n := range r.Number {
		if n > 0 {
			fmt.Fprintf(&b, "%d %v\n", n, Kind(k))
		}
	}
	for _, v := range r.Violations {
		fmt.Fprintf(&b, "%v\n", v)
	}
	if r.OK() {
		b.WriteString("no violation\n")
	}
	return b.String()
}
