package otlp

import (
	"errors"

	metricspb "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	// maxMessages bounds the messages in one push: an empty one takes two bytes on
	// the wire and a hundred and more in memory. What clients of Kafka send has seven
	// for each metric: in 1 MiB, the default of telemetry.max.bytes, some 60000.
	maxMessages = 100_000
	// maxDepth is deeper than MetricsData goes; only values of attributes nest
	// without bound.
	maxDepth = 12
)

var (
	errMessages = errors.New("too many messages in one push")
	errDepth    = errors.New("messages nest too deep")
	errWire     = errors.New("not protobuf")
)

var metricsData = (*metricspb.MetricsData)(nil).ProtoReflect().Descriptor()

// decode reads MetricsData. The bounds are checked on the bytes, before the
// library takes memory for what they say.
func decode(b []byte) (*metricspb.MetricsData, error) {
	left := maxMessages
	if err := survey(b, metricsData, maxDepth, &left); err != nil {
		return nil, err
	}
	out := new(metricspb.MetricsData)
	err := proto.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxDepth + 1}.Unmarshal(b, out)
	return out, err
}

// survey counts the messages in b, which is one of d's kind.
func survey(b []byte, d protoreflect.MessageDescriptor, depth int, left *int) error {
	for len(b) > 0 {
		num, kind, n := protowire.ConsumeTag(b)
		if n < 0 || kind == protowire.StartGroupType || kind == protowire.EndGroupType {
			return errWire
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(num, kind, b); n < 0 {
			return errWire
		}
		f := d.Fields().ByNumber(num)
		if kind == protowire.BytesType && f != nil && f.Message() != nil {
			if *left--; *left < 0 {
				return errMessages
			}
			if depth == 0 {
				return errDepth
			}
			inner, _ := protowire.ConsumeBytes(b)
			if err := survey(inner, f.Message(), depth-1, left); err != nil {
				return err
			}
		}
		b = b[n:]
	}
	return nil
}
