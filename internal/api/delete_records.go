package api

// DeleteRecords, key 21, versions 0-2: the log start of partitions is raised,
// which is the low watermark of the answer.
//
// What the answer says is durable on every live replica and every eligible leader (Apache Kafka writes its
// checkpoint of log starts every minute, and a crash before that brings deleted
// records back). The leader's disk is waited for, the other replicas until the
// client's time-out.

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"golang.org/x/sync/errgroup"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// deletersAtOnce bounds the partitions of one request that are worked on at
// once. Those of one directory share the writes of its checkpoint.
const deletersAtOnce = 32

func (a *API) deleteRecords(ctx context.Context, r *server.Request, req *kmsg.DeleteRecordsRequest, resp *kmsg.DeleteRecordsResponse) error {
	// Of a partition that is named twice the last offset counts.
	wanted := make(map[numberedPartition]int64)
	topics := numbered{}
	for i := range req.Topics {
		t := &req.Topics[i]
		if len(t.Partitions) == 0 {
			continue
		}
		at := topics.of(t.Topic)
		if at == len(resp.Topics) {
			out := kmsg.NewDeleteRecordsResponseTopic()
			out.Topic = t.Topic
			resp.Topics = append(resp.Topics, out)
		}
		for j := range t.Partitions {
			tp := numberedPartition{at, t.Partitions[j].Partition}
			_, named := wanted[tp]
			wanted[tp] = t.Partitions[j].Offset
			if named {
				continue
			}
			p := kmsg.NewDeleteRecordsResponseTopicPartition()
			p.Partition, p.LowWatermark = tp.partition, -1
			resp.Topics[at].Partitions = append(resp.Topics[at].Partitions, p)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.TimeoutMillis)*time.Millisecond)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(deletersAtOnce)
	var mu sync.Mutex
	var waiting []deletion // under mu
	for i := range resp.Topics {
		topic := resp.Topics[i].Topic
		allowed := a.allow(r, acl.Delete, acl.Topic, topic)
		t, err := a.resolve(a.Image(), false, topic, kafka.TopicID{})
		for j := range resp.Topics[i].Partitions {
			p := &resp.Topics[i].Partitions[j]
			if !allowed {
				p.ErrorCode = kerr.TopicAuthorizationFailed.Code
				continue
			}
			if err != nil {
				p.ErrorCode = a.code(err)
				continue
			}
			offset := wanted[numberedPartition{i, p.Partition}]
			g.Go(func() error {
				part, done, err := a.deleteBefore(t, p.Partition, offset)
				if err != nil {
					p.ErrorCode = a.code(err)
					return nil
				}
				mu.Lock()
				waiting = append(waiting, deletion{part, done, p})
				mu.Unlock()
				return nil
			})
		}
	}
	err := g.Wait()
	a.awaitDeletions(ctx, waiting)
	return err
}

func (a *API) awaitDeletions(ctx context.Context, waiting []deletion) {
	for _, w := range waiting {
		low, err := w.part.AwaitDeleted(ctx, w.done)
		if errors.Is(err, context.DeadlineExceeded) {
			err = kerr.RequestTimedOut
		}
		w.answer.LowWatermark, w.answer.ErrorCode = low, a.code(err)
	}
}

// deletion is done here, and waits for the other replicas.
type deletion struct {
	part   *replica.Partition
	done   replica.Deleted
	answer *kmsg.DeleteRecordsResponseTopicPartition
}

func (a *API) deleteBefore(t *meta.Topic, partition int32, offset int64) (*replica.Partition, replica.Deleted, error) {
	p, err := a.hosted(t, partition)
	switch {
	case IsInternal(t.Name) && !errors.Is(err, kerr.UnknownTopicOrPartition):
		return nil, replica.Deleted{}, kerr.InvalidTopicException
	case err != nil:
		return nil, replica.Deleted{}, err
	}
	done, err := p.DeleteRecords(offset)
	return p, done, err
}
