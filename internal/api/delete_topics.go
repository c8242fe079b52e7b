package api

// DeleteTopics, key 20, versions 1-6.
//
//	v3   TOPIC_DELETION_DISABLED; below, it is INVALID_REQUEST
//	v5   errors come with a sentence
//	v6   topics by id

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) deleteTopics(ctx context.Context, r *server.Request, req *kmsg.DeleteTopicsRequest, resp *kmsg.DeleteTopicsResponse) error {
	ctx, cancel := context.WithTimeout(ctx, time.Duration(req.TimeoutMillis)*time.Millisecond)
	defer cancel()
	asked := req.Topics
	for i := range req.TopicNames {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = &req.TopicNames[i]
		asked = append(asked, t)
	}
	n := a.naming(asked)
	told := make(map[string]bool)
	for i := range asked {
		in := &asked[i]
		out := kmsg.NewDeleteTopicsResponseTopic()
		out.Topic, out.TopicID = in.Topic, in.TopicID
		if err := oddlyNamed(in); err != nil && a.Limits.DeleteTopics {
			out.ErrorCode, out.ErrorMessage = a.code(err), message(err)
			resp.Topics = append(resp.Topics, out)
			continue
		}
		id := kafka.TopicID(in.TopicID)
		key := ""
		if in.Topic != nil {
			key = "name " + *in.Topic
			if t, ok := a.Image().Topic(*in.Topic); ok && n.names[*in.Topic] == 1 {
				id = t.ID
			}
		}
		if id != (kafka.TopicID{}) {
			key = id.String() // one answer, however it was named
		}
		if in.Topic == nil && n.ids[id] > 1 {
			key = "twice " + key // and once more for the name, if that is there too
		}
		if told[key] {
			continue
		}
		told[key] = true
		var err error
		if !a.Limits.DeleteTopics {
			err = deletionDisabled(req.Version)
		} else if n.topics[id] > 1 || in.Topic != nil && n.names[*in.Topic] > 1 {
			if n.topics[id] > 1 && (in.Topic == nil || n.names[*in.Topic] == 1) {
				out.TopicID = id
				if in.Topic != nil || n.ids[id] == 1 {
					out.Topic = otherName(asked, a.Image(), id)
				}
			}
			err = refusal(kerr.InvalidRequest, twice(in, n.names, out.Topic))
		} else {
			err = a.deleteTopic(ctx, r, in, &out)
		}
		if err != nil {
			out.ErrorCode, out.ErrorMessage = a.code(err), message(err)
		}
		resp.Topics = append(resp.Topics, out)
	}
	return nil
}

// naming is how often a request names a topic: by name, by id, and either way.
type naming struct {
	names  map[string]int
	ids    map[kafka.TopicID]int
	topics map[kafka.TopicID]int
}

func (a *API) naming(asked []kmsg.DeleteTopicsRequestTopic) naming {
	n := naming{make(map[string]int), make(map[kafka.TopicID]int), make(map[kafka.TopicID]int)}
	for i := range asked {
		switch name := asked[i].Topic; {
		case oddlyNamed(&asked[i]) != nil: // refused for itself
		case name != nil:
			n.names[*name]++
		default:
			n.ids[asked[i].TopicID]++
			n.topics[asked[i].TopicID]++
		}
	}
	for name, often := range n.names { // a name that is there twice stands for nothing
		if t, ok := a.Image().Topic(name); ok && often == 1 {
			n.topics[t.ID]++
		}
	}
	return n
}

// oddlyNamed refuses what has a name and an id, or neither.
func oddlyNamed(in *kmsg.DeleteTopicsRequestTopic) error {
	switch byID := in.TopicID != [16]byte{}; {
	case byID && in.Topic != nil:
		return refusal(kerr.InvalidRequest, "You may not specify both topic name and topic id.")
	case !byID && in.Topic == nil:
		return refusal(kerr.InvalidRequest, "Neither topic name nor id were specified.")
	}
	return nil
}

func deletionDisabled(version int16) error {
	if version < 3 { // which does not know the error
		return kerr.InvalidRequest
	}
	return refusal(kerr.TopicDeletionDisabled, "delete.topic.enable is false")
}

// twice says how a topic is named more than once; otherwise is its name, when a
// request names it by that and by its id.
func twice(in *kmsg.DeleteTopicsRequestTopic, names map[string]int, otherwise *string) string {
	switch {
	case in.Topic != nil && names[*in.Topic] > 1:
		return "Duplicate topic name."
	case in.Topic == nil && otherwise == nil:
		return "Duplicate topic id."
	default:
		return "The provided topic name maps to an ID that was already supplied."
	}
}

func (a *API) deleteTopic(ctx context.Context, r *server.Request, in *kmsg.DeleteTopicsRequestTopic, out *kmsg.DeleteTopicsResponseTopic) error {
	byID := in.TopicID != [16]byte{}
	name := ""
	if !byID {
		name = *in.Topic
	}
	t, err := a.resolve(a.Image(), byID, name, in.TopicID)
	if err != nil {
		if !byID && !a.allow(r, acl.Describe, acl.Topic, name) {
			return kerr.TopicAuthorizationFailed
		}
		return err
	}
	if !a.allow(r, acl.Delete, acl.Topic, t.Name) {
		if byID && !a.allow(r, acl.Describe, acl.Topic, t.Name) {
			return kerr.TopicAuthorizationFailed // and its name stays hidden
		}
		out.Topic = &t.Name
		return kerr.TopicAuthorizationFailed
	}
	out.Topic, out.TopicID = &t.Name, t.ID
	err = a.Cluster.DeleteTopic(ctx, t.ID)
	if errors.Is(err, context.DeadlineExceeded) {
		out.Topic, out.TopicID = in.Topic, in.TopicID // only what was asked is known
		err = refusal(kerr.RequestTimedOut, "The topic may have been deleted, or may yet be.")
	}
	return err
}

// otherName is the name under which a request that gives a topic's id names
// the same topic; nil when it does not.
func otherName(asked []kmsg.DeleteTopicsRequestTopic, img *meta.Image, id kafka.TopicID) *string {
	for i := range asked {
		if n := asked[i].Topic; n != nil {
			if t, ok := img.Topic(*n); ok && t.ID == id {
				return n
			}
		}
	}
	return nil
}
