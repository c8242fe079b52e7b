package api

// DescribeProducers, key 61, version 0 (KIP-664): who writes to partitions
// with a producer id. Leader and followers answer from what they keep, and a
// producer is kept until producer.id.expiration.ms after its last batch. A
// partition that a request names twice is answered once.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// maxExplained is how many partitions of a topic are told in words why they are
// refused: the words are the same, and repeat the topic's name.
const maxExplained = 100

func (a *API) describeProducers(_ context.Context, r *server.Request, req *kmsg.DescribeProducersRequest, resp *kmsg.DescribeProducersResponse) error {
	topics, told := numbered{}, make(map[numberedPartition]bool)
	for i := range req.Topics {
		in := &req.Topics[i]
		out := kmsg.NewDescribeProducersResponseTopic()
		out.Topic = in.Topic
		topic, refused := a.producersTopic(r, in.Topic)
		number := topics.of(in.Topic)
		for _, n := range in.Partitions {
			tp := numberedPartition{number, n}
			if told[tp] {
				continue
			}
			told[tp] = true
			p := kmsg.NewDescribeProducersResponseTopicPartition()
			p.Partition, p.ActiveProducers = n, []kmsg.DescribeProducersResponseTopicPartitionActiveProducer{}
			if refused != nil {
				p.ErrorCode = a.code(refused)
				if len(out.Partitions) < maxExplained {
					p.ErrorMessage = message(refused)
				}
			} else {
				p.ErrorCode = a.code(a.activeProducers(topic, &p))
			}
			out.Partitions = append(out.Partitions, p)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return nil
}

// producersTopic finds a topic that r may read.
func (a *API) producersTopic(r *server.Request, name string) (*meta.Topic, error) {
	if err := plan.CheckName(name); err != nil {
		return nil, err
	}
	if !a.allow(r, acl.Read, acl.Topic, name) {
		return nil, refusal(kerr.TopicAuthorizationFailed, kerr.TopicAuthorizationFailed.Description)
	}
	t, ok := a.Image().Topic(name)
	if !ok {
		return nil, refusal(kerr.UnknownTopicOrPartition, kerr.UnknownTopicOrPartition.Description)
	}
	return t, nil
}

func (a *API) activeProducers(t *meta.Topic, out *kmsg.DescribeProducersResponseTopicPartition) error {
	p, err := a.hosted(t, out.Partition)
	if err != nil {
		return err
	}
	entries, err := p.Producers()
	if err != nil {
		return err
	}
	for i := range entries {
		e := &entries[i]
		d := kmsg.NewDescribeProducersResponseTopicPartitionActiveProducer()
		d.ProducerID, d.ProducerEpoch, d.CoordinatorEpoch = e.ProducerID, int32(e.Epoch), e.CoordinatorEpoch
		d.LastSequence, d.LastTimestamp, d.CurrentTxnStartOffset = e.LastSeq(), e.LastTimestampMs, e.TxnFirstOffset
		out.ActiveProducers = append(out.ActiveProducers, d)
	}
	return nil
}
