package api

import (
	"container/list"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// Incremental fetch sessions (KIP-227): the broker remembers which partitions
// a client reads and what it was last told of each, so that a request names
// only what changed and an answer only what is new.

const (
	sessionless       = 0  // session id: none
	openSession       = 0  // epoch: a full fetch that asks for a session
	closeSession      = -1 // epoch: a full fetch that wants none, and ends the one it names
	sessionIdleBefore = 2 * time.Minute
)

// fetchPartition is a partition as a client asks for it, and, within a
// session, what it was last told.
type fetchPartition struct {
	topic       string        // below version 13
	id          kafka.TopicID // from version 13 on
	name        string        // that the id stood for, once it is known
	partition   int32
	offset      int64
	leaderEpoch kafka.LeaderEpoch
	lastEpoch   kafka.LeaderEpoch
	maxBytes    int32
	counted     int64 // a follower's claim
	started     int64 // where its log starts
	marked      int64 // the high watermark that it has (KIP-1166)
	listed      bool  // by this request

	// toldHW and toldStart are -1 when the next answer has to name the
	// partition whatever happens: it is new, or had an error.
	toldHW, toldStart int64

	of *sessionPartition // within a session: as a request has it
}

type fetchKey struct {
	topic     string
	id        kafka.TopicID
	partition int32
}

func (p *fetchPartition) key() fetchKey { return fetchKey{p.topic, p.id, p.partition} }

// session is one client's. A request looks only at those of its partitions that may
// have something to tell: the rest are watched, and come among them when they change.
// They are looked at in the order of look, and those that returned data move to its
// end, so that none starves.
type session struct {
	id   int32
	byID bool

	mu    sync.Mutex
	epoch int32 // that the next request must carry
	known map[fetchKey]*sessionPartition
	look  []*sessionPartition // that are not at rest, each once
	user  *sessionUse         // the newest request
	news  sessionNews

	// under the cache's mutex:
	used time.Time
	at   *list.Element
}

// sessionCache bounds the sessions of a broker.
type sessionCache struct {
	slots int

	mu   sync.Mutex
	byID map[int32]*session
	lru  list.List // of *session, longest unused first
}

func newSessionCache(slots int) *sessionCache {
	return &sessionCache{slots: slots, byID: make(map[int32]*session)}
}

// sessionUse is a session as one request uses it; s is nil without one.
type sessionUse struct {
	cache      *sessionCache
	s          *session
	id         int32 // that the answer carries
	byID       bool
	full       bool // the answer names every partition
	open       bool // a session is to be opened with the answer
	now        time.Time
	partitions []fetchPartition // that the request is to look at
	resting    int              // how many more the session has
}

// begin finds what a request is to look at, in memory if that has room: of a session
// only what is not at rest, or with all everything. Errors: FETCH_SESSION_ID_NOT_FOUND,
// INVALID_FETCH_SESSION_EPOCH, FETCH_SESSION_TOPIC_ID_ERROR.
func (c *sessionCache) begin(now time.Time, req *kmsg.FetchRequest, memory []fetchPartition, all bool) (*sessionUse, error) {
	use := &sessionUse{cache: c, byID: req.Version >= 13, now: now}
	if req.Version < 7 || req.SessionEpoch == openSession || req.SessionEpoch == closeSession {
		if req.SessionID != sessionless && req.Version >= 7 {
			c.drop(req.SessionID)
		}
		use.full = true
		use.open = req.Version >= 7 && req.SessionEpoch == openSession
		use.partitions = requested(req, memory)
		return use, nil
	}
	s := c.touch(req.SessionID, now)
	if s == nil {
		return nil, kerr.FetchSessionIDNotFound
	}
	some, err := s.begin(use, req, memory, all)
	if err != nil {
		return nil, err
	}
	if !some { // what reads nothing needs no session
		c.drop(s.id)
		use.full = true
	}
	return use, nil
}

// begin has use be the newest request of the session; some: there is something in it.
func (s *session) begin(use *sessionUse, req *kmsg.FetchRequest, memory []fetchPartition, all bool) (some bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.epoch != req.SessionEpoch:
		return false, kerr.InvalidFetchSessionEpoch
	case s.byID != use.byID:
		return false, kerr.FetchSessionTopicIDError
	}
	s.epoch = nextEpoch(s.epoch)
	s.update(req)
	if len(s.known) == 0 {
		return false, nil
	}
	use.s, use.id, s.user = s, s.id, use
	s.news.wakes(nil)
	s.receive()
	if all {
		for _, p := range s.known {
			s.lookAt(p)
		}
	}
	use.resting = len(s.known) - len(s.look)
	use.partitions = asked(s.look, memory)
	return true, nil
}

// asked are partitions of a session as one request has them, in memory if that has room.
func asked(of []*sessionPartition, memory []fetchPartition) []fetchPartition {
	out := slices.Grow(memory[:0], len(of))
	for _, p := range of {
		q := p.fetchPartition
		q.of = p
		out = append(out, q)
		p.listed = false // by the next request
	}
	return out
}

// more are the partitions that have changed since, and were at rest when the request
// began: it is to look at them as well.
func (u *sessionUse) more() []fetchPartition {
	if u.s == nil || !u.s.news.any() {
		return nil
	}
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	if u.s.user != u {
		return nil // the next request does
	}
	return asked(u.s.receive(), nil)
}

func nextEpoch(e int32) int32 {
	if e == math.MaxInt32 {
		return 1 // 0 means a full fetch
	}
	return e + 1
}

// requested are the partitions that a request names, each once.
func requested(req *kmsg.FetchRequest, memory []fetchPartition) []fetchPartition {
	n := 0
	for i := range req.Topics {
		n += len(req.Topics[i].Partitions)
	}
	out := slices.Grow(memory[:0], n)
	at := seenBefore(n)
	for i := range req.Topics {
		t := &req.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			k := fetchKey{t.Topic, t.TopicID, p.Partition}
			if first := at(out, k); first < len(out) { // the later one counts
				out[first].offset, out[first].maxBytes, out[first].counted, out[first].started = p.FetchOffset, p.PartitionMaxBytes, wire.Claim(p), p.LogStartOffset
				continue
			}
			out = append(out, fetchPartition{
				topic: t.Topic, id: t.TopicID, partition: p.Partition,
				offset: p.FetchOffset, maxBytes: p.PartitionMaxBytes,
				leaderEpoch: kafka.LeaderEpoch(p.CurrentLeaderEpoch), lastEpoch: kafka.LeaderEpoch(p.LastFetchedEpoch),
				counted: wire.Claim(p), started: p.LogStartOffset, marked: p.HighWatermark, listed: true,
				toldHW: -1, toldStart: -1,
			})
		}
	}
	return out
}

// seenBefore says where a partition stands in what was found so far, or that it
// is the next. Few partitions are looked through; of many a map is kept.
func seenBefore(n int) func([]fetchPartition, fetchKey) int {
	if n <= 16 {
		return func(so []fetchPartition, k fetchKey) int {
			for i := range so {
				if so[i].partition == k.partition && so[i].topic == k.topic && so[i].id == k.id {
					return i
				}
			}
			return len(so)
		}
	}
	at := make(map[fetchKey]int, n)
	return func(so []fetchPartition, k fetchKey) int {
		i, twice := at[k]
		if !twice {
			i = len(so)
			at[k] = i
		}
		return i
	}
}

// update takes over what an incremental request changes.
func (s *session) update(req *kmsg.FetchRequest) {
	for _, p := range requested(req, nil) {
		old, ok := s.known[p.key()]
		if !ok {
			s.add(p)
			continue
		}
		p.toldHW, p.toldStart, p.name = old.toldHW, old.toldStart, old.name
		old.fetchPartition = p
		s.lookAt(old)
	}
	forgot := false
	for i := range req.ForgottenTopics {
		t := &req.ForgottenTopics[i]
		for _, n := range t.Partitions {
			k := fetchKey{t.Topic, t.TopicID, n}
			if p := s.known[k]; p != nil {
				p.forget()
				delete(s.known, k)
				forgot = true
			}
		}
	}
	if forgot {
		s.look = slices.DeleteFunc(s.look, func(p *sessionPartition) bool { return p.gone })
	}
}

func (s *session) add(p fetchPartition) *sessionPartition {
	in := &sessionPartition{fetchPartition: p, s: s}
	s.known[p.key()] = in
	s.lookAt(in)
	return in
}

// lookAt has the next request look at a partition.
func (s *session) lookAt(p *sessionPartition) {
	if !p.looked {
		p.looked = true
		s.look = append(s.look, p)
	}
}

// receive takes over what has changed of what was at rest.
func (s *session) receive() []*sessionPartition {
	fresh := s.news.take()
	fresh = slices.DeleteFunc(fresh, func(p *sessionPartition) bool { return p.gone || p.looked })
	for _, p := range fresh {
		s.lookAt(p)
	}
	return fresh
}

// finish returns the items that the answer names, and remembers what they tell.
func (u *sessionUse) finish(items []*fetchItem) []*fetchItem {
	if u.full {
		if u.open {
			u.id = u.cache.open(u, items)
		}
		return items
	}
	told := items[:0:0]
	u.s.mu.Lock()
	defer u.s.mu.Unlock()
	mine := u.s.user == u // otherwise the client has given this answer up
	for _, it := range items {
		if !it.news() {
			continue
		}
		told = append(told, it)
		if mine {
			it.of.remember(it)
		}
	}
	if mine {
		u.s.user = nil
		u.s.settle(items)
	}
	return told
}

// settle has what an answer leaves at rest be watched, and not looked at until it
// changes; what returned data goes to the end.
func (s *session) settle(items []*fetchItem) {
	s.news.wakes(nil)
	for _, it := range items {
		if p := it.of; it.rests() && p.watch(it.part) && it.part.Unchanged(&it.read) {
			p.looked = false
		} else {
			p.last = it.read.SizeBytes > 0
		}
	}
	still := s.look[:0]
	var last []*sessionPartition
	for _, p := range s.look {
		switch {
		case p.last:
			p.last = false
			last = append(last, p)
		case p.looked:
			still = append(still, p)
		}
	}
	still = append(still, last...)
	clear(s.look[len(still):])
	s.look = still
}

// news reports whether there is anything to tell of a partition.
func (it *fetchItem) news() bool {
	return it.read.SizeBytes > 0 || it.code != 0 || it.prefer >= 0 || it.read.Diverging != nil ||
		it.read.HW != it.toldHW || it.read.LogStart != it.toldStart
}

// remember notes what was told. After an error nothing is: the next answer
// names the partition again, so a client sees the error end.
func (p *fetchPartition) remember(it *fetchItem) {
	p.name = it.name
	p.toldHW, p.toldStart = it.read.HW, it.read.LogStart
	if it.code != 0 {
		p.toldHW, p.toldStart = -1, -1
	}
}

// open makes a session of a full fetch, if there is room: 0 tells the client
// that there is none and that it goes on without.
func (c *sessionCache) open(u *sessionUse, items []*fetchItem) int32 {
	s := &session{byID: u.byID, epoch: 1, used: u.now, known: make(map[fetchKey]*sessionPartition, len(items))}
	for _, it := range items {
		p := s.add(it.fetchPartition)
		p.listed = false // by the next request, which looks at all once more
		p.remember(it)
	}
	var idle *session
	defer func() {
		if idle != nil {
			idle.end()
		}
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byID) >= c.slots {
		if idle = c.evict(u.now); idle == nil {
			return sessionless
		}
	}
	for s.id == 0 || c.byID[s.id] != nil {
		s.id = rand.Int32N(math.MaxInt32)
	}
	c.byID[s.id] = s
	s.at = c.lru.PushBack(s)
	return s.id
}

// evict takes the session out that was unused longest, if that is long; the caller
// ends it.
func (c *sessionCache) evict(now time.Time) *session {
	front := c.lru.Front()
	if front == nil {
		return nil
	}
	s := front.Value.(*session)
	if now.Sub(s.used) < sessionIdleBefore {
		return nil
	}
	c.lru.Remove(front)
	delete(c.byID, s.id)
	return s
}

func (c *sessionCache) touch(id int32, now time.Time) *session {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.byID[id]
	if s != nil {
		s.used = now
		c.lru.MoveToBack(s.at)
	}
	return s
}

// drop ends a session.
func (c *sessionCache) drop(id int32) {
	c.mu.Lock()
	s := c.byID[id]
	if s != nil {
		c.lru.Remove(s.at)
		delete(c.byID, id)
	}
	c.mu.Unlock()
	if s != nil {
		s.end()
	}
}

// count is the number of open sessions.
func (c *sessionCache) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.byID)
}
