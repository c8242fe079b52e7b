package api

// SyncGroup, key 14, versions 0-5.
//
//	v3   static members (KIP-345)
//	v5   protocol type and name are compared, and answered (KIP-559)
//
// While the coordinator loads the answer is REBALANCE_IN_PROGRESS, as Apache
// Kafka's: the member joins again.

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) syncGroup(ctx context.Context, r *server.Request, req *kmsg.SyncGroupRequest, resp *kmsg.SyncGroupResponse) error {
	err := error(kerr.InconsistentGroupProtocol)
	if req.Version < 5 || req.ProtocolType != nil && req.Protocol != nil {
		err = a.mayRead(r, req.Group)
	}
	if err == nil {
		err = answer(ctx, a, req.Group, &group.SyncGroup{Req: req, Release: r.Release}, resp)
	}
	if errors.Is(err, kerr.CoordinatorLoadInProgress) {
		err = kerr.RebalanceInProgress
	}
	if err != nil {
		resp.ErrorCode = a.code(err)
	}
	return nil
}
