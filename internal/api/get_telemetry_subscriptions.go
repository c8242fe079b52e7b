package api

// GetTelemetrySubscriptions, key 71, version 0 (KIP-714). Apache Kafka tells of
// this key and the next only with a plug-in that takes what is pushed; here it
// always is, and shown on /metrics.

import (
	"context"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/storage"
)

// pushCodecs are what clients may compress with, the best first.
var pushCodecs = []int8{int8(batch.Zstd), int8(batch.LZ4), int8(batch.Gzip), int8(batch.Snappy)}

func (a *API) getTelemetrySubscriptions(_ context.Context, r *server.Request, req *kmsg.GetTelemetrySubscriptionsRequest, resp *kmsg.GetTelemetrySubscriptionsResponse) error {
	id := req.ClientInstanceID
	if id == ([16]byte{}) {
		id = storage.NewUUID()
	}
	desk, done := a.atDesk()
	asked, isNew, err := desk.Get(a.Now().UnixMilli(), r.Conn.ID, pusher(r, id))
	done()
	if isNew {
		a.whenHungUp(r.Conn)
	}
	if err != nil {
		resp.ErrorCode = a.code(err)
		return nil
	}
	resp.ClientInstanceID, resp.SubscriptionID = id, asked.ID
	resp.AcceptedCompressionTypes = pushCodecs
	resp.PushIntervalMillis = asked.IntervalMs
	resp.TelemetryMaxBytes = int32(a.Telemetry.MaxBytes)
	resp.DeltaTemporality = true
	resp.RequestedMetrics = asked.Metrics
	return nil
}
