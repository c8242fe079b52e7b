package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
)

// position is where consuming begins, as -o gives it.
type position struct {
	kind positionKind
	n    int64 // offset, records before the end, or milliseconds since 1970
}

type positionKind int8

const (
	atStart positionKind = iota
	atEnd
	atOffset
	beforeEnd
	atTime
)

// parsePosition reads beginning, end, N, -N, or @ and a time.
func parsePosition(s string) (position, error) {
	switch s {
	case "beginning", "earliest", "start":
		return position{kind: atStart}, nil
	case "end", "latest":
		return position{kind: atEnd}, nil
	}
	if at, ok := strings.CutPrefix(s, "@"); ok {
		if ms, err := strconv.ParseInt(at, 10, 64); err == nil && ms >= 0 {
			return position{atTime, ms}, nil
		}
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
			if t, err := time.ParseInLocation(layout, at, time.Local); err == nil {
				return position{atTime, t.UnixMilli()}, nil
			}
		}
		return position{}, fmt.Errorf("%q is not a time: milliseconds since 1970, or 2006-01-02T15:04:05Z", at)
	}
	n, err := strconv.ParseInt(s, 10, 64)
	switch {
	case err != nil:
		return position{}, fmt.Errorf("%q is not beginning, end, an offset, -N for the last N, or @time", s)
	case n < 0:
		return position{beforeEnd, -n}, nil
	}
	return position{atOffset, n}, nil
}

// span is what to read of a partition: from start to end, which is left out.
type span struct{ start, end int64 }

// spans resolves the position for the partitions, all of the topic where none
// is named. The ends are what was committed at the time of asking.
func spans(ctx context.Context, adm *kadm.Client, d kadm.TopicDetail, partitions []int32, pos position) (map[int32]span, error) {
	starts, err := adm.ListStartOffsets(ctx, d.Topic)
	if err != nil {
		return nil, err
	}
	ends, err := adm.ListCommittedOffsets(ctx, d.Topic)
	if err != nil {
		return nil, err
	}
	var times kadm.ListedOffsets
	if pos.kind == atTime {
		if times, err = adm.ListOffsetsAfterMilli(ctx, pos.n, d.Topic); err != nil {
			return nil, err
		}
	}
	if len(partitions) == 0 {
		partitions = d.Partitions.Numbers()
	}
	out := map[int32]span{}
	for _, p := range partitions {
		start, _ := starts.Lookup(d.Topic, p)
		end, ok := ends.Lookup(d.Topic, p)
		switch {
		case !ok:
			return nil, usagef("--partition: topic %s has the partitions 0 to %d", d.Topic, len(d.Partitions)-1)
		case start.Err != nil:
			return nil, fmt.Errorf("partition %d of %s: %w", p, d.Topic, start.Err)
		case end.Err != nil:
			return nil, fmt.Errorf("partition %d of %s: %w", p, d.Topic, end.Err)
		}
		s := span{start.Offset, end.Offset}
		switch pos.kind {
		case atEnd:
			s.start = end.Offset
		case beforeEnd:
			s.start = max(start.Offset, end.Offset-pos.n)
		case atOffset:
			if pos.n < start.Offset || pos.n > end.Offset {
				return nil, fmt.Errorf("partition %d of %s holds the offsets %d to %d, not %d", p, d.Topic, start.Offset, end.Offset-1, pos.n)
			}
			s.start = pos.n
		case atTime:
			s.start = end.Offset
			if t, ok := times.Lookup(d.Topic, p); ok && t.Err == nil && t.Offset >= 0 {
				s.start = t.Offset
			}
		}
		out[p] = s
	}
	return out, nil
}
