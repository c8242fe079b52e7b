package etcdstore

import (
	"crypto/tls"
	"errors"
	"time"
)

// Config of a Store. With Endpoints it is a client of an etcd that is there;
// with a directory, Member is embedded in this process; with Voters or Bootstrap
// alone it is a client of the nodes that embed one.
type Config struct {
	Endpoints []string    // host:port or URLs of client listeners
	TLS       *tls.Config // to Endpoints; nil: as Files say, else plain
	Username  string      // at Endpoints; "": none
	Password  string
	// Voters are the nodes that carry the embedded etcd, this one among them if it
	// has a directory. None: Member is its whole cluster and has no port.
	Voters []Voter
	// Bootstrap are addresses of voters, host:port, for a node that is none and need
	// not know who they are.
	Bootstrap []string
	// Files of the TLS among voters and of their clients, who all show a
	// certificate; none: plain, which is refused beyond loopback unless Plaintext.
	Files     Files
	Plaintext bool
	Member    Member
	// RequestTimeout bounds a call whose context has no earlier deadline: 10 s.
	RequestTimeout time.Duration
}

// Member is the embedded etcd.
type Member struct {
	Dir string // made when missing
	// Name in the cluster: "barnabas", with voters "node-<ID>".
	Name string
	// ID is this node's among the voters.
	ID int32
	// Listen is where it listens, host:port; "": at this voter's own address, or on
	// every interface where that is a name.
	Listen string
	// Token makes two clusters of the same voters two: all of its first members have
	// the same. Of the voters' numbers and addresses where unset.
	Token string
	// Join: a node with an empty directory joins the cluster that the other voters
	// carry, and never begins one.
	Join bool
	// Tick and Election: 100 ms and 1 s, which held on a busy shared disk where 50 and 500 ms lost leaders.
	// Of a node that is alone 500 ms and 5 s: it elects itself at once, nobody else hears its ticks, and
	// each of them wakes the process.
	Tick, Election time.Duration
	// Quota of the database file: 8 GiB. Beyond it writes are refused until there is room.
	Quota int64
	// Keep is how much history watches and paged listings find: 10 min.
	Keep time.Duration
	// Ballast is the size of the file kept against a full disk: 44 MiB, and up to 20 MiB beside it for
	// the next start; negative: none. It is given up when less than BallastBelow is free (its own
	// size), and made again with three times both free.
	Ballast, BallastBelow int64
	// CareEvery is how often alarm, file size and sync times are looked at: 1 min.
	CareEvery time.Duration
	// DefragFrom is the file size below which it is left alone: 64 MiB. Above, it is
	// rewritten when more than half is free, and the disk has room for the copy.
	DefragFrom int64

	// interrupt is told each step of joining; its error ends the start there, as a kill would.
	interrupt func(step string) error
}

const (
	// walSegment is smaller than etcd's 64 MB: two are preallocated, and a laptop's broker should not take 128 MB to be empty.
	walSegment = 16 << 20
	// slowSync is the 99th percentile of WAL syncs above which a line is logged.
	slowSync = 250 * time.Millisecond
	// ballastEvery is how often free space is looked at.
	ballastEvery = 500 * time.Millisecond
	// endpointsEvery is how often a client of the voters asks who they are by now.
	endpointsEvery = time.Minute
	// dialTimeout bounds one attempt to connect, and dialPause the time between two.
	dialTimeout, dialPause = 5 * time.Second, time.Second
	// stopTimeout bounds the stop of a member that failed: parked goroutines may hold what it waits for.
	stopTimeout = time.Second
)

func (c Config) withDefaults() (Config, error) {
	switch {
	case len(c.Endpoints) == 0 && c.Member.Dir == "" && !c.shared():
		return c, errors.New("metadata store: neither a directory nor endpoints")
	case len(c.Endpoints) > 0 && (c.Member.Dir != "" || c.shared()):
		return c, errors.New("metadata store: both a directory or voters, and endpoints")
	}
	if err := c.Files.check(); err != nil {
		return c, err
	}
	if c.shared() {
		if err := c.checkVoters(); err != nil {
			return c, err
		}
		def(&c.Member.Name, nodeName(c.Member.ID))
	}
	def(&c.RequestTimeout, 10*time.Second)
	m := &c.Member
	def(&m.Name, "barnabas")
	tick := 100 * time.Millisecond
	if !c.shared() {
		tick = 500 * time.Millisecond
	}
	def(&m.Tick, tick)
	def(&m.Election, 10*m.Tick)
	def(&m.Quota, 8<<30)
	def(&m.Keep, 10*time.Minute)
	def(&m.Ballast, 44<<20)
	def(&m.BallastBelow, m.Ballast)
	def(&m.CareEvery, time.Minute)
	def(&m.DefragFrom, 64<<20)
	return c, nil
}

func def[T comparable](v *T, d T) {
	var zero T
	if *v == zero {
		*v = d
	}
}
