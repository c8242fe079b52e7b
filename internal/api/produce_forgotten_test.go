package api

import (
	"context"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// produces appends one batch of an idempotent producer, of one record, as a
// Produce request, and does not wait for anything yet.
func (l *led) produces(acks int16, seq int32) (*produce, *kmsg.ProduceResponseTopicPartition) {
	l.t.Helper()
	var b batch.Builder
	b.Reset(batch.Options{Producer: &batch.Producer{ID: 7, Sequence: seq}})
	b.Append(time.Now().UnixMilli(), nil, []byte("v"))
	raw, _, err := b.Build(nil)
	if err != nil {
		l.t.Fatal(err)
	}
	in, t, req := kmsg.NewProduceRequestTopicPartition(), kmsg.NewProduceRequestTopic(), kmsg.NewPtrProduceRequest()
	in.Records = raw
	t.Topic, t.Partitions = "t", append(t.Partitions, in)
	req.Version, req.Acks, req.TimeoutMillis, req.Topics = 9, acks, 60_000, append(req.Topics, t)
	p := &produce{API: l.a, r: &server.Request{}, req: req, resp: kmsg.NewPtrProduceResponse(), img: l.Img}
	p.append(time.Now())
	return p, &p.resp.Topics[0].Partitions[0]
}

// wantForgotten wants the answer that clients take for a success.
func (l *led) wantForgotten(what string, p *produce, out *kmsg.ProduceResponseTopicPartition) {
	l.t.Helper()
	if out.ErrorCode != kerr.DuplicateSequenceNumber.Code || out.BaseOffset != -1 || out.LogAppendTime != -1 || out.LogStartOffset != 0 || out.ErrorMessage == nil || p.failed {
		l.t.Errorf("%s: %+v, failed %t", what, out, p.failed)
	}
	if end := l.part().Log().End(); end != 7 {
		l.t.Errorf("%s: log end %d", what, end)
	}
}

// newForgotten is a partition with seven batches of a producer: two of them are
// not remembered any more, and lie below offset 2. None is committed.
func newForgotten(t *testing.T) *led {
	l := newLed(t)
	for seq := range int32(7) {
		if _, out := l.produces(1, seq); out.ErrorCode != 0 || out.BaseOffset != int64(seq) {
			t.Fatalf("%+v", out)
		}
	}
	return l
}

// A batch that is certainly there, nobody remembers where, is a duplicate with
// acks=all as soon as everything below the oldest remembered batch is committed,
// and no earlier (safety 6); with acks=0 and 1 at once.
func TestForgottenDuplicate(t *testing.T) {
	l := newForgotten(t)
	for _, acks := range []int16{1, 0} {
		p, out := l.produces(acks, 1)
		l.wantForgotten("not committed", p, out)
	}
	for committed := range int64(2) {
		l.reads(l.asks(0, 0, committed))
		p, out := l.produces(-1, 0)
		if out.ErrorCode != 0 || len(p.waiting) != 1 {
			t.Fatalf("committed up to %d: %+v, %d wait", committed, out, len(p.waiting))
		}
		p.req.TimeoutMillis = 1
		p.await(t.Context())
		if out.ErrorCode != kerr.RequestTimedOut.Code || out.BaseOffset != -1 {
			t.Errorf("committed up to %d: %+v", committed, out)
		}
	}
	p, out := l.produces(-1, 0)
	l.reads(l.asks(0, 0, 2))
	p.await(t.Context())
	l.wantForgotten("committed meanwhile", p, out)
	p, out = l.produces(-1, 1)
	if len(p.waiting) > 0 {
		t.Error("it waits for what is committed")
	}
	l.wantForgotten("committed before", p, out)
}

// It has the error paths of its original.
func TestForgottenDuplicateFails(t *testing.T) {
	l := newForgotten(t)
	p, out := l.produces(-1, 0)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	me, _ := l.Img.Broker(1)
	l.register(1, me.Dirs[0]) // another incarnation: its term is over
	p.await(ctx)
	if out.ErrorCode != kerr.NotLeaderForPartition.Code || out.BaseOffset != -1 {
		t.Errorf("the term ended: %+v", out)
	}

	l = newForgotten(t)
	l.a.Valid = func() bool { return false }
	if _, out := l.produces(1, 0); out.ErrorCode != kerr.NotLeaderForPartition.Code {
		t.Errorf("fenced: %+v", out)
	}
}
