package api

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// resolve finds a topic by id or by name.
func (a *API) resolve(img *meta.Image, byID bool, name string, id kafka.TopicID) (*meta.Topic, error) {
	if unknown(img) {
		return nil, kerr.NotLeaderForPartition // the metadata are not there yet: clients come again
	}
	if byID {
		if t, ok := img.TopicByID(id); ok {
			return t, nil
		}
		return nil, kerr.UnknownTopicID
	}
	if t, ok := img.Topic(name); ok {
		return t, nil
	}
	return nil, kerr.UnknownTopicOrPartition
}

// code translates an error, and logs the ones that have no translation: each
// is a defect or a disk, never a client's doing.
func (a *API) code(err error) int16 {
	c := wire.Code(err)
	if c == kerr.UnknownServerError.Code && !left(err) {
		a.Log.Error("request failed", "err", err)
	}
	return c
}

// left says that whoever asked does not wait any more: its connection is gone,
// or the server is stopping.
func left(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, server.ErrHungUp) || errors.Is(err, server.ErrStopping)
}

// OffsetsTopic holds groups and their offsets.
const OffsetsTopic = "__consumer_offsets"

// IsInternal reports the topics that only the broker writes.
func IsInternal(topic string) bool {
	switch topic {
	case OffsetsTopic, "__transaction_state", "__share_group_state":
		return true
	}
	return false
}
