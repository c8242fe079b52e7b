package cli

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// position is where consuming begins, as -O gives it.
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
		ms, err := parseMoment(at, time.Now())
		return position{atTime, ms}, err
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

// parseMoment reads a time: milliseconds since 1970, a date with or without
// time and zone, or a duration before now such as -1h30m.
func parseMoment(s string, now time.Time) (int64, error) {
	if ms, err := strconv.ParseInt(s, 10, 64); err == nil && ms >= 0 {
		return ms, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d < 0 {
		return now.Add(d).UnixMilli(), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.ParseInLocation(layout, s, time.Local); err == nil {
			return t.UnixMilli(), nil
		}
	}
	return 0, fmt.Errorf("%q is not a time: milliseconds since 1970, 2006-01-02T15:04:05Z, or -1h for an hour ago", s)
}

// span is what to read of a partition: from start to end, which is left out.
type span struct{ start, end int64 }

// bounds say where to begin in each partition and how far to go.
type bounds struct {
	from      position
	until     int64 // milliseconds since 1970; -1: to the end
	committed bool  // to where transactions are decided, not to the high watermark
}

// settling is for how long offsets are asked for again while leaders are elected:
// longer than a session.
const settling = 15 * time.Second

// settled asks until no partition is without its leader, or for so long that this
// is what there is to tell.
func settled(ctx context.Context, ask func() (kadm.ListedOffsets, error)) (kadm.ListedOffsets, error) {
	for until := time.Now().Add(settling); ; {
		got, err := ask()
		if err != nil || !kerr.IsRetriable(got.Error()) || time.Now().After(until) {
			return got, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return got, nil
		}
	}
}

// spans resolves the bounds for partitions of a topic, all where none is named.
// The ends are those at the time of asking.
func (b bounds) spans(ctx context.Context, adm *kadm.Client, d kadm.TopicDetail, partitions []int32, into map[kafka.TopicPartition]span) error {
	var starts, ends, times, untils kadm.ListedOffsets
	list := adm.ListEndOffsets
	if b.committed {
		list = adm.ListCommittedOffsets
	}
	after := func(ms int64) func() (kadm.ListedOffsets, error) {
		return func() (kadm.ListedOffsets, error) { return adm.ListOffsetsAfterMilli(ctx, ms, d.Topic) }
	}
	for _, q := range []struct {
		into *kadm.ListedOffsets
		asks bool
		ask  func() (kadm.ListedOffsets, error)
	}{
		{&starts, true, func() (kadm.ListedOffsets, error) { return adm.ListStartOffsets(ctx, d.Topic) }},
		{&ends, true, func() (kadm.ListedOffsets, error) { return list(ctx, d.Topic) }},
		{&times, b.from.kind == atTime, after(b.from.n)},
		{&untils, b.until >= 0, after(b.until)},
	} {
		if !q.asks {
			continue
		}
		var err error
		if *q.into, err = settled(ctx, q.ask); err != nil {
			return err
		}
	}
	if len(partitions) == 0 {
		partitions = d.Partitions.Numbers()
	}
	for _, p := range partitions {
		start, _ := starts.Lookup(d.Topic, p)
		end, ok := ends.Lookup(d.Topic, p)
		switch {
		case !ok:
			return usagef("--partition: topic %s has the partitions 0 to %d", d.Topic, len(d.Partitions)-1)
		case start.Err != nil:
			return fmt.Errorf("partition %d of %s: %w", p, d.Topic, start.Err)
		case end.Err != nil:
			return fmt.Errorf("partition %d of %s: %w", p, d.Topic, end.Err)
		}
		s := span{start.Offset, end.Offset}
		var err error
		if s.start, err = b.from.in(s, d.Topic, p, listed(times, d.Topic, p)); err != nil {
			return err
		}
		if at := listed(untils, d.Topic, p); at != nil {
			s.end = min(s.end, *at)
		}
		into[kafka.TopicPartition{Topic: d.Topic, Partition: p}] = s
	}
	return nil
}

// in is the position in a partition that holds whole; after is the first
// record at or after its time, if any.
func (pos position) in(whole span, topic string, p int32, after *int64) (int64, error) {
	switch pos.kind {
	case atEnd:
		return whole.end, nil
	case beforeEnd:
		return max(whole.start, whole.end-pos.n), nil
	case atOffset:
		if pos.n < whole.start || pos.n > whole.end {
			return 0, fmt.Errorf("partition %d of %s holds the offsets %d to %d, not %d", p, topic, whole.start, whole.end-1, pos.n)
		}
		return pos.n, nil
	case atTime:
		if after == nil {
			return whole.end, nil
		}
		return *after, nil
	}
	return whole.start, nil
}
