package group

import (
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
)

// phase is the state of a classic group. Dead, Apache Kafka's fifth, is a group
// that does not exist here.
//
//	Empty ──join──▶ PreparingRebalance ──all joined, or time is up──▶ CompletingRebalance
//	  ▲                 │        ▲  ▲                                     │          │
//	  └───nobody left───┘        │  └──────a member comes, goes, changes──┘          │
//	                             └───────────────────────────────────── Stable ◀─leader syncs
type phase uint8

const (
	phaseEmpty phase = iota
	phasePreparing
	phaseCompleting
	phaseStable
)

func (p phase) String() string {
	return [...]string{"Empty", "PreparingRebalance", "CompletingRebalance", "Stable"}[p]
}

// classic is the membership of a group under the classic protocol. Its hard
// state is the last record alone. All else is the live membership: it starts as
// the record has it, runs ahead of it while a rebalance is under way, and
// agrees with it again at the next record.
type classic struct {
	id     string // of the group
	record *kmsg.GroupMetadataValue

	phase      phase
	sinceMs    int64   // wall time of the last change of phase; -1 unknown
	kind       string  // protocol type; "" where nobody ever joined
	protocol   *string // that the generation agreed on; nil without members
	generation int32
	leader     string // "" where it left: the next generation elects one

	members  map[string]*classicMember
	statics  map[string]string // instance id to member id
	offered  map[string]int    // protocol name to the number of members that have it
	joining  int               // members that wait for the others to join
	unsynced int               // members of this generation that are yet to sync
	pending  map[string]bool   // ids handed out that nobody has joined with (KIP-394)
	unsaid   int               // bytes of what members say and no record has
	sum      *int              // of it in all groups of the shard; nil: a draft
	topics   map[string]bool   // that members read; nil where that is not known

	// The first rebalance of an empty group waits for more members (KIP-134).
	initial     bool          // it is that rebalance
	grew        bool          // somebody came since the wait began
	delay, left time.Duration // of this wait; that the rebalance may wait after it
}

var _ protocol = (*classic)(nil)

// classicMember is one member.
type classicMember struct {
	id          string
	instance    *string // of a static member (KIP-345)
	clientID    string
	host        string
	rebalanceMs int32
	sessionMs   int32
	protocols   []kmsg.JoinGroupRequestProtocol // as the member prefers them, each name once
	assignment  []byte
	join, sync  coord.Token // who waits for the join, for the assignment; 0 nobody
	fresh       bool        // has not completed a join yet
	written     bool        // a record has what it says
	unsynced    bool        // is yet to sync in this generation
	deadline    time.Time   // of the session
	alarm       time.Time   // when the session timer fires; zero: none is set
}

func newClassic(id string) *classic {
	c := &classic{id: id, sinceMs: -1}
	c.clear()
	return c
}

// clear drops the members.
func (c *classic) clear() {
	c.members = map[string]*classicMember{}
	c.statics = map[string]string{}
	c.offered = map[string]int{}
	c.weigh(-c.unsaid)
	c.joining, c.unsynced = 0, 0
	if c.pending == nil {
		c.pending = map[string]bool{}
	}
}

func (c *classic) typ() string          { return "classic" }
func (c *classic) state() string        { return c.phase.String() }
func (c *classic) protocolType() string { return c.kind }
func (c *classic) size() int            { return len(c.members) }
