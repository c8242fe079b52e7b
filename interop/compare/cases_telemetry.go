//go:build interop

package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func telemetryCases() []testCase {
	return []testCase{{"Telemetry", telemetry}}
}

// telemetry wants telemetry.max.bytes=1000, and of Apache Kafka a plug-in that
// fails on what begins with 0xff.
func telemetry(s *session) {
	get := func(label string, id [16]byte) *kmsg.GetTelemetrySubscriptionsResponse {
		req := kmsg.NewPtrGetTelemetrySubscriptionsRequest()
		req.ClientInstanceID = id
		r, ok := s.do(req).(*kmsg.GetTelemetrySubscriptionsResponse)
		if !ok {
			s.fail("%s: no answer", label)
		}
		s.note("%s: %s, an id: %t, codecs %v, every %d ms, %d bytes, delta %t, metrics %v", label, errName(r.ErrorCode), r.ClientInstanceID != [16]byte{},
			r.AcceptedCompressionTypes, r.PushIntervalMillis, r.TelemetryMaxBytes, r.DeltaTemporality, r.RequestedMetrics)
		if id != [16]byte{} && r.ErrorCode == 0 && id != r.ClientInstanceID {
			s.note("%s: another id", label)
		}
		return r
	}
	push := func(label string, r *kmsg.GetTelemetrySubscriptionsResponse, last bool, codec int8, metrics []byte) {
		req := kmsg.NewPtrPushTelemetryRequest()
		req.ClientInstanceID, req.SubscriptionID, req.Terminating, req.CompressionType, req.Metrics = r.ClientInstanceID, r.SubscriptionID, last, codec, metrics
		a := s.do(req).(*kmsg.PushTelemetryResponse)
		s.note("%s: %s, throttled %d", label, errName(a.ErrorCode), a.ThrottleMillis)
	}
	first := get("first", [16]byte{})
	get("again", first.ClientInstanceID)
	push("push", first, false, 0, nil)
	push("push again", first, false, 0, nil)
	push("early, of another subscription", other(first), false, 0, nil)
	get("after early pushes", first.ClientInstanceID)
	push("the last, of another subscription", other(first), true, 0, nil)
	push("after the last", first, true, 0, nil)
	push("after that", first, false, 0, nil)
	push("and after that", first, false, 0, nil)
	get("after all", first.ClientInstanceID)
	for _, id := range [][16]byte{{}, {15: 1}} {
		push(fmt.Sprintf("id %v", id), &kmsg.GetTelemetrySubscriptionsResponse{ClientInstanceID: id}, false, 0, nil)
	}
	get("id 1", [16]byte{15: 1})
	fresh := byte(0)
	each := func(label string, change func(*kmsg.GetTelemetrySubscriptionsResponse) *kmsg.GetTelemetrySubscriptionsResponse, last bool, codec int8, metrics []byte) {
		s.hangUp()
		fresh++
		r := get(label, [16]byte{0: fresh, 8: byte(len(s.suffix)), 15: 9})
		if change != nil {
			r = change(r)
		}
		push(label, r, last, codec, metrics)
		get(label+", then", r.ClientInstanceID)
		push(label+", then", r, false, codec, metrics)
	}
	each("nothing", nil, false, 0, nil)
	each("empty", nil, false, 0, []byte{})
	each("a message", nil, false, 0, []byte{0x0a, 0})
	each("unreadable", nil, false, 0, []byte{0xff})
	each("unreadable, the last", nil, true, 0, []byte{0xff})
	each("another subscription", other, false, 0, nil)
	for _, codec := range []int8{5, -1, 127} {
		each(fmt.Sprintf("codec %d", codec), nil, false, codec, nil)
	}
	for codec := int8(1); codec <= 4; codec++ {
		each(fmt.Sprintf("codec %d, not compressed", codec), nil, false, codec, []byte("plain text"))
	}
	each("too large", nil, false, 0, make([]byte, 1001))
	each("too large, unknown codec", nil, false, 9, make([]byte, 1001))
	each("too large, another subscription", other, false, 9, make([]byte, 1001))
}

func other(r *kmsg.GetTelemetrySubscriptionsResponse) *kmsg.GetTelemetrySubscriptionsResponse {
	o := *r
	o.SubscriptionID++
	return &o
}
