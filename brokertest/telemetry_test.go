package brokertest_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
)

func (p *peer) subscriptions(id [16]byte) *kmsg.GetTelemetrySubscriptionsResponse {
	p.t.Helper()
	req := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
	req.ClientInstanceID = id
	return ask[*kmsg.GetTelemetrySubscriptionsResponse](p, req)
}

func (p *peer) pushMetrics(id [16]byte, subscription int32, last bool, codec int8, metrics []byte) int16 {
	p.t.Helper()
	req := kmsg.NewPtrPushTelemetryRequest()
	req.ClientInstanceID, req.SubscriptionID, req.Terminating, req.CompressionType, req.Metrics = id, subscription, last, codec, metrics
	return ask[*kmsg.PushTelemetryResponse](p, req).ErrorCode
}

// A client without a matching subscription gets an id, an empty list and the
// default interval, which it is held to.
func TestTelemetryWithoutSubscriptions(t *testing.T) {
	b := brokertest.Start(t, brokertest.Set("telemetry.max.bytes", "1000"))
	p := dial(t, b)
	r := p.subscriptions([16]byte{})
	wantCode(t, "first", r.ErrorCode, nil)
	if r.ClientInstanceID == ([16]byte{}) || len(r.RequestedMetrics) != 0 || r.PushIntervalMillis != 300000 || r.TelemetryMaxBytes != 1000 ||
		!r.DeltaTemporality || !slices.Equal(r.AcceptedCompressionTypes, []int8{4, 3, 1, 2}) {
		t.Errorf("answer %+v", r)
	}
	early := p.subscriptions(r.ClientInstanceID)
	wantCode(t, "again at once", early.ErrorCode, kerr.ThrottlingQuotaExceeded)
	if early.ClientInstanceID != ([16]byte{}) || len(early.AcceptedCompressionTypes) != 0 || early.DeltaTemporality {
		t.Errorf("refusal %+v", early)
	}
	other := p.subscriptions([16]byte{}).ClientInstanceID
	if other == r.ClientInstanceID || other == ([16]byte{}) {
		t.Errorf("two clients are %v and %v", r.ClientInstanceID, other)
	}
	wantCode(t, "nobody's id", p.pushMetrics([16]byte{}, 0, false, 0, nil), kerr.InvalidRequest)
	wantCode(t, "a reserved id", p.pushMetrics([16]byte{15: 1}, 0, false, 0, nil), kerr.InvalidRequest)

	// Each of these is its client's first push, for which nobody waits.
	push := func(subscription int32, codec int8, metrics []byte) int16 {
		q := dial(t, b)
		r := q.subscriptions([16]byte{})
		return q.pushMetrics(r.ClientInstanceID, r.SubscriptionID+subscription, false, codec, metrics)
	}
	wantCode(t, "nothing pushed", push(0, 0, nil), nil)
	wantCode(t, "empty metrics", push(0, 0, []byte{0x0a, 0}), nil)
	wantCode(t, "another subscription", push(1, 0, nil), kerr.UnknownSubscriptionID)
	wantCode(t, "codec 5", push(0, 5, nil), kerr.UnsupportedCompressionType)
	wantCode(t, "codec -1", push(0, -1, nil), kerr.UnsupportedCompressionType)
	wantCode(t, "too large", push(0, 0, make([]byte, 1001)), kerr.TelemetryTooLarge)
	wantCode(t, "no protobuf", push(0, 0, []byte{0xff}), kerr.InvalidRecord)
	wantCode(t, "not compressed", push(0, 4, []byte("zstd")), kerr.InvalidRecord)
	wantCode(t, "opens to too much", push(0, 2, snappyZeros()), kerr.InvalidRecord)
}

// snappyZeros is a snappy block of some hundred bytes that opens to 8 KiB.
func snappyZeros() []byte {
	b := []byte{0x80, 0x40, 0x00, 0x00} // the size, and a literal of one zero
	return append(b, bytes.Repeat([]byte{63<<2 | 2, 1, 0}, 128)...)
}

// A client that ends says so, whenever it is; one that comes back by another
// connection after it hung up asks at once.
func TestTelemetryOfEndingClients(t *testing.T) {
	b := brokertest.Start(t)
	p := dial(t, b)
	r := p.subscriptions([16]byte{})
	wantCode(t, "push", p.pushMetrics(r.ClientInstanceID, r.SubscriptionID, false, 0, nil), nil)
	wantCode(t, "early", p.pushMetrics(r.ClientInstanceID, r.SubscriptionID, false, 0, nil), kerr.ThrottlingQuotaExceeded)
	wantCode(t, "the last", p.pushMetrics(r.ClientInstanceID, r.SubscriptionID, true, 0, nil), nil)
	wantCode(t, "after the last", p.pushMetrics(r.ClientInstanceID, r.SubscriptionID, true, 0, nil), kerr.InvalidRequest)
	p.c.Close()
	q := dial(t, b)
	for q.subscriptions(r.ClientInstanceID).ErrorCode == kerr.ThrottlingQuotaExceeded.Code {
		// The broker may learn of the end after the new connection.
	}
	wantCode(t, "after coming back", q.pushMetrics(r.ClientInstanceID, r.SubscriptionID, false, 0, nil), nil)
}
