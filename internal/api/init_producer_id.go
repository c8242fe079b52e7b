package api

// InitProducerId, key 22, versions 0-5, for producers without a transactional
// id (KIP-98, KIP-360). A transactional id is COORDINATOR_NOT_AVAILABLE until
// there is a transaction coordinator; transaction.version 0 says so too.
//
//	v3   a producer may name the id and epoch it has: without a transactional
//	     id it simply gets a new id, as from Apache Kafka

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) initProducerID(ctx context.Context, r *server.Request, req *kmsg.InitProducerIDRequest, resp *kmsg.InitProducerIDResponse) error {
	resp.ProducerID, resp.ProducerEpoch = -1, -1
	id, err := a.newProducerID(ctx, r, req)
	if err != nil {
		resp.ErrorCode = a.code(err)
		return nil
	}
	resp.ProducerID, resp.ProducerEpoch = id, 0
	return nil
}

func (a *API) newProducerID(ctx context.Context, r *server.Request, req *kmsg.InitProducerIDRequest) (int64, error) {
	if (req.ProducerID == -1) != (req.ProducerEpoch == -1) {
		return -1, kerr.InvalidRequest
	}
	if req.TransactionalID != nil {
		switch {
		case *req.TransactionalID == "":
			return -1, kerr.InvalidRequest
		case !a.allow(r, acl.Write, acl.TransactionalID, *req.TransactionalID):
			return -1, kerr.TransactionalIDAuthorizationFailed
		default:
			return -1, kerr.CoordinatorNotAvailable
		}
	}
	if !a.allow(r, acl.IdempotentWrite, acl.Cluster, acl.ClusterName) {
		return -1, kerr.ClusterAuthorizationFailed
	}
	ctx, cancel := context.WithTimeout(ctx, a.Limits.RequestTimeout)
	defer cancel()
	id, err := a.Cluster.ProducerID(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return -1, kerr.CoordinatorLoadInProgress // retried by every client
	}
	return id, err
}
