package api

// FindCoordinator, key 10, versions 0-6.
//
//	v1   key types: 0 group, 1 transactional id
//	v4   several keys in one request (KIP-699)
//	v6   key type 2, share groups (KIP-932)
//
// The first question for a group makes __consumer_offsets, and is answered when
// the partitions that this broker leads do. Transactions have no coordinator
// yet, and the answer says so: UNSUPPORTED_VERSION, which producers report at
// once, where COORDINATOR_NOT_AVAILABLE would have them ask for ever.

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) findCoordinator(ctx context.Context, r *server.Request, req *kmsg.FindCoordinatorRequest, resp *kmsg.FindCoordinatorResponse) error {
	if req.Version < 4 {
		c := a.coordinator(ctx, r, req, req.CoordinatorKey)
		resp.NodeID, resp.Host, resp.Port = c.NodeID, c.Host, c.Port
		resp.ErrorCode, resp.ErrorMessage = c.ErrorCode, c.ErrorMessage
		return nil
	}
	for _, key := range req.CoordinatorKeys {
		resp.Coordinators = append(resp.Coordinators, a.coordinator(ctx, r, req, key))
	}
	return nil
}

func (a *API) coordinator(ctx context.Context, r *server.Request, req *kmsg.FindCoordinatorRequest, key string) kmsg.FindCoordinatorResponseCoordinator {
	out := kmsg.NewFindCoordinatorResponseCoordinator()
	out.Key, out.NodeID, out.Port = key, -1, -1
	err := a.locate(ctx, r, req, key, &out)
	if err != nil {
		out.ErrorCode, out.ErrorMessage = a.code(err), message(err)
	}
	return out
}

// locate fills in the coordinator of a key.
func (a *API) locate(ctx context.Context, r *server.Request, req *kmsg.FindCoordinatorRequest, key string, out *kmsg.FindCoordinatorResponseCoordinator) error {
	switch {
	case req.CoordinatorType == 0 && !a.allow(r, acl.Describe, acl.Group, key):
		return kerr.GroupAuthorizationFailed
	case req.CoordinatorType == 1 && !a.allow(r, acl.Describe, acl.TransactionalID, key):
		return kerr.TransactionalIDAuthorizationFailed
	case req.CoordinatorType == 1:
		return refusal(kerr.UnsupportedVersion, "This broker does not coordinate transactions.")
	case req.CoordinatorType != 0:
		return kerr.InvalidRequest // also share groups: nothing of them is served
	}
	ctx, cancel := context.WithTimeout(ctx, a.Limits.RequestTimeout)
	defer cancel()
	node, err := a.Groups.Coordinator(ctx, key)
	if errors.Is(err, context.DeadlineExceeded) {
		err = kerr.CoordinatorNotAvailable
	}
	if err != nil {
		return err
	}
	b, ok := a.Image().Broker(node)
	if !ok {
		return kerr.CoordinatorNotAvailable
	}
	host, port, ok := address(b, r.Conn.Listener)
	if !ok {
		return kerr.CoordinatorNotAvailable
	}
	out.NodeID, out.Host, out.Port = int32(node), host, port
	none := "NONE"
	out.ErrorMessage = &none // as Apache Kafka says it
	return nil
}
