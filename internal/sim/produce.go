package sim

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/check"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// windows are how many batches the idempotent producers have in flight at most:
// more than a broker remembers, too, as a client has where it goes on at the next
// leader while the last one does not answer.
var windows = []int{4, 12}

// producer writes to one partition.
type producer struct {
	*client
	part    int32
	acks    int16
	seq     int64 // of its records, for the checker
	builder batch.Builder

	// Of an idempotent one.
	window   int
	id       int64 // -1: none yet
	epoch    int16
	sequence int32
	flight   []*sent // oldest first
}

// sent is a batch that was not answered for yet.
type sent struct {
	events   []check.Event
	raw      []byte
	call     *wire.Call // nil: to be sent, again perhaps
	deadline time.Time
	broken   int // answers that its sequence does not follow
}

// next is another batch: a few records.
func (p *producer) next(who *batch.Producer) *sent {
	p.builder.Reset(batch.Options{Producer: who})
	s := &sent{}
	for range 1 + p.dice.intn(3) {
		p.seq++
		e := p.event(check.Produce, p.part)
		e.Producer, e.Acks, e.Seq, e.Idempotent = p.name, int32(p.acks), p.seq, who != nil
		e.ID = fmt.Sprintf("%s-%d", p.name, p.seq)
		v := value(e.ID, p.dice.intn(200))
		e.Sum = crc32.ChecksumIEEE(v)
		p.builder.Append(time.Now().UnixMilli(), nil, v)
		s.events = append(s.events, e)
	}
	var err error
	if s.raw, _, err = p.builder.Build(nil); err != nil {
		panic(err)
	}
	return s
}

func (p *producer) request(raw []byte) *kmsg.ProduceRequest {
	req := kmsg.NewPtrProduceRequest()
	req.SetVersion(9)
	req.Acks, req.TimeoutMillis = p.acks, int32(patience.Milliseconds())
	t, in := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	t.Topic, in.Partition, in.Records = theTopic, p.part, raw
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	return req
}

// done writes down what became of a batch; base is -1 where nobody knows it.
func (p *producer) done(s *sent, out check.Outcome, base int64) {
	for i := range s.events {
		e := &s.events[i]
		if e.Out = out; out == check.OK && base >= 0 {
			e.Offset = base + int64(i)
		}
		p.w.history.add(e)
	}
}

// plain produces without idempotence, one batch after another.
func (p *producer) plain(ctx context.Context) {
	defer p.close()
	for ctx.Err() == nil {
		s := p.next(nil)
		attempts, out, base := int32(0), check.Maybe, int64(-1)
		for n := 1 + p.dice.intn(3); n > 0 && out != check.OK; n-- {
			attempts++
			resp, err := p.toLeader(ctx, p.part, p.request(s.raw))
			if err == nil {
				a := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
				if err = p.believe(p.part, a.ErrorCode); err == nil {
					out, base = check.OK, a.BaseOffset
				}
			}
			if err != nil && !p.rest(ctx) {
				break
			}
		}
		for i := range s.events {
			s.events[i].Attempts = attempts
		}
		p.done(s, out, base)
		_ = sleep(ctx, p.w.plan.pace+p.dice.upTo(p.w.plan.pace))
	}
}

// idempotent produces with several batches in flight. Nothing is given up while
// ctx lives: each is sent again, with those behind it, until it is answered. When
// more ends there are no further ones.
func (p *producer) idempotent(ctx, more context.Context) {
	defer p.close()
	p.id = -1
	due := time.Now()
	for ctx.Err() == nil && (more.Err() == nil || len(p.flight) > 0) {
		if p.id < 0 {
			if p.begin(ctx) != nil {
				p.rest(ctx)
			}
			continue
		}
		if now := time.Now(); !now.Before(due) && len(p.flight) < p.window && more.Err() == nil {
			due = now.Add(p.w.plan.pace/2 + p.dice.upTo(p.w.plan.pace))
			s := p.next(&batch.Producer{ID: p.id, Epoch: p.epoch, Sequence: p.sequence})
			p.sequence += int32(len(s.events))
			p.flight = append(p.flight, s)
		}
		if err := p.send(ctx); err != nil {
			p.again()
			p.rest(ctx)
			continue
		}
		if more.Err() != nil {
			due = time.Now().Add(patience)
		}
		if err := p.await(ctx, due); err != nil {
			p.again()
			p.rest(ctx)
		}
	}
	p.giveUp()
}

// begin gets a producer id.
func (p *producer) begin(ctx context.Context) error {
	req := kmsg.NewPtrInitProducerIDRequest()
	req.SetVersion(4)
	resp, err := p.ask(ctx, p.anybody(), req)
	if err != nil {
		return err
	}
	a := resp.(*kmsg.InitProducerIDResponse)
	if a.ErrorCode == 0 {
		p.id, p.epoch, p.sequence = a.ProducerID, a.ProducerEpoch, 0
	}
	return kerr.ErrorForCode(a.ErrorCode)
}

// send sends what is to be sent, in order.
func (p *producer) send(ctx context.Context) error {
	for _, s := range p.flight {
		if s.call != nil {
			continue
		}
		at, err := p.leader(ctx, p.part)
		if err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, patience)
		conn, err := p.conn(ctx, at)
		if err == nil {
			s.deadline = time.Now().Add(patience)
			s.call, err = conn.Send(ctx, p.request(s.raw))
		}
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// await waits for the oldest batch's answer, or until another batch is due.
func (p *producer) await(ctx context.Context, due time.Time) error {
	if len(p.flight) == 0 {
		return nothing(sleep(ctx, time.Until(due)))
	}
	s := p.flight[0]
	until := s.deadline
	if len(p.flight) < p.window && due.Before(until) {
		until = due
	}
	t := time.NewTimer(time.Until(until))
	defer t.Stop()
	select {
	case <-s.call.Done():
	case <-ctx.Done():
		return nil
	case <-t.C:
		if time.Now().Before(s.deadline) {
			return nil
		}
		return context.DeadlineExceeded
	}
	resp, err := s.call.Wait(ctx)
	if err != nil {
		return err
	}
	a := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	err = p.believe(p.part, a.ErrorCode)
	switch {
	case err == nil:
		p.done(s, check.OK, a.BaseOffset)
		p.flight = p.flight[1:]
		return nil
	case errors.Is(err, kerr.DuplicateSequenceNumber): // it is there, as clients take it
		p.w.count("written before")
		p.done(s, check.OK, -1)
		p.flight = p.flight[1:]
		return nil
	case errors.Is(err, kerr.OutOfOrderSequenceNumber), errors.Is(err, kerr.UnknownProducerID), errors.Is(err, kerr.InvalidProducerEpoch):
		if s.broken++; s.broken > 5 {
			p.w.trace.add("%s gives up %s: %v", p.name, s.events[0].ID, err)
			p.w.count("sequence broken")
			p.giveUp()
		}
	}
	return err
}

func nothing(error) error { return nil }

// again has everything sent again, on another connection.
func (p *producer) again() {
	for address := range p.conns {
		p.hangUp(address)
	}
	delete(p.leaders, p.part)
	for _, s := range p.flight {
		s.call = nil
	}
}

// giveUp ends the producer id: nobody knows what became of what is in flight.
func (p *producer) giveUp() {
	for _, s := range p.flight {
		p.done(s, check.Maybe, -1)
	}
	p.flight, p.id = nil, -1
}
