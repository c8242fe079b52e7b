package api

// Produce, key 0, versions 3-13.
//
// Versions 0-2 are advertised and refused by closing the connection: a
// librdkafka of 2.0-2.8 that does not see version 0 stops compressing
// (KAFKA-18659); the table does both.
//
//	v7   zstd may be stored (KIP-110); below it is UNSUPPORTED_COMPRESSION_TYPE
//	v8   errors name single records (KIP-467)
//	v10  answers name the new leader and its address (KIP-951)
//	v13  topics by id (KIP-516)
//
// The next request on the connection starts once everything is appended and
// before anything is committed (server.Request.Next), so several produce
// requests overlap and still append in order.

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// appended is a partition of a produce request that waits to be committed.
type appended struct {
	partition *replica.Partition
	epoch     kafka.LeaderEpoch
	end       int64
	answer    *kmsg.ProduceResponseTopicPartition
	forgotten bool
}

// produce is the state of one Produce request.
type produce struct {
	*API
	r       *server.Request
	req     *kmsg.ProduceRequest
	resp    *kmsg.ProduceResponse
	img     *meta.Image
	waiting []appended
	hinted  []kafka.NodeID
	failed  bool
}

func (a *API) produce(ctx context.Context, r *server.Request, req *kmsg.ProduceRequest, resp *kmsg.ProduceResponse) error {
	p := &produce{API: a, r: r, req: req, resp: resp, img: a.Image()}
	p.append(a.Now())
	if req.Acks == 0 {
		r.NoAnswer()
		if p.failed {
			r.Disconnect() // the only way to tell (as Apache Kafka does)
		}
		return nil
	}
	if len(p.waiting) > 0 {
		r.Next() // order is fixed: the frame is gone, and the next request may start
		p.await(ctx)
	}
	p.addBrokers()
	return nil
}

// append appends every partition of the request in order.
func (p *produce) append(now time.Time) {
	// The capacity is what keeps the answers that p.waiting points at in place.
	p.resp.Topics = make([]kmsg.ProduceResponseTopic, 0, len(p.req.Topics))
	for i := range p.req.Topics {
		t := &p.req.Topics[i]
		if len(t.Partitions) == 0 {
			continue // nothing was asked of it
		}
		p.resp.Topics = append(p.resp.Topics, kmsg.NewProduceResponseTopic())
		out := &p.resp.Topics[len(p.resp.Topics)-1]
		topic, err := p.topic(t)
		out.Topic, out.TopicID = t.Topic, t.TopicID
		out.Partitions = make([]kmsg.ProduceResponseTopicPartition, len(t.Partitions))
		for j := range t.Partitions {
			answer := &out.Partitions[j]
			*answer = kmsg.NewProduceResponseTopicPartition()
			answer.Partition = t.Partitions[j].Partition
			answer.BaseOffset, answer.LogAppendTime, answer.LogStartOffset = -1, -1, -1
			perr := err
			if perr == nil {
				perr = p.appendOne(now, topic, &t.Partitions[j], answer)
			}
			if perr != nil {
				p.fail(answer, topic, perr)
			}
		}
	}
}

// topic resolves a topic of the request and checks what holds for all of its
// partitions.
func (p *produce) topic(t *kmsg.ProduceRequestTopic) (*meta.Topic, error) {
	topic, err := p.resolve(p.img, p.req.Version >= 13, t.Topic, t.TopicID)
	if err != nil {
		return nil, err
	}
	if !p.allow(p.r, acl.Write, acl.Topic, topic.Name) {
		return nil, kerr.TopicAuthorizationFailed
	}
	if p.req.TransactionID != nil && !p.allow(p.r, acl.Write, acl.TransactionalID, *p.req.TransactionID) {
		return topic, kerr.TransactionalIDAuthorizationFailed
	}
	return topic, nil
}

func (p *produce) appendOne(now time.Time, t *meta.Topic, in *kmsg.ProduceRequestTopicPartition, out *kmsg.ProduceResponseTopicPartition) error {
	partition, err := p.hosted(t, in.Partition)
	switch {
	case err != nil:
		return err
	case p.req.Acks < -1 || p.req.Acks > 1:
		return kerr.InvalidRequiredAcks
	}
	if p.req.Acks >= 0 {
		if err := p.fenced(); err != nil {
			return err
		}
	}
	if b, _, err := batch.Next(in.Records); err == nil && b.Transactional() {
		if p.req.TransactionID == nil {
			return kerr.TransactionalIDAuthorizationFailed // nobody vouches for the producer
		}
		// Nobody can have begun a transaction: there is no coordinator to ask.
		return kerr.InvalidTxnState
	}
	res, err := partition.Append(now, in.Records, replica.AppendOpts{
		Acks: p.req.Acks, Origin: storage.FromClient, AllowZstd: p.req.Version >= 7,
	})
	if err == nil && p.req.Acks >= 0 {
		err = p.fenced() // it is appended, and may be lost to another leader
	}
	if err != nil {
		if judged(err) {
			out.LogStartOffset = partition.Log().Start()
		}
		return err
	}
	out.BaseOffset, out.LogAppendTime, out.LogStartOffset = res.Base, res.AppendTimeMs, res.LogStart
	forgotten := res.Duplicate && res.Base < 0
	if p.req.Acks == -1 && !res.Committed {
		p.waiting = append(p.waiting, appended{partition, res.Epoch, res.Last + 1, out, forgotten})
	} else if forgotten {
		p.forgotten(out)
	}
	return nil
}

// forgotten answers for a batch that was written long ago. Clients take the code
// for a success without an offset, and so it is no failure here either.
func (p *produce) forgotten(out *kmsg.ProduceResponseTopicPartition) {
	out.ErrorCode = kerr.DuplicateSequenceNumber.Code
	if p.req.Version >= 8 {
		out.ErrorMessage = kmsg.StringPtr("the batch was written before, and later ones too: its offset is not remembered")
	}
}

// judged reports that a batch was refused for what it says, held against the
// log it was meant for; such an answer tells where that log starts.
func judged(err error) bool {
	switch wire.Code(err) {
	case kerr.InvalidRecord.Code, kerr.InvalidTimestamp.Code, kerr.OutOfOrderSequenceNumber.Code, kerr.InvalidProducerEpoch.Code:
		return true
	}
	return false
}

// await waits for the commit of what was appended, all under one deadline.
func (p *produce) await(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(p.req.TimeoutMillis)*time.Millisecond)
	defer cancel()
	for _, w := range p.waiting {
		err := w.partition.AwaitCommitted(ctx, w.epoch, w.end)
		if errors.Is(err, context.DeadlineExceeded) {
			err = kerr.RequestTimedOut
		}
		if err != nil {
			p.img = p.Image() // it may name the next leader by now
			topic, _ := p.img.TopicByID(w.partition.TopicID())
			p.fail(w.answer, topic, err)
			w.answer.BaseOffset, w.answer.LogAppendTime, w.answer.LogStartOffset = -1, -1, -1
		} else if w.forgotten {
			p.forgotten(w.answer)
		}
	}
}

func (p *produce) fail(out *kmsg.ProduceResponseTopicPartition, t *meta.Topic, err error) {
	p.failed = true
	out.ErrorCode = p.code(err)
	if p.req.Version >= 8 {
		out.ErrorMessage, out.ErrorRecords = recordErrors(err)
	}
	if p.req.Version >= 10 && out.ErrorCode == kerr.NotLeaderForPartition.Code {
		out.CurrentLeader.LeaderID, out.CurrentLeader.LeaderEpoch = leaderHint(t, out.Partition)
		// Each once: a Java producer throws at a broker that is named twice, loses
		// the answers of the other partitions with it, and does not write to them
		// again before delivery.timeout.ms.
		if id := kafka.NodeID(out.CurrentLeader.LeaderID); id >= 0 && !slices.Contains(p.hinted, id) {
			p.hinted = append(p.hinted, id)
		}
	}
}

// recordErrors names the records that had a batch refused.
func recordErrors(err error) (*string, []kmsg.ProduceResponseTopicPartitionErrorRecord) {
	var records *batch.RecordsError
	if errors.As(err, &records) {
		out := make([]kmsg.ProduceResponseTopicPartitionErrorRecord, len(records.Errors))
		for i, e := range records.Errors {
			out[i] = kmsg.NewProduceResponseTopicPartitionErrorRecord()
			out[i].RelativeOffset = e.BatchIndex
			out[i].ErrorMessage = kmsg.StringPtr(e.Message)
		}
		return kmsg.StringPtr(err.Error()), out
	}
	if wire.Code(err) == kerr.UnknownServerError.Code {
		return nil, nil // what is inside stays inside
	}
	return kmsg.StringPtr(err.Error()), nil
}

func (p *produce) addBrokers() {
	for _, id := range p.hinted {
		b, ok := p.img.Broker(id)
		if !ok {
			continue
		}
		host, port, ok := address(b, p.r.Conn.Listener)
		if !ok {
			continue
		}
		out := kmsg.NewProduceResponseBroker()
		out.NodeID, out.Host, out.Port, out.Rack = int32(id), host, port, rack(b)
		p.resp.Brokers = append(p.resp.Brokers, out)
	}
}
