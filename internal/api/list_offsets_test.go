package api

import (
	"fmt"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// That the answer is OFFSET_NOT_AVAILABLE until the new term's start is
// committed is tested in internal/replica; clients below version 5 do not know
// that error.
func TestLIST04NotAvailable(t *testing.T) {
	a := New(Deps{})
	for version := int16(1); version <= 11; version++ {
		want := kerr.OffsetNotAvailable.Code
		if version < 5 {
			want = kerr.LeaderNotAvailable.Code
		}
		if got := a.listCode(version, fmt.Errorf("high watermark: %w", kerr.OffsetNotAvailable)); got != want {
			t.Errorf("v%d: error %d, want %d", version, got, want)
		}
	}
}

// Apache Kafka refuses such a request as a whole, and names what was asked.
func TestListOffsetsIsolationLevel(t *testing.T) {
	req, resp := kmsg.NewPtrListOffsetsRequest(), kmsg.NewPtrListOffsetsResponse()
	req.Version, req.IsolationLevel = 3, 2
	for _, name := range []string{"bare", "twice", "twice"} {
		topic := kmsg.NewListOffsetsRequestTopic()
		topic.Topic = name
		if name == "twice" {
			topic.Partitions = append(topic.Partitions, kmsg.NewListOffsetsRequestTopicPartition())
		}
		req.Topics = append(req.Topics, topic)
	}
	if err := New(Deps{}).listOffsets(t.Context(), nil, req, resp); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, topic := range resp.Topics {
		line := topic.Topic
		for _, p := range topic.Partitions {
			line += fmt.Sprintf(" %d:%d@%d", p.Partition, p.ErrorCode, p.Offset)
		}
		got = append(got, line)
	}
	if want := []string{"bare", "twice 0:42@-1", "twice 0:42@-1"}; !slices.Equal(got, want) {
		t.Errorf("answered %q, want %q", got, want)
	}
}
