package api

import (
	"context"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// Requests that change topics come to any broker, and its image may be a moment
// behind that of the broker which made the topic. Brokers of Apache Kafka hand them
// on to the controller, which knows; here the request waits, when it names a topic
// that the image lacks, until that has all that the metadata store had.

// currentIn is for how long it waits: where the store does not answer, what the
// request wants cannot be done either.
const currentIn = time.Second

// current is a handler that is asked when the image has the topics that named says
// a request names, or is current.
func current[Req, Resp any](a *API, named func(*Req, *meta.Image) (all bool), h handler[Req, Resp]) handler[Req, Resp] {
	return func(ctx context.Context, r *server.Request, req *Req, resp *Resp) error {
		if img := a.Image(); a.CatchUp != nil && !unknown(img) && !named(req, img) {
			brief, cancel := context.WithTimeout(ctx, currentIn)
			a.CatchUp(brief) // or not: the image tells
			cancel()
		}
		return h(ctx, r, req, resp)
	}
}

// allThere: every one of these is a topic of the image.
func allThere[T any](img *meta.Image, of []T, name func(*T) (topic string, id kafka.TopicID)) bool {
	return !slices.ContainsFunc(of, func(t T) bool {
		topic, id := name(&t)
		if id.IsZero() {
			_, there := img.Topic(topic)
			return !there
		}
		_, there := img.TopicByID(id)
		return !there
	})
}

func deletedThere(req *kmsg.DeleteTopicsRequest, img *meta.Image) bool {
	names := !slices.ContainsFunc(req.TopicNames, func(name string) bool {
		_, there := img.Topic(name)
		return !there
	})
	return names && allThere(img, req.Topics, func(t *kmsg.DeleteTopicsRequestTopic) (string, kafka.TopicID) {
		if t.Topic != nil {
			return *t.Topic, kafka.TopicID{}
		}
		return "", t.TopicID
	})
}

func extendedThere(req *kmsg.CreatePartitionsRequest, img *meta.Image) bool {
	return allThere(img, req.Topics, func(t *kmsg.CreatePartitionsRequestTopic) (string, kafka.TopicID) { return t.Topic, kafka.TopicID{} })
}

func electedThere(req *kmsg.ElectLeadersRequest, img *meta.Image) bool {
	return allThere(img, req.Topics, func(t *kmsg.ElectLeadersRequestTopic) (string, kafka.TopicID) { return t.Topic, kafka.TopicID{} })
}

func reassignedThere(req *kmsg.AlterPartitionAssignmentsRequest, img *meta.Image) bool {
	return allThere(img, req.Topics, func(t *kmsg.AlterPartitionAssignmentsRequestTopic) (string, kafka.TopicID) {
		return t.Topic, kafka.TopicID{}
	})
}

func configuredThere(req *kmsg.AlterConfigsRequest, img *meta.Image) bool {
	return !slices.ContainsFunc(req.Resources, func(r kmsg.AlterConfigsRequestResource) bool {
		return lacksTopic(img, r.ResourceType, r.ResourceName)
	})
}

func incrementedThere(req *kmsg.IncrementalAlterConfigsRequest, img *meta.Image) bool {
	return !slices.ContainsFunc(req.Resources, func(r kmsg.IncrementalAlterConfigsRequestResource) bool {
		return lacksTopic(img, r.ResourceType, r.ResourceName)
	})
}

func lacksTopic(img *meta.Image, kind kmsg.ConfigResourceType, name string) bool {
	_, there := img.Topic(name)
	return kind == kmsg.ConfigResourceTypeTopic && !there
}
