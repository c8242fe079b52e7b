package api

// CreateTopics, key 19, versions 2-7.
//
//	v4   -1 partitions or replicas: the broker's default (KIP-464)
//	v5   the answer tells the new topic's size and configuration (KIP-525)
//	v7   and its id

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// NewTopic is a wish for a topic, as a request has it: -1 partitions or
// replicas stand for the defaults.
type NewTopic struct {
	Name              string
	Partitions        int32
	ReplicationFactor int16
	Assignment        []Assigned // by hand; empty: the broker places the replicas
	Config            map[string]string

	DefaultPartitions        int32
	DefaultReplicationFactor int16
}

// Assigned is one partition's replicas, the preferred leader first.
type Assigned struct {
	Partition int32
	Replicas  []kafka.NodeID
}

// CreatedTopic is what became of it.
type CreatedTopic struct {
	ID                kafka.TopicID // of one that is only validated: drawn for the answer, as Apache Kafka does
	Partitions        int32
	ReplicationFactor int16
}

func (a *API) createTopics(ctx context.Context, r *server.Request, req *kmsg.CreateTopicsRequest, resp *kmsg.CreateTopicsResponse) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.TimeoutMillis)*time.Millisecond)
	defer cancel()
	times := make(map[string]int)
	for i := range req.Topics {
		times[req.Topics[i].Topic]++
	}
	tooMany := a.wanted(req, times) > plan.MaxPartitions
	told := make(map[string]bool)
	for i := range req.Topics {
		in := &req.Topics[i]
		if told[in.Topic] && !tooMany {
			continue
		}
		told[in.Topic] = true
		out := kmsg.NewCreateTopicsResponseTopic()
		out.Topic, out.NumPartitions, out.ReplicationFactor = in.Topic, -1, -1
		var err error
		switch {
		case tooMany:
			err = refusal(kerr.PolicyViolation, "Excessively large number of partitions per request.")
		case times[in.Topic] > 1:
			err = refusal(kerr.InvalidRequest, "Duplicate topic name.")
		default:
			err = a.createTopic(ctx, r, req, in, &out)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = a.code(err), message(err)
			out.Configs = []kmsg.CreateTopicsResponseTopicConfig{} // empty, not null
		}
		resp.Topics = append(resp.Topics, out)
	}
	return nil
}

// wanted is how many partitions a request asks for, without the names that it
// gives several times.
func (a *API) wanted(req *kmsg.CreateTopicsRequest, times map[string]int) int {
	n := 0
	for i := range req.Topics {
		switch t := &req.Topics[i]; {
		case times[t.Topic] > 1:
		case len(t.ReplicaAssignment) > 0:
			n += len(t.ReplicaAssignment)
		case t.NumPartitions == -1:
			n += int(a.Limits.NumPartitions)
		default:
			n += max(0, int(t.NumPartitions))
		}
	}
	return n
}

func (a *API) createTopic(ctx context.Context, r *server.Request, req *kmsg.CreateTopicsRequest, in *kmsg.CreateTopicsRequestTopic, out *kmsg.CreateTopicsResponseTopic) error {
	if !a.allow(r, acl.Create, acl.Cluster, acl.ClusterName) && !a.allow(r, acl.Create, acl.Topic, in.Topic) {
		return refusal(kerr.TopicAuthorizationFailed, "Authorization failed.")
	}
	if err := plan.CheckName(in.Topic); err != nil {
		return err
	}
	// Before its settings are looked at, as Apache Kafka does.
	if err := plan.CheckFree(a.Image(), in.Topic); err != nil {
		return err
	}
	wish, err := a.wish(in)
	if err != nil {
		return err
	}
	made, err := a.Cluster.CreateTopic(ctx, wish, req.ValidateOnly)
	if errors.Is(err, context.DeadlineExceeded) {
		err = refusal(kerr.RequestTimedOut, "The topic may have been created, or may yet be.")
	}
	if err != nil {
		return err
	}
	out.TopicID, out.NumPartitions, out.ReplicationFactor = made.ID, made.Partitions, made.ReplicationFactor
	if req.Version < 5 {
		return nil
	}
	if !a.allow(r, acl.DescribeConfigs, acl.Topic, in.Topic) {
		out.ConfigErrorCode = kerr.TopicAuthorizationFailed.Code
		return nil
	}
	out.Configs = []kmsg.CreateTopicsResponseTopicConfig{}
	for _, s := range a.Settings.Describe(wish.Config) {
		c := kmsg.NewCreateTopicsResponseTopicConfig()
		c.Name, c.ReadOnly, c.Source, c.IsSensitive = s.Name, s.ReadOnly, s.Source, s.Sensitive
		c.Value = s.Value
		if given, ok := wish.Config[s.Name]; ok {
			c.Value = &given // as it was written, whatever it is read as
		}
		out.Configs = append(out.Configs, c)
	}
	return nil
}

// wish turns a request's topic into a NewTopic.
func (a *API) wish(in *kmsg.CreateTopicsRequestTopic) (NewTopic, error) {
	w := a.newTopic(in.Topic)
	w.Partitions, w.ReplicationFactor = in.NumPartitions, in.ReplicationFactor
	overrides := make(map[string]*string, len(in.Configs))
	for _, c := range in.Configs {
		overrides[c.Name] = c.Value
		if c.Value != nil {
			w.Config[c.Name] = *c.Value
		}
	}
	if err := a.Settings.Validate(overrides); err != nil {
		return w, err
	}
	for _, p := range in.ReplicaAssignment {
		nodes := make([]kafka.NodeID, len(p.Replicas))
		for i, n := range p.Replicas {
			nodes[i] = kafka.NodeID(n)
		}
		w.Assignment = append(w.Assignment, Assigned{p.Partition, nodes})
	}
	return w, nil
}

// newTopic is a wish for a topic with the broker's defaults.
func (a *API) newTopic(name string) NewTopic {
	return NewTopic{
		Name: name, Partitions: -1, ReplicationFactor: -1, Config: map[string]string{},
		DefaultPartitions: a.Limits.NumPartitions, DefaultReplicationFactor: a.Limits.ReplicationFactor,
	}
}

// refused is a protocol error with the sentence that the client shows.
type refused struct {
	code *kerr.Error
	text string
}

func refusal(code *kerr.Error, text string) error { return refused{code, text} }

func (r refused) Error() string { return r.text }
func (r refused) Unwrap() error { return r.code }

// maxMessage is where sentences are cut: some repeat what was asked, which may
// be as long as a request, for each of many partitions; and versions that are
// not flexible have no room for more than 32767 bytes.
const maxMessage = 1024

// message is the sentence of an error for a person; what has no protocol error
// stays inside.
func message(err error) *string {
	if wire.Code(err) == kerr.UnknownServerError.Code {
		return nil
	}
	text := err.Error()
	if bare, ok := err.(*kerr.Error); ok {
		text = bare.Description // without its name, which the code tells
	}
	if len(text) > maxMessage {
		text = strings.ToValidUTF8(text[:maxMessage], "") + "..."
	}
	return &text
}
