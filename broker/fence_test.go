package broker

import (
	"errors"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// fencing are requests that only a leader may answer for, and what they are told
// by one whose session may be over.
func fencing(g groupClient, id [16]byte, member string, generation int32) map[string]func() error {
	return map[string]func() error{
		"produce, acks=1": func() error { return g.line().produce(g.produceRequest("t", id, 0, 1, "x")) },
		"fetch":           func() error { return kerr.ErrorForCode(g.fetchCode(id, 0)) },
		"list offsets": func() error {
			req := kmsg.NewPtrListOffsetsRequest()
			req.ReplicaID = -1
			t, p := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
			t.Topic, p.Timestamp, p.CurrentLeaderEpoch = "t", -1, -1
			t.Partitions = append(t.Partitions, p)
			req.Topics = append(req.Topics, t)
			return kerr.ErrorForCode(ask[*kmsg.ListOffsetsResponse](g, req).Topics[0].Partitions[0].ErrorCode)
		},
		"heartbeat": func() error {
			req := kmsg.NewPtrHeartbeatRequest()
			req.Group, req.MemberID, req.Generation = "g", member, generation
			return kerr.ErrorForCode(ask[*kmsg.HeartbeatResponse](g, req).ErrorCode)
		},
		"offset fetch": func() error { _, err := g.committed("g"); return err },
	}
}

// fetchCode is the error that a reader of t-0 is told.
func (p groupClient) fetchCode(id [16]byte, wait int32) int16 {
	p.t.Helper()
	req := kmsg.NewPtrFetchRequest()
	req.ReplicaID, req.MaxBytes, req.MinBytes, req.MaxWaitMillis, req.SessionEpoch = -1, 1<<20, 1, wait, -1
	t, in := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	t.Topic, t.TopicID = "t", id
	in.CurrentLeaderEpoch, in.PartitionMaxBytes = -1, 1<<20
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	out := ask[*kmsg.FetchResponse](p, req).Topics[0].Partitions[0]
	if out.ErrorCode != 0 && len(out.RecordBatches) > 0 {
		p.t.Errorf("%d bytes beside an error", len(out.RecordBatches))
	}
	return out.ErrorCode
}

// A broker whose session may be over answers for nothing that another may be
// answering for: neither a request that comes then, nor one that is under way.
// What waits for the in-sync replicas goes on. Once the session is renewed the
// broker serves on, in the same epoch (safety 31, 32).
func TestFencedRequests(t *testing.T) {
	const over = time.Hour
	mem := metastore.NewMem()
	var watch stopwatch
	p := startWith(t, Options{store: mem, clock: watch.read, Set: []string{"log.dirs=" + t.TempDir(), "offsets.topic.num.partitions=1"}})
	id := p.createTopic("t", 1)
	g := p.groups()
	if err := g.produce("t", id, 0, -1, "first"); err != nil {
		t.Fatal(err)
	}
	if err := g.commit("g", 1); err != nil {
		t.Fatal(err)
	}
	member, generation, err := g.stable("g", 30*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	epoch := p.registered(1).Epoch
	mem.Stall(true) // nothing is renewed
	for what, do := range fencing(g, id, member, generation) {
		if err := do(); err != nil {
			t.Errorf("%s while the session holds: %v", what, err)
		}
		want := kerr.NotLeaderForPartition
		if what == "heartbeat" || what == "offset fetch" {
			want = kerr.NotCoordinator
		}
		for name, now := range map[string]time.Duration{"under way": 0, "at once": over} {
			watch.set(now, over)
			if err := do(); !errors.Is(err, want) {
				t.Errorf("%s, %s: %v, want %v", what, name, err, want)
			}
		}
		watch.set(0, 0)
	}
	watch.set(over, over)
	if err := g.produce("t", id, 0, -1, "in sync"); err != nil {
		t.Errorf("acks=all: %v", err)
	}
	if err := g.commit("g", 2); !errors.Is(err, kerr.NotCoordinator) {
		t.Errorf("commit: %v", err)
	}
	p.line().send(p.frame(id, 0)).mustEnd()
	if err := p.b.parts.groups.admits(0); !errors.Is(err, kerr.NotCoordinator) {
		t.Errorf("a shard may write: %v", err)
	}

	mem.Stall(false)
	p.until("the session is renewed", p.b.parts.member.Valid)
	for what, do := range fencing(g, id, member, generation) {
		if err := do(); err != nil {
			t.Errorf("%s once the session is renewed: %v", what, err)
		}
	}
	if now := p.registered(1).Epoch; now != epoch {
		t.Errorf("epoch %d, was %d", now, epoch)
	}
	p.line().send(p.frame(id, 0)).send(versions()).mustAnswer()
}

// admits is what a shard's partition says to writes.
func (g *groups) admits(shard int32) error {
	p, ok := g.partition(shard)
	if !ok {
		return kerr.UnknownTopicOrPartition
	}
	return p.Admit()
}

// frame is a produce request of one record to t-0.
func (p *process) frame(id [16]byte, acks int16) []byte {
	req := p.produceRequest("t", id, 0, acks, "x")
	req.Version = 9
	return wire.AppendRequest(nil, req, 1, nil)
}

// produce sends a request as it is: kgo has acks of its own.
func (l line) produce(req *kmsg.ProduceRequest) error {
	l.t.Helper()
	cl := wire.NewClient(l.Conn, wire.ClientOptions{})
	defer cl.Close()
	req.Version = 9
	resp, err := cl.Do(l.t.Context(), req)
	if err != nil {
		l.t.Fatal(err)
	}
	return kerr.ErrorForCode(resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0].ErrorCode)
}

// A broker that is alone is fenced by nothing, and asks no clock.
func TestAloneUnfenced(t *testing.T) {
	b, err := New(Options{Set: []string{"log.dirs=" + t.TempDir()}, clock: func() time.Duration { panic("the clock is read") }})
	if err != nil {
		t.Fatal(err)
	}
	if b.validity() != nil || b.parts.groups.valid != nil {
		t.Error("requests of a single node ask for a session")
	}
	if b.parts.member.self != kafka.NodeID(1) || b.parts.member.ttl != 0 {
		t.Errorf("%+v", b.parts.member)
	}
}
