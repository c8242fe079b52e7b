package api

import (
	"context"
	"net"
	"slices"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/storage"
)

// Groups is the group coordinator of this broker. Errors wrap *kerr.Error:
// NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE.
type Groups interface {
	// Do hands a command to the machine that has a group, and waits for its reply.
	Do(ctx context.Context, id string, cmd coord.Command) (any, error)
	// Each hands a command to every machine that this broker runs; the replies
	// are in no order.
	Each(ctx context.Context, cmd coord.Command) ([]any, error)
	// Coordinator is the broker that coordinates a group. The internal topic is
	// made when there is none.
	Coordinator(ctx context.Context, id string) (kafka.NodeID, error)
	// ConsumerEnabled: the configuration wants the consumer protocol (KIP-848).
	ConsumerEnabled() bool
}

// consumerServed refuses the consumer protocol where it is not served, which
// takes its feature too. Which features there are is not known before the
// metadata is: a client that heard of none would give up for good.
func (a *API) consumerServed() error {
	img := a.Image()
	levels, _ := img.Features()
	switch {
	case a.Groups.ConsumerEnabled() && levels[meta.FeatureGroup] >= 1:
		return nil
	case unknown(img):
		return kerr.CoordinatorNotAvailable
	}
	return kerr.UnsupportedVersion
}

// mayRead refuses requests of members: an id, and READ on the group.
func (a *API) mayRead(r *server.Request, id string) error {
	if !a.allow(r, acl.Read, acl.Group, id) {
		return kerr.GroupAuthorizationFailed
	}
	if id == "" {
		return kerr.InvalidGroupID
	}
	return nil
}

func (a *API) mayDescribe(r *server.Request, id string) error {
	if !a.allow(r, acl.Describe, acl.Group, id) {
		return kerr.GroupAuthorizationFailed
	}
	return nil
}

// client is who speaks, as describing a group shows it.
func client(r *server.Request) group.Client {
	host := r.Conn.Remote.String()
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return group.Client{ID: r.ClientID, Host: "/" + host}
}

// newMemberID is an id for a member that has none.
func newMemberID(r *server.Request, instance *string) string {
	name := r.ClientID
	if instance != nil {
		name = *instance
	}
	return name + "-" + storage.NewUUID().String()
}

// once leaves out the groups that a request repeats: each is answered once, or a
// few bytes of request could be answered with all that a group has, any number of times.
func once(ids []string) []string {
	seen := make(map[string]bool, len(ids))
	return slices.DeleteFunc(ids, func(id string) bool {
		again := seen[id]
		seen[id] = true
		return again
	})
}

// answer hands a command to a group's machine, and copies the reply to resp.
func answer[R any](ctx context.Context, a *API, id string, cmd coord.Command, resp *R) error {
	reply, err := a.Groups.Do(ctx, id, cmd)
	if err != nil {
		return err
	}
	whole, isResponse := any(resp).(kmsg.Response)
	var version int16
	if isResponse {
		version = whole.GetVersion()
	}
	*resp = *reply.(*R)
	if isResponse {
		whole.SetVersion(version)
	}
	return nil
}
