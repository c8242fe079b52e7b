package group

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
)

// What broken and hostile clients send, and what no client may cost its neighbours.

// A string that does not fit a record is refused before one is written, or no
// coordinator could load it.
func TestStringsFitRecords(t *testing.T) {
	long := strings.Repeat("x", math.MaxInt16+1)
	for what, set := range map[string]func(*kmsg.ConsumerGroupHeartbeatRequest){
		"group":    func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = long },
		"member":   func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = long },
		"instance": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &long },
		"rack":     func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = &long },
		"regex":    func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &long },
		"topic":    func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{"t", long} },
	} {
		r := newRig(t)
		got := r.do(what, &ConsumerHeartbeat{Req: joins("g", "m", set)})
		if !strings.Contains(got, kerr.InvalidRequest.Message) || len(r.log) > 0 {
			t.Errorf("%s: %.200s", what, got)
		}
		r.check(what)
	}
}

// joins is a first heartbeat.
func joins(group, member string, set func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, group, member, 60_000
	req.SubscribedTopicNames, req.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if set != nil {
		set(req)
	}
	return req
}

// A member of the classic protocol need not say anything sensible under the
// protocols that are not looked at; it is assigned partitions all the same.
func TestMetadataOfOtherProtocols(t *testing.T) {
	sound := kmsg.NewConsumerMemberMetadata()
	sound.Topics = []string{"t"}
	of := func(first string, rest []byte) []kmsg.JoinGroupRequestProtocol {
		a, b := kmsg.NewJoinGroupRequestProtocol(), kmsg.NewJoinGroupRequestProtocol()
		a.Name, a.Metadata, b.Name, b.Metadata = first, sound.AppendTo(nil), "common", rest
		return []kmsg.JoinGroupRequestProtocol{a, b}
	}
	for _, rest := range [][]byte{nil, {}, {0}, {0xff, 0xff}, {0x7f, 0xff}} {
		r := newRig(t)
		if err := r.w.CreateTopic("t", 2); err != nil {
			t.Fatal(err)
		}
		r.image()
		r.do("modern", &ConsumerHeartbeat{Req: joins("g", "modern", nil)})
		for _, id := range []string{"a", "b"} {
			req := kmsg.NewPtrJoinGroupRequest()
			req.Version, req.Group, req.MemberID, req.ProtocolType, req.SessionTimeoutMillis = 3, "g", id, "consumer", 30_000
			req.Protocols = of("only "+id, rest)
			r.do(id, &JoinGroup{Req: req})
		}
		leave := joins("g", "modern", nil)
		leave.MemberEpoch = -1
		r.do("modern", &ConsumerHeartbeat{Req: leave}) // the group becomes a classic one
		if _, c := (&step{Machine: r.m}).classicOf("g"); c == nil || len(c.members) != 2 {
			t.Fatalf("%v: no classic group of two", rest)
		}
		r.check("downgraded")
	}
}

// classicJoin is a JoinGroup of the classic protocol, in one step.
func classicJoin(group, id string, metadata []byte) *JoinGroup {
	req := kmsg.NewPtrJoinGroupRequest()
	req.Version, req.Group, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = 3, group, "consumer", 30_000, 30_000
	p := kmsg.NewJoinGroupRequestProtocol()
	p.Name, p.Metadata = "range", metadata
	req.Protocols = append(req.Protocols, p)
	return &JoinGroup{Req: req, NewMemberID: id}
}

// What members say is held in memory before it is written; all together have a
// bound, and a member whose words never fit a record is refused at once.
func TestWhatIsNotWrittenIsBounded(t *testing.T) {
	r := newRig(t)
	if got := r.do("too large", classicJoin("g", "m", make([]byte, r.cfg.MaxRecordBytes+1))); !strings.Contains(got, kerr.InvalidRequest.Message) {
		t.Fatal(got)
	}
	taken := 0
	for {
		got := r.do("join", classicJoin(fmt.Sprint("g", taken), fmt.Sprint("m", taken), make([]byte, 1<<19)))
		if strings.Contains(got, kerr.CoordinatorNotAvailable.Message) {
			break
		}
		if taken++; taken<<19 > 2*maxUnsaid {
			t.Fatalf("%d MiB are held", taken>>1)
		}
	}
	if taken<<19 < maxUnsaid/2 {
		t.Fatalf("refused after %d MiB", taken>>1)
	}
	id := classicJoin("ids", "", nil)
	id.Req.Version = 9
	if got := r.do("an id", id); !strings.Contains(got, kerr.CoordinatorNotAvailable.Message) {
		t.Error(got)
	}
	r.check("full")
	r.wait(10 * time.Minute)
	if r.m.unsaid != 0 {
		t.Errorf("%d bytes are held after the sessions", r.m.unsaid)
	}
	if got := r.do("join", classicJoin("later", "m", nil)); got != "(waits)\n" {
		t.Error(got)
	}
	// Ids that were handed out count as well.
	id.NewMemberID = strings.Repeat("x", 30_000)
	before := r.m.unsaid
	r.do("an id", id)
	if r.m.unsaid < before+30_000 {
		t.Errorf("an id of 30,000 bytes weighs %d", r.m.unsaid-before)
	}
	r.wait(time.Hour)
	if r.m.unsaid != 0 {
		t.Errorf("%d bytes are held at the end", r.m.unsaid)
	}
}

// The subscriptions of members whose group never fits a record are not read: they may
// name half a million topics each.
func TestSubscriptionsBeyondARecord(t *testing.T) {
	r := newRig(t)
	sub := kmsg.NewConsumerMemberMetadata()
	sub.Topics = make([]string, 400_000)
	for n := range 20 {
		r.do("join", classicJoin("g", fmt.Sprint("m", n), sub.AppendTo(nil)))
	}
	allocated := allocates(func() {
		for range 2 { // somebody came, so it waits once more
			r.m.Fire(r.now, coord.TimerKey{Kind: timerRebalance, ID: "g"})
		}
	})
	if _, c := (&step{Machine: r.m}).classicOf("g"); c.phase != phaseCompleting || !c.subscribes("any") {
		t.Errorf("%s", c.phase)
	}
	if allocated > 100<<20 {
		t.Errorf("%d MiB for a generation", allocated>>20)
	}
}

// A commit is one batch: a request names a partition in a few bytes, and a record
// of it has the group's whole id.
func TestCommitIsOneBatch(t *testing.T) {
	r := newRig(t)
	c := &CommitOffsets{Group: strings.Repeat("g", math.MaxInt16), Generation: -1, Version: 9, RetentionMs: -1}
	for range 10_000 {
		c.Partitions = append(c.Partitions, CommitPartition{Topic: "t", LeaderEpoch: -1})
	}
	allocated := allocates(func() {
		if got := r.do("commit", c); strings.Count(got, kerr.InvalidCommitOffsetSize.Message) != 10_000 || len(r.log) > 0 {
			t.Errorf("%d records: %.200s", len(r.log), got)
		}
	})
	if allocated > 10<<20 {
		t.Errorf("%d MiB for a refusal", allocated>>20)
	}
	c.Partitions = c.Partitions[:30]
	if got := r.do("commit", c); strings.Count(got, "ok") != 30 {
		t.Errorf("30 partitions: %.200s", got)
	}
}

// allocates is how many bytes f allocates.
func allocates(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Offsets that go together are removed in steps of a bounded size.
func TestOffsetsGoInSteps(t *testing.T) {
	const partitions = 200
	for what, gone := range map[string]func(*rig){
		"topic": func(r *rig) {
			if err := r.w.DeleteTopic("t"); err != nil {
				t.Fatal(err)
			}
			r.image()
		},
		"expiry": func(r *rig) { r.wait(8 * 24 * time.Hour) },
	} {
		r := newRig(t)
		r.now = time.Now()
		if err := r.w.CreateTopic("t", partitions); err != nil {
			t.Fatal(err)
		}
		r.image()
		group := strings.Repeat("g", math.MaxInt16)
		for p := range int32(partitions) {
			r.do("commit", &CommitOffsets{Group: group, Generation: -1, Version: 9, RetentionMs: -1, Partitions: []CommitPartition{
				{Topic: "t", TopicID: r.topicID("t"), Partition: p, LeaderEpoch: -1},
			}})
		}
		r.most = 0
		gone(r)
		r.wait(time.Hour)
		r.check(what)
		if r.m.lookup(group) != nil || r.most > r.cfg.MaxRecordBytes+math.MaxInt16+100 {
			t.Errorf("%s: a step wrote %d bytes; the group is there: %t", what, r.most, r.m.lookup(group) != nil)
		}
	}
}

// Members may name any number of topics that do not exist: what others do does not
// take longer for it.
func TestNamesOfNothing(t *testing.T) {
	r := newRig(t)
	if err := r.w.CreateTopic("t", 4); err != nil {
		t.Fatal(err)
	}
	r.image()
	for m := range 10 {
		r.do("many", &ConsumerHeartbeat{Req: joins("g", fmt.Sprint("many", m), func(q *kmsg.ConsumerGroupHeartbeatRequest) {
			q.SubscribedTopicNames = nil
			for n := range 20_000 {
				q.SubscribedTopicNames = append(q.SubscribedTopicNames, fmt.Sprintf("%d-%d", m, n))
			}
		})})
	}
	var got string
	allocated := allocates(func() { got = r.do("one", &ConsumerHeartbeat{Req: joins("g", "one", nil)}) })
	if !strings.Contains(got, "Partitions:[0 1 2 3]") {
		t.Errorf("one: %s", got)
	}
	if allocated > 1<<20 {
		t.Errorf("%d KiB for a member that reads one topic", allocated>>10)
	}
	r.check("the end")
}

// Regular expressions have a size, and are looked for in steps of a bounded length.
func TestRegexBounds(t *testing.T) {
	for text, good := range map[string]bool{
		"orders.*": true, strings.Repeat("topic-name|", 900) + "x": true, `[a-z]{1,100}`: true, `(a|b){0,500}`: true,
		strings.Repeat("x", regexBytes+1): false, strings.Repeat(`(?i:\pL)`, 1000): false,
		`((a{0,100}){0,100}){0,5}`: false, `(?:a{1000}b{1000}){10}`: false, `(((((x{9}){9}){9}){9}){9})`: false, "(": false, `a\1`: false,
	} {
		began := time.Now()
		if x := ReadRegex(text); (x.re != nil) != good || (x.why == "") != good {
			t.Errorf("%.30q: %q", text, x.why)
		}
		if d := time.Since(began); d > 5*time.Second {
			t.Errorf("%.30q takes %v to read", text, d)
		}
	}
	r := newRig(t)
	for n := range 100 {
		if err := r.w.CreateTopic(fmt.Sprintf("topic-with-a-long-name-%03d", n), 1); err != nil {
			t.Fatal(err)
		}
	}
	r.image()
	dense := strings.Repeat("[a-z0-9-]*", 900)
	r.do("m", &ConsumerHeartbeat{Req: joins("g", "m", func(q *kmsg.ConsumerGroupHeartbeatRequest) {
		q.SubscribedTopicNames, q.SubscribedTopicRegex = nil, &dense
	})})
	steps := 0
	for key, at, ok := r.next(); ok && !at.After(r.now); key, at, ok = r.next() {
		delete(r.timers, key)
		r.took("", r.m.Fire(r.now, key))
		steps++
	}
	if got := len(r.m.consumerIn("g").resolved[dense].Topics); got != 100 || steps < 4 {
		t.Errorf("%d topics match, in %d steps", got, steps)
	}
	r.check("the end")
}

// wait lets time go by.
func (r *rig) wait(d time.Duration) string {
	return r.advance(metatest.Words{D: &datadriven.TestData{CmdArgs: []datadriven.CmdArg{{Key: d.String()}}}})
}
