package api

// CreatePartitions, key 37, versions 0-3: more partitions of topics that exist.
// The offsets topic is refused, where Apache Kafka adds them: groups would
// hash to other partitions than those that hold their offsets.

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// MorePartitions is the wish that a topic have Count partitions in all.
type MorePartitions struct {
	Topic      string
	Count      int32
	Assignment [][]kafka.NodeID // by hand, of each new one; nil: the broker places them
}

func (a *API) createPartitions(ctx context.Context, r *server.Request, req *kmsg.CreatePartitionsRequest, resp *kmsg.CreatePartitionsResponse) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.TimeoutMillis)*time.Millisecond)
	defer cancel()
	times := make(map[string]int)
	for i := range req.Topics {
		times[req.Topics[i].Topic]++
	}
	tooMany := a.additional(req, times) > plan.MaxPartitions
	for i := range req.Topics {
		in := &req.Topics[i]
		n := times[in.Topic]
		if n == 0 && !tooMany {
			continue // named twice, and told so
		}
		times[in.Topic] = 0
		out := kmsg.NewCreatePartitionsResponseTopic()
		out.Topic = in.Topic
		var err error
		switch {
		case tooMany:
			err = refusal(kerr.PolicyViolation, "Excessively large number of additional partitions per request.")
		case n > 1:
			err = refusal(kerr.InvalidRequest, "Duplicate topic name.")
		default:
			err = a.addPartitions(ctx, r, in, req.ValidateOnly)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = a.code(err), message(err)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return nil
}

// additional is how many partitions a request would add, without the topics
// that it names several times.
func (a *API) additional(req *kmsg.CreatePartitionsRequest, times map[string]int) int {
	n := 0
	for i := range req.Topics {
		in := &req.Topics[i]
		if t, there := a.Image().Topic(in.Topic); there && times[in.Topic] == 1 {
			n += max(0, int(in.Count)-len(t.Partitions))
		}
	}
	return n
}

func (a *API) addPartitions(ctx context.Context, r *server.Request, in *kmsg.CreatePartitionsRequestTopic, validate bool) error {
	if !a.allow(r, acl.Alter, acl.Topic, in.Topic) {
		return kerr.TopicAuthorizationFailed
	}
	if IsInternal(in.Topic) {
		if _, there := a.Image().Topic(in.Topic); there {
			return refusal(kerr.InvalidRequest, "The number of partitions of "+in.Topic+" decides where its groups are, and cannot change.")
		}
	}
	wish := MorePartitions{Topic: in.Topic, Count: in.Count}
	if in.Assignment != nil {
		wish.Assignment = [][]kafka.NodeID{}
	}
	for _, as := range in.Assignment {
		nodes := make([]kafka.NodeID, len(as.Replicas))
		for i, n := range as.Replicas {
			nodes[i] = kafka.NodeID(n)
		}
		wish.Assignment = append(wish.Assignment, nodes)
	}
	err := a.Cluster.AddPartitions(ctx, wish, validate)
	if errors.Is(err, context.DeadlineExceeded) {
		err = refusal(kerr.RequestTimedOut, "The partitions may have been added, or may yet be.")
	}
	return err
}
