package api

// PushTelemetry, key 72, version 0 (KIP-714).

import (
	"context"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/telemetry"
	"github.com/barnabas-mq/barnabas/internal/telemetry/otlp"
)

func (a *API) pushTelemetry(_ context.Context, r *server.Request, req *kmsg.PushTelemetryRequest, resp *kmsg.PushTelemetryResponse) error {
	resp.ErrorCode = a.code(a.push(r, req))
	return nil
}

func (a *API) push(r *server.Request, req *kmsg.PushTelemetryRequest) error {
	c := pusher(r, req.ClientInstanceID)
	desk, done := a.atDesk()
	interval, isNew, err := desk.Push(a.Now().UnixMilli(), r.Conn.ID, c, telemetry.Push{
		SubscriptionID: req.SubscriptionID, Terminating: req.Terminating, Compression: req.CompressionType, Bytes: len(req.Metrics),
	}, a.Telemetry.MaxBytes)
	done()
	if isNew {
		a.whenHungUp(r.Conn)
	}
	if err != nil || len(req.Metrics) == 0 {
		return err
	}
	err = a.Telemetry.Push(otlp.Push{
		Client: c, Interval: time.Duration(interval) * time.Millisecond, Terminating: req.Terminating,
		Codec: batch.Codec(req.CompressionType), Metrics: req.Metrics,
	})
	if err == nil {
		return nil
	}
	desk, done = a.atDesk()
	desk.Invalid(c.ID)
	done()
	return kerr.InvalidRecord
}
