package api

// Heartbeat, key 12, versions 0-4.
//
//	v3   static members (KIP-345)
//
// While the coordinator loads a heartbeat is answered without an error, as by
// Apache Kafka: sessions begin anew when the load ends.

import (
	"context"
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func (a *API) heartbeat(ctx context.Context, r *server.Request, req *kmsg.HeartbeatRequest, resp *kmsg.HeartbeatResponse) error {
	err := a.mayRead(r, req.Group)
	if err == nil {
		err = answer(ctx, a, req.Group, &group.Heartbeat{Req: req}, resp)
	}
	if err != nil && !errors.Is(err, kerr.CoordinatorLoadInProgress) {
		resp.ErrorCode = a.code(err)
	}
	return nil
}
