package api

// Fetch, key 1, versions 4-18.
//
//	v4   isolation level
//	v7   incremental sessions (KIP-227)
//	v9   the client's leader epoch is compared (KIP-320)
//	v11  the client's rack: its nearest replica is named (KIP-392)
//	v12  diverging epochs (KIP-595)
//	v13  topics by id (KIP-516)
//	v15  a replica names itself and its broker epoch in a tag (KIP-903)
//	v16  the new leader and its address are named (KIP-951)
//
// The answer is scattered: encoded parts in memory, and references to file
// ranges that go out by sendfile where the connection allows it.

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/replica/isr"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// fetchItem is one partition of a fetch: what is asked, and what was found.
type fetchItem struct {
	fetchPartition
	topic *meta.Topic
	err   error // decided without a read: unknown, unauthorized, deleted
	early bool  // err was there from the start
	part  *replica.Partition
	asked replica.ReadReq
	read  replica.ReadResult
	code  int16

	prefer    kafka.NodeID // the replica that a consumer should read from; -1: this one
	throttled bool         // what is read counts against the throttle
	held      bool         // nothing is read because of it
}

// fetch is the state of one Fetch request.
type fetch struct {
	*API
	r         *server.Request
	req       *kmsg.FetchRequest
	resp      *kmsg.FetchResponse
	img       *meta.Image
	replica   int32 // -1 a consumer
	claims    bool  // the followers' claims are still to be taken over
	marked    bool  // a follower is to hear of a mark soon,
	soon      bool  // and its wait is short by now
	refused   error // every partition to consumers, as the request began
	isolation replica.Isolation
	session   *sessionUse
	items     []*fetchItem
	waiter    *replica.Waiter
	watched   []*replica.Partition
	memory    *fetchMemory
}

// fetchMemory is what the next fetch may use again.
type fetchMemory struct {
	asked   []fetchPartition
	backing []fetchItem
	items   []*fetchItem
	watched []*replica.Partition
}

var fetchMemories = sync.Pool{New: func() any { return new(fetchMemory) }}

// free gives back the memory of an answer that is out. What names many partitions
// keeps it: it may not come again.
func (f *fetch) free() {
	const most = 64
	if m := f.memory; m != nil && cap(m.asked) <= most && cap(m.backing) <= most {
		clear(m.asked)
		clear(m.backing)
		clear(m.items)
		clear(f.watched)
		m.watched = f.watched[:0]
		*f = fetch{}
		fetchMemories.Put(m)
	}
}

func (a *API) fetch(ctx context.Context, r *server.Request, req *kmsg.FetchRequest, resp *kmsg.FetchResponse) error {
	f := &fetch{API: a, r: r, req: req, resp: resp, img: a.Image(), replica: req.ReplicaID, memory: fetchMemories.Get().(*fetchMemory)}
	if req.Version >= 15 {
		f.replica = req.ReplicaState.ID
	}
	switch req.IsolationLevel {
	case 0:
	case 1:
		f.isolation = replica.ReadCommitted
	default:
		return f.refuse(kerr.InvalidRequest)
	}
	if f.replica >= 0 {
		f.isolation, f.claims = replica.ReadLogEnd, true
		if !a.allow(r, acl.ClusterAction, acl.Cluster, acl.ClusterName) {
			return f.refuse(kerr.ClusterAuthorizationFailed)
		}
	}
	if f.replica < 0 {
		f.refused = f.fenced()
	}
	use, err := a.sessions.begin(a.Now(), req, f.memory.asked, f.refused != nil)
	if err != nil {
		resp.ErrorCode = a.code(err)
		return nil
	}
	f.session, f.memory.asked, f.watched = use, use.partitions, f.memory.watched
	f.resolveAll()
	if f.readUntilEnough(ctx) {
		f.finish()
	}
	return nil
}

func (f *fetch) finish() {
	f.fence()
	f.answer()
}

// refuse answers the whole request with an error. Before version 7 there is no
// field for it, and an answer without one would pass for a success.
func (f *fetch) refuse(err *kerr.Error) error {
	if f.req.Version < 7 {
		f.r.Disconnect()
		return nil
	}
	return err
}

// resolveAll decides for each partition of the context whether it can be read.
func (f *fetch) resolveAll() {
	n := len(f.session.partitions)
	m := f.memory
	m.backing, m.items = slices.Grow(m.backing[:0], n)[:n], slices.Grow(m.items[:0], n)
	f.items = m.items
	for i := range f.session.partitions {
		f.items = append(f.items, f.resolveOne(&m.backing[i], f.session.partitions[i]))
	}
	m.items = f.items
}

func (f *fetch) resolveOne(it *fetchItem, p fetchPartition) *fetchItem {
	it.fetchPartition = p
	it.topic, it.err = f.find(&it.fetchPartition)
	switch {
	case it.err != nil:
	case f.replica < 0 && !f.allow(f.r, acl.Read, acl.Topic, it.topic.Name):
		it.err = kerr.TopicAuthorizationFailed
	case it.partition < 0 || int(it.partition) >= len(it.topic.Partitions):
		it.err = kerr.UnknownTopicOrPartition
	default:
		it.err = f.refused
	}
	it.early, it.prefer, it.read = it.err != nil, kafka.NoNode, nothing
	return it
}

// resolveMore takes in what has changed of the session meanwhile, and was at rest: it
// was not refused from the start, and if it is now, that is news.
func (f *fetch) resolveMore() bool {
	more := f.session.more()
	for _, p := range more {
		it := f.resolveOne(new(fetchItem), p)
		it.early = false
		f.items = append(f.items, it)
	}
	f.memory.items = f.items
	return len(more) > 0
}

// find resolves a partition's topic. An id that this session once knew the
// name of is told apart from one that never was: the topic is gone, or another
// has its name (INCONSISTENT_TOPIC_ID).
func (f *fetch) find(p *fetchPartition) (*meta.Topic, error) {
	t, err := f.resolve(f.img, f.session.byID, p.topic, p.id)
	switch {
	case err == nil:
		p.name = t.Name
		return t, nil
	case p.name == "":
		return nil, err
	}
	if _, again := f.img.Topic(p.name); again {
		return nil, kerr.InconsistentTopicID
	}
	return nil, kerr.UnknownTopicOrPartition
}

// readUntilEnough reads, and has the request sleep for MinBytes until MaxWait has
// passed: then it is not done.
func (f *fetch) readUntilEnough(ctx context.Context) (done bool) {
	if f.readAll() || f.req.MaxWaitMillis <= 0 {
		return true
	}
	if f.readChanged() {
		f.unwatch()
		return true
	}
	wait := time.Duration(f.req.MaxWaitMillis) * time.Millisecond
	if f.soon = f.marked || wait <= markPatience; f.soon {
		wait = min(wait, markPatience)
	}
	f.r.Sleep(wait, func(over bool) bool { return f.lookAgain(ctx, over) })
	return false
}

// markPatience is how long a follower waits for records to hear of another high
// watermark with them. Each append moves the mark once all have fetched it: without
// a wait, every fetch that brings records to a busy follower is followed by one that
// brings none.
const markPatience = 5 * time.Millisecond

// lookAgain: something has changed, or the wait is over, or nobody waits any more.
func (f *fetch) lookAgain(ctx context.Context, over bool) (done bool) {
	if done = ctx.Err() != nil; !done {
		f.refresh()
		done = f.readChanged() || over
	}
	switch {
	case done:
		f.unwatch()
		f.finish()
	case f.marked && !f.soon:
		f.soon = true
		f.r.Hasten(markPatience)
	}
	return done
}

// readChanged reads again what has changed, until the answer is due or nothing has. A
// change between the look and the sleep is not lost: all is watched before each look.
func (f *fetch) readChanged() (due bool) {
	for {
		f.watch()
		if more := f.resolveMore(); !more && f.unchanged() {
			return false
		}
		if f.readAll() {
			return true
		}
	}
}

// unchanged reports that what was read last is still what there is: most long
// polls end so, and have nothing to look at again.
func (f *fetch) unchanged() bool {
	for _, it := range f.items {
		if !it.early && (it.err != nil || it.code != 0 || it.part == nil || !it.part.Unchanged(&it.read)) {
			return false
		}
	}
	return true
}

// refresh notices topics that went away while the request waited.
func (f *fetch) refresh() {
	img := f.Image()
	if img == f.img {
		return
	}
	f.img = img
	for _, it := range f.items {
		if it.err != nil {
			continue
		}
		it.part = nil // to be looked up again
		before := it.topic.ID
		it.topic, it.err = f.find(&it.fetchPartition)
		if it.err == nil && it.topic.ID != before {
			it.err = kerr.UnknownTopicOrPartition // its name went to another
		}
	}
}

func (f *fetch) watch() {
	switch {
	case f.session.s != nil:
		f.session.watch(f.items, f.r.Wake)
		return
	case f.waiter != nil:
		return
	}
	f.waiter = replica.NewCaller(f.r.Wake)
	for _, it := range f.items {
		if it.err == nil && it.part != nil {
			it.part.AddWaiter(f.waiter)
			f.watched = append(f.watched, it.part)
		}
	}
}

func (f *fetch) unwatch() {
	for _, p := range f.watched {
		p.RemoveWaiter(f.waiter)
	}
}

// readAll reads every partition afresh, and reports whether the answer is due:
// enough bytes, an error of a read, a divergence, or nothing to wait on. What
// was refused from the start does not make the answer due: a client that keeps
// asking for it would spin.
func (f *fetch) readAll() (due bool) {
	f.release()
	f.marked = false
	budget := min(int(f.req.MaxBytes), f.Limits.FetchMaxBytes)
	total, readable := 0, f.session.resting
	now := f.Now()
	for _, it := range f.items {
		err := it.err
		if err == nil {
			err = f.readOne(now, it, budget-total, total == 0)
		}
		it.code = 0
		if err != nil {
			it.code = f.code(err)
		}
		if !it.early {
			readable++
			due = due || err != nil || it.read.Diverging != nil || it.prefer >= 0 || f.replica >= 0 && f.behind(it)
		}
		total += it.read.SizeBytes
	}
	f.claims = false
	return due || readable == 0 || total >= min(int(f.req.MinBytes), budget) || f.limited()
}

// behind: a follower knows another mark or start than this, and is not to wait
// for records to hear of it (safety 18). Without a session what it knows is what it
// says. Where consumers are not sent to followers, a mark alone has the time of
// markPatience (as KAFKA-9731: it costs requests).
func (f *fetch) behind(it *fetchItem) bool {
	if it.toldHW < 0 {
		return it.read.HW > it.marked
	}
	if it.read.LogStart != it.toldStart {
		return true
	}
	moved := it.read.HW != it.toldHW
	f.marked = f.marked || moved
	return moved && f.RackAware
}

// limited reports that there is more to read than the limits let through: then
// no wait can bring MinBytes about.
func (f *fetch) limited() bool {
	for _, it := range f.items {
		if it.err == nil && it.code == 0 && !it.held && it.part.More(it.asked, it.read) {
			return true
		}
	}
	return false
}

// readOne reads within what is left of the answer's budget. One batch larger
// than every limit is returned whole when it is the first thing in the answer:
// a reader with small limits must be able to get past it (KIP-74).
func (f *fetch) readOne(now time.Time, it *fetchItem, left int, first bool) error {
	var err error
	if it.part == nil {
		if it.part, err = f.hosted(it.topic, it.partition); err != nil {
			return err
		}
	}
	it.asked = replica.ReadReq{
		Offset:    it.offset,
		Epoch:     it.leaderEpoch,
		LastEpoch: it.lastEpoch,
		Max:       max(0, min(int(it.maxBytes), left)),
		MinOne:    first,
		Isolation: f.isolation,
		Follower:  f.nearby(),
	}
	if it.held = f.held(now, it); it.held {
		it.asked.Max, it.asked.MinOne = 0, false
	}
	if it.read, err = it.part.Read(now, it.asked); err != nil {
		if f.refresh(); it.err != nil {
			return it.err // it has ended with its topic
		}
		return err
	}
	if f.replica < 0 {
		f.choose(it)
		return nil
	}
	return f.follow(now, it)
}

// follow takes over what a follower says of its log, once for each request, and
// only if that could be a part of this one (safety 9). What a request of a
// session does not list is as it was when it did. Whoever is no replica gets
// nothing.
func (f *fetch) follow(now time.Time, it *fetchItem) error {
	if !f.claims || !it.listed || it.read.Diverging != nil {
		return nil
	}
	err := it.part.FollowerAt(now, it.leaderEpoch, isr.Claim{
		Node: kafka.NodeID(f.replica), BrokerEpoch: f.req.ReplicaState.Epoch, Fetched: it.offset, Counted: it.counted, LogStart: it.started,
	})
	if err != nil {
		it.read.Release()
		it.read = nothing
		return err
	}
	it.part.Renew(&it.read)
	return nil
}

// nothing was read.
var nothing = replica.ReadResult{HW: -1, LSO: -1, LogStart: -1}

func (f *fetch) release() {
	for _, it := range f.items {
		it.read.Release()
		it.read = nothing
	}
}
