package brokertest_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/invariant"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// alarms collects what a broker logs at error level.
type alarms struct {
	mu    sync.Mutex
	lines []string
}

func (a *alarms) Enabled(_ context.Context, l slog.Level) bool { return l >= slog.LevelError }
func (a *alarms) WithAttrs([]slog.Attr) slog.Handler           { return a }
func (a *alarms) WithGroup(string) slog.Handler                { return a }

func (a *alarms) Handle(_ context.Context, r slog.Record) error {
	line := r.Message
	r.Attrs(func(at slog.Attr) bool { line += " " + at.String(); return true })
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lines = append(a.lines, fmt.Sprintf("%.2000s", line))
	return nil
}

func (a *alarms) none(t *testing.T) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, line := range a.lines[:min(len(a.lines), 5)] {
		t.Errorf("the broker logged an error: %s", line)
	}
}

// attacker sends what nobody should.
type attacker struct {
	t   *testing.T
	b   *brokertest.Broker
	one *wire.Client
}

// throw sends a request over a connection of its own; it is answered, or the
// connection is closed. Some wait for other members: those are left alone.
func (a *attacker) throw(req kmsg.Request) kmsg.Response {
	a.t.Helper()
	c, err := wire.Dial(a.t.Context(), a.b.Addr(), wire.ClientOptions{ClientID: "hostile\x00\n\xff"})
	if err != nil {
		a.t.Fatalf("the broker takes no connection: %v", err)
	}
	defer c.Close()
	limit := patience
	if req.Key() == 11 || req.Key() == 14 {
		limit = time.Second
	}
	ctx, cancel := context.WithTimeout(a.t.Context(), limit)
	defer cancel()
	resp, err := c.Do(ctx, req)
	if errors.Is(err, context.DeadlineExceeded) && limit == patience {
		a.t.Errorf("%s v%d: no answer", kmsg.NameForKey(req.Key()), req.GetVersion())
	}
	return resp
}

// raw sends a body as it is.
func (a *attacker) raw(key, version int16, flexible bool, body []byte) {
	a.t.Helper()
	r := dialRaw(a.t, a.b)
	defer r.Close()
	_, _ = r.Write(frame(key, version, 1, flexible, body))
	_ = r.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	_, _ = r.Read(make([]byte, 4)) // an answer, the end, or a wait for others
}

// groupKeys are the requests of groups.
func groupKeys(served []kmsg.ApiVersionsResponseApiKey) []kmsg.ApiVersionsResponseApiKey {
	keys := []int16{8, 9, 10, 11, 12, 13, 14, 15, 16, 32, 42, 44, 47, 68, 69}
	return slices.DeleteFunc(slices.Clone(served), func(k kmsg.ApiVersionsResponseApiKey) bool { return !slices.Contains(keys, k.ApiKey) })
}

// neighbour is a member that must not notice.
type neighbour struct {
	p    *peer
	took []time.Duration
}

// lives commits, fetches and heartbeats until ctx ends.
func (n *neighbour) lives(ctx context.Context, member string, generation int32) {
	for offset := int64(1); ctx.Err() == nil; offset++ {
		began := time.Now()
		if codes := n.p.commit("neighbour", member, generation, "t", offset); codes[0] != 0 {
			n.p.t.Errorf("the neighbour's commit: %s", name(codes[0]))
			return
		}
		if got := n.p.committed("neighbour", "t", 0); got != offset {
			n.p.t.Errorf("the neighbour committed %d and has %d", offset, got)
		}
		if code := n.p.heartbeat("neighbour", member, generation); code != 0 {
			n.p.t.Errorf("the neighbour's heartbeat: %s", name(code))
			return
		}
		n.took = append(n.took, time.Since(began))
	}
}

// Whatever is asked of the group coordinator, a member of another group on the same
// shard goes on, memory has a bound, nothing is left over and no error is logged (R10).
func TestHostileGroups(t *testing.T) {
	log := &alarms{}
	b, p := withGroups(t, brokertest.Log(slog.New(log)), brokertest.Set("offsets.topic.num.partitions", "1"))
	p.create("t", 3)
	member, generation := p.stable("neighbour")
	goroutines := runtime.NumGoroutine()
	n := &neighbour{p: dial(t, b)}
	ctx, cancel := context.WithCancel(t.Context())
	var living sync.WaitGroup
	living.Go(func() { n.lives(ctx, member, generation) })

	a := &attacker{t: t, b: b}
	var most int64
	for _, attack := range []struct {
		name string
		do   func(*attacker)
	}{
		{"long strings", (*attacker).longStrings}, {"many members", (*attacker).manyMembers}, {"many partitions", (*attacker).manyPartitions},
		{"notes", (*attacker).notes}, {"joins", (*attacker).joins}, {"numbers", (*attacker).numbers}, {"subscriptions", (*attacker).subscriptions},
		{"ever new groups", (*attacker).newGroups}, {"repeated questions", (*attacker).repeats}, {"noise", (*attacker).noise},
	} {
		began := time.Now()
		attack.do(a)
		most = max(most, resident(t, "self")>>20)
		t.Logf("%s: %v, %d MiB resident", attack.name, time.Since(began).Round(time.Millisecond), resident(t, "self")>>20)
	}
	cancel()
	living.Wait()
	slices.Sort(n.took)
	if len(n.took) < 100 {
		t.Fatalf("the neighbour was served %d times", len(n.took))
	}
	p99 := n.took[len(n.took)*99/100]
	t.Logf("the neighbour: %d rounds, p50 %v, p99 %v, slowest %v", len(n.took), n.took[len(n.took)/2], p99, n.took[len(n.took)-1])
	if p99 > time.Second {
		t.Errorf("p99 of the neighbour: %v", p99)
	}
	if most > 1500 && !invariant.On { // the race detector takes its own
		t.Errorf("%d MiB resident", most)
	}
	_ = n.p.c.Close()
	_ = a.client().Close()
	until(t, "the goroutines of attackers are gone", func() bool { return runtime.NumGoroutine() <= goroutines+5 })
	log.none(t)
	b.Restart() // and what they left can be loaded
	p = dial(t, b)
	p.awaitGroups()
	wantCode(t, "heartbeat after a restart", p.heartbeat("neighbour", member, generation), nil)
	log.none(t)
}

// longStrings are ids at and beyond what a record takes.
func (a *attacker) longStrings() {
	for _, s := range []string{strings.Repeat("x", math.MaxInt16), strings.Repeat("x", math.MaxInt16+1), strings.Repeat("\x00\xff\n", 14_000), strings.Repeat("y", 1<<20)} {
		short := s[:min(len(s), math.MaxInt16)] // of versions with a length of two bytes
		for _, v := range []int16{3, 5, 9} {
			j := join(v, s, "", "range")
			if v < 6 {
				j.Group = short
			}
			a.throw(j)
			j = join(v, "long", s[:min(len(s), len(short))], s[:len(short)])
			j.InstanceID, j.ProtocolType = &short, short
			a.throw(j)
		}
		hb := kmsg.NewPtrHeartbeatRequest()
		hb.Version, hb.Group, hb.MemberID, hb.InstanceID = 4, s, s, &s
		a.throw(hb)
		sync := kmsg.NewPtrSyncGroupRequest()
		sync.Version, sync.Group, sync.MemberID, sync.ProtocolType, sync.Protocol = 5, s, s, &s, &s
		a.throw(sync)
		leave := kmsg.NewPtrLeaveGroupRequest()
		leave.Version, leave.Group = 5, s
		leave.Members = []kmsg.LeaveGroupRequestMember{{MemberID: s, InstanceID: &s, Reason: &s}}
		a.throw(leave)
		a.throw(commits(9, s, s, 1, 0))
		fetch := kmsg.NewPtrOffsetFetchRequest()
		fetch.Version, fetch.Groups = 9, []kmsg.OffsetFetchRequestGroup{{Group: s, MemberID: &s, MemberEpoch: math.MaxInt32}}
		a.throw(fetch)
		describe := kmsg.NewPtrDescribeGroupsRequest()
		describe.Version, describe.Groups = 6, []string{s, s}
		a.throw(describe)
		remove := kmsg.NewPtrDeleteGroupsRequest()
		remove.Version, remove.Groups = 2, []string{s}
		a.throw(remove)
		for i := range 6 {
			beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			beat.Version, beat.Group, beat.MemberID, beat.RebalanceTimeoutMillis = 1, "long", "m", 1000
			beat.SubscribedTopicNames, beat.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			*[]*string{&beat.Group, &beat.MemberID, &beat.SubscribedTopicNames[0], new(string), new(string), new(string)}[i] = s
			switch i {
			case 3:
				beat.InstanceID = &s
			case 4:
				beat.RackID = &s
			case 5:
				beat.SubscribedTopicRegex = &s
			}
			a.throw(beat)
		}
	}
}

func join(version int16, group, member, protocol string) *kmsg.JoinGroupRequest {
	r := kmsg.NewPtrJoinGroupRequest()
	r.Version, r.Group, r.MemberID, r.ProtocolType, r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = version, group, member, "consumer", 6000, 1000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = protocol, subscription("t")
	r.Protocols = append(r.Protocols, p)
	return r
}

// commits names partition 0 of t any number of times, each with a note.
func commits(version int16, group, member string, partitions, note int) *kmsg.OffsetCommitRequest {
	r := kmsg.NewPtrOffsetCommitRequest()
	r.Version, r.Group, r.MemberID, r.Generation = version, group, member, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic = "t"
	text := strings.Repeat("n", note)
	for i := range partitions {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Offset, p.Metadata = int64(i), &text
		t.Partitions = append(t.Partitions, p)
	}
	r.Topics = append(r.Topics, t)
	return r
}

// manyMembers leave, who were never there, or are, and are assigned something.
func (a *attacker) manyMembers() {
	const many = 100_000
	p := &peer{a.t, a.client()}
	for i := range 500 {
		p.consumerBeat("crowd", fmt.Sprint("m", i), 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{"t"} })
	}
	for _, group := range []string{"nobody", "crowd"} {
		r := kmsg.NewPtrLeaveGroupRequest()
		r.Version, r.Group = 5, group
		for i := range many {
			r.Members = append(r.Members, kmsg.LeaveGroupRequestMember{MemberID: fmt.Sprint("m", i%1000)})
		}
		a.throw(r)
	}
	member, generation := p.stable("assigned")
	again := p.join("assigned", func(r *kmsg.JoinGroupRequest) { r.MemberID = member; r.Protocols[0].Metadata = subscription("t", "u") })
	for _, size := range []int{10, 40_000} { // sound, and more than a record takes
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID, r.Generation = 3, "assigned", member, max(generation, again.Generation)
		for i := range many {
			r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: fmt.Sprint("x", i), MemberAssignment: []byte("a")})
		}
		r.GroupAssignment = append(r.GroupAssignment, kmsg.SyncGroupRequestGroupAssignment{MemberID: member, MemberAssignment: make([]byte, size*50)})
		a.throw(r)
	}
}

func (a *attacker) client() *wire.Client {
	if a.one == nil {
		a.one = dial(a.t, a.b).c
	}
	return a.one
}

// manyPartitions are named in one request.
func (a *attacker) manyPartitions() {
	const many = 100_000
	resp, ok := a.throw(commits(8, strings.Repeat("g", 30_000), "", many, 0)).(*kmsg.OffsetCommitResponse)
	if !ok || resp.Topics[0].Partitions[many-1].ErrorCode != kerr.InvalidCommitOffsetSize.Code {
		a.t.Errorf("a commit of %d partitions: %t", many, ok)
	}
	commit, fetch, remove := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewPtrOffsetFetchRequest(), kmsg.NewPtrOffsetDeleteRequest()
	commit.Version, commit.Group, commit.Generation = 8, "many", -1
	fetch.Version, fetch.Groups = 8, []kmsg.OffsetFetchRequestGroup{{Group: "many"}}
	remove.Group = "many"
	for i := range many {
		topic := fmt.Sprint("topic", i)
		commit.Topics = append(commit.Topics, kmsg.OffsetCommitRequestTopic{Topic: topic, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{Partition: -1}}})
		fetch.Groups[0].Topics = append(fetch.Groups[0].Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: topic, Partitions: []int32{0, -1}})
		remove.Topics = append(remove.Topics, kmsg.OffsetDeleteRequestTopic{Topic: topic, Partitions: []kmsg.OffsetDeleteRequestTopicPartition{{Partition: 0}}})
	}
	for _, r := range []kmsg.Request{commit, fetch, remove} {
		a.throw(r)
	}
}

// notes are as long as may be, and are asked for again and again.
func (a *attacker) notes() {
	a.throw(commits(8, "notes", "", 1, 4096))
	a.throw(commits(8, "notes", "", 1, 4097))
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version, fetch.Groups = 8, []kmsg.OffsetFetchRequestGroup{{Group: "notes"}}
	fetch.Groups[0].Topics = []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: make([]int32, 1_000_000)}}
	for range 200_000 {
		fetch.Groups[0].Topics = append(fetch.Groups[0].Topics, kmsg.OffsetFetchRequestGroupTopic{Topic: "t", Partitions: []int32{0}})
	}
	resp, ok := a.throw(fetch).(*kmsg.OffsetFetchResponse)
	notes := 0
	if ok {
		for _, t := range resp.Groups[0].Topics {
			notes += len(t.Partitions)
		}
	}
	if notes != 1 {
		a.t.Errorf("a note was answered %d times", notes)
	}
}

// joins say more than a record takes, or in too many protocols, or nothing sensible.
func (a *attacker) joins() {
	for _, size := range []int{0, 1, 3, 1 << 19, 1<<20 + 1, 7 << 20} {
		for _, v := range []int16{3, 9} {
			r := join(v, fmt.Sprint("joins", size), "", "range")
			r.Protocols[0].Metadata = make([]byte, size)
			a.throw(r)
		}
	}
	for _, v := range []int16{3, 9} {
		r := join(v, "protocols", "", "range")
		for i := range 100_000 {
			r.Protocols = append(r.Protocols, kmsg.JoinGroupRequestProtocol{Name: fmt.Sprint(i), Metadata: []byte{0}})
		}
		a.throw(r)
	}
	full := join(3, "empty names", "", "range")
	full.Protocols[0].Metadata = (&kmsg.ConsumerMemberMetadata{Topics: make([]string, 500_000)}).AppendTo(nil)
	a.throw(full)
}

// numbers are at their ends.
func (a *attacker) numbers() {
	ends := []int32{math.MinInt32, -3, -2, -1, 0, 1, 5999, math.MaxInt32}
	for _, n := range ends {
		for _, m := range ends {
			j := join(5, "numbers", "", "range")
			id := fmt.Sprint("i", n%7)
			j.SessionTimeoutMillis, j.RebalanceTimeoutMillis, j.InstanceID = n, m, &id
			if n == 1 {
				j.SessionTimeoutMillis = 6000
			}
			if c, err := wire.Dial(a.t.Context(), a.b.Addr(), wire.ClientOptions{}); err == nil { // they wait for each other
				_, _ = c.Send(a.t.Context(), j)
				_ = c.Close()
			}
			hb := kmsg.NewPtrHeartbeatRequest()
			hb.Version, hb.Group, hb.MemberID, hb.Generation = 4, "neighbour", "x", n
			a.throw(hb)
			beat := kmsg.NewPtrConsumerGroupHeartbeatRequest()
			beat.Version, beat.Group, beat.MemberID, beat.MemberEpoch, beat.RebalanceTimeoutMillis = 1, "epochs", "m", n, m
			beat.SubscribedTopicNames = []string{"t", "t"}
			beat.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{{Partitions: []int32{n, m}}, {Partitions: []int32{n, n}}}
			a.throw(beat)
			beat.Topics = beat.Topics[:0]
			a.throw(beat)
			c := commits(2, "numbers", "", 2, 0)
			c.RetentionTimeMillis = int64(n) << 32
			c.Topics[0].Partitions[0].Partition, c.Topics[0].Partitions[0].Offset, c.Topics[0].Partitions[0].LeaderEpoch = n, int64(m)<<32, m
			a.throw(c)
			f := kmsg.NewPtrOffsetFetchRequest()
			f.Version, f.Groups = 9, []kmsg.OffsetFetchRequestGroup{{Group: "epochs", MemberEpoch: n, Topics: []kmsg.OffsetFetchRequestGroupTopic{{Topic: "t", Partitions: []int32{n, m}}}}}
			a.throw(f)
		}
	}
}

// subscriptions are of a hundred thousand names, and by expressions that are slow.
func (a *attacker) subscriptions() {
	p := &peer{a.t, a.client()}
	for m := range 5 {
		p.consumerBeat("names", fmt.Sprint("m", m), 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) {
			for n := range 100_000 {
				r.SubscribedTopicNames = append(r.SubscribedTopicNames, fmt.Sprint(m, n))
			}
		})
	}
	for n, re := range []string{
		"((a{0,100}){0,100}){0,100}", strings.Repeat("(x+x+)+y", 4000), "(.*){1,1000}", strings.Repeat(`(?i:\pL)`, 3000), strings.Repeat("[a-z0-9._-]*", 800),
		"(((((((((.*)*)*)*)*)*)*)*)*)*$", "\x00", "\xff", "(", strings.Repeat("(", 2000), "a|" + strings.Repeat("b|", 4000), `\Qa`, "(?P<n>a)(?P<n>b)", "[[:word:]]{1000}",
	} {
		for range 20 {
			p.consumerBeat(fmt.Sprint("regex", n), "m", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &re })
		}
	}
}

// newGroups are joined once and never again.
func (a *attacker) newGroups() {
	p := &peer{a.t, a.client()}
	for n := range 5000 {
		r := join(9, fmt.Sprint("new", n), "", "range")
		ask[*kmsg.JoinGroupResponse](p, r)
		ask[*kmsg.OffsetCommitResponse](p, commits(8, fmt.Sprint("offsets", n), "", 1, 100))
	}
}

// repeats ask for one thing a hundred thousand times.
func (a *attacker) repeats() {
	same := slices.Repeat([]string{"neighbour"}, 100_000)
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Version, describe.Groups = 5, same
	if resp, ok := a.throw(describe).(*kmsg.DescribeGroupsResponse); !ok || len(resp.Groups) != 1 {
		a.t.Error("a group was described again and again")
	}
	consumer := kmsg.NewPtrConsumerGroupDescribeRequest()
	consumer.Groups = same
	a.throw(consumer)
	remove := kmsg.NewPtrDeleteGroupsRequest()
	remove.Version, remove.Groups = 2, same
	a.throw(remove)
	find := kmsg.NewPtrFindCoordinatorRequest()
	find.Version, find.CoordinatorKeys = 4, same
	a.throw(find)
	fetch := kmsg.NewPtrOffsetFetchRequest()
	fetch.Version, fetch.Groups = 8, slices.Repeat([]kmsg.OffsetFetchRequestGroup{{Group: "neighbour"}}, 100_000)
	if resp, ok := a.throw(fetch).(*kmsg.OffsetFetchResponse); !ok || len(resp.Groups) != 1 {
		a.t.Error("a group's offsets were told again and again")
	}
	list := kmsg.NewPtrListGroupsRequest()
	list.Version, list.StatesFilter, list.TypesFilter = 5, make([]string, 2_000_000), make([]string, 2_000_000)
	a.throw(list)
}

// noise are bodies of all requests of groups at all versions: random bytes, and
// null in the place of the first string.
func (a *attacker) noise() {
	peer := newBystander(a.t, a.b.Addr())
	defer peer.cl.Close()
	seed := uint64(time.Now().UnixNano())
	a.t.Logf("seed %d", seed)
	g := newGenerator(rand.New(rand.NewPCG(seed, 0)), groupKeys(peer.served))
	for _, k := range g.served {
		for v := k.MinVersion; v <= k.MaxVersion; v++ {
			req := kmsg.RequestForKey(k.ApiKey)
			req.SetVersion(v)
			body := req.AppendTo(nil)
			if req.IsFlexible() {
				body[0] = 0
			} else if len(body) > 1 {
				body[0], body[1] = 0xff, 0xff
			}
			a.raw(k.ApiKey, v, req.IsFlexible(), body)
			for _, size := range []int{0, 1, 5, 50, 5000} {
				a.raw(k.ApiKey, v, req.IsFlexible(), g.noise(size))
			}
		}
	}
	c := dialRaw(a.t, a.b)
	for range 500 { // mutated, until a connection is closed
		if _, err := c.Write(g.frame()); err != nil {
			_ = c.Close()
			c = dialRaw(a.t, a.b)
		}
	}
	_ = c.Close()
}
