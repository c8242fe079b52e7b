package api

// FindCoordinator, key 10, versions 0-6.
//
//	v1   key types: 0 group, 1 transactional id
//	v4   several keys in one request (KIP-699)
//	v6   key type 2, share groups (KIP-932)
//
// There are no coordinators yet, and the answer says so: UNSUPPORTED_VERSION,
// which consumers and transactional producers report at once, where
// COORDINATOR_NOT_AVAILABLE would have them ask for ever. The key is served
// before that because librdkafka takes a broker without it for one that cannot
// read lz4, and stores plain batches instead.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) findCoordinator(_ context.Context, r *server.Request, req *kmsg.FindCoordinatorRequest, resp *kmsg.FindCoordinatorResponse) error {
	if req.Version < 4 {
		err := a.noCoordinator(r, req, req.CoordinatorKey)
		resp.NodeID, resp.Port = -1, -1
		resp.ErrorCode, resp.ErrorMessage = a.code(err), message(err)
		return nil
	}
	for _, key := range req.CoordinatorKeys {
		err := a.noCoordinator(r, req, key)
		out := kmsg.NewFindCoordinatorResponseCoordinator()
		out.Key, out.NodeID, out.Port = key, -1, -1
		out.ErrorCode, out.ErrorMessage = a.code(err), message(err)
		resp.Coordinators = append(resp.Coordinators, out)
	}
	return nil
}

// noCoordinator is why a key has no coordinator.
func (a *API) noCoordinator(r *server.Request, req *kmsg.FindCoordinatorRequest, key string) error {
	switch {
	case req.CoordinatorType == 0 && !a.allow(r, acl.Describe, acl.Group, key):
		return kerr.GroupAuthorizationFailed
	case req.CoordinatorType == 0:
		return refusal(kerr.UnsupportedVersion, "This broker does not coordinate consumer groups.")
	case req.CoordinatorType == 1 && !a.allow(r, acl.Describe, acl.TransactionalID, key):
		return kerr.TransactionalIDAuthorizationFailed
	case req.CoordinatorType == 1:
		return refusal(kerr.UnsupportedVersion, "This broker does not coordinate transactions.")
	}
	return kerr.InvalidRequest // also share groups: nothing of them is served
}
