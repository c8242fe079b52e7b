package cli

import (
	"context"
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// groupOffset is how far a group has come in one partition; nil is not known.
type groupOffset struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Committed *int64 `json:"committed"`
	End       *int64 `json:"end"`
	Lag       *int64 `json:"lag"`
	// LagSeconds is the age of the oldest record that was not read; 0 where
	// all was.
	LagSeconds *float64 `json:"lagSeconds"`
	Owner      string   `json:"owner,omitempty"` // member
	Metadata   string   `json:"metadata,omitempty"`
}

// committedOffsets are a group's offsets; none where there is no such group.
func committedOffsets(ctx context.Context, adm *kadm.Client, group string) (kadm.OffsetResponses, error) {
	patience, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for {
		found, err := adm.FetchOffsets(ctx, group)
		switch {
		case err == nil, errors.Is(err, kerr.GroupIDNotFound):
			return found, nil
		case !comes(err) || !pause(patience, 100*time.Millisecond):
			return nil, groupRefusal("offsets of", group, err, "")
		}
	}
}

// comes tells whether a coordinator is on its way: the first group of a cluster
// has the topic of offsets made.
func comes(err error) bool {
	return errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.CoordinatorLoadInProgress) || errors.Is(err, kerr.NotCoordinator)
}

// pause waits; false when ctx ends first.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// offsets lists the partitions that the group committed or that a member owns.
func (g *groups) offsets(ctx context.Context, adm *kadm.Client, d describedGroup) ([]groupOffset, error) {
	committed, err := committedOffsets(ctx, adm, d.Group)
	if err != nil {
		return nil, err
	}
	owners := map[string]map[int32]string{}
	all := committed.Partitions()
	for _, m := range d.Members {
		for topic, ps := range m.Assigned {
			all.Add(topic, ps...)
			for _, p := range ps {
				if owners[topic] == nil {
					owners[topic] = map[int32]string{}
				}
				owners[topic][p] = m.ID
			}
		}
	}
	out := []groupOffset{}
	if len(all) == 0 {
		return out, nil
	}
	starts, err := adm.ListStartOffsets(ctx, all.Topics()...)
	if err != nil && len(starts) == 0 {
		return nil, err
	}
	ends, err := adm.ListEndOffsets(ctx, all.Topics()...)
	if err != nil && len(ends) == 0 {
		return nil, err
	}
	unread := map[string]map[int32]span{}
	for _, tp := range all.Sorted() {
		for _, p := range tp.Partitions {
			row := groupOffset{Topic: tp.Topic, Partition: p, Owner: owners[tp.Topic][p], End: listed(ends, tp.Topic, p)}
			if o, ok := committed.Lookup(tp.Topic, p); ok && o.Err == nil && o.At >= 0 {
				row.Committed, row.Metadata = &o.At, o.Metadata
			}
			if row.Committed != nil && row.End != nil {
				row.measure(listed(starts, tp.Topic, p), unread)
			}
			out = append(out, row)
		}
	}
	if len(unread) > 0 {
		return out, g.addAges(ctx, out, unread)
	}
	return out, nil
}

// measure sets the lag, and notes what is unread where only a record can tell its age.
func (o *groupOffset) measure(start *int64, unread map[string]map[int32]span) {
	lag := *o.End - *o.Committed
	o.Lag = &lag
	s := span{*o.Committed, *o.End}
	if start != nil {
		s.start = max(s.start, *start) // what was deleted unread is not there to be read
	}
	if s.start >= s.end {
		o.LagSeconds = new(float64)
		return
	}
	if unread[o.Topic] == nil {
		unread[o.Topic] = map[int32]span{}
	}
	unread[o.Topic][o.Partition] = s
}

func (g *groups) addAges(ctx context.Context, rows []groupOffset, unread map[string]map[int32]span) error {
	found, err := g.oldest(ctx, unread)
	if err != nil {
		return err
	}
	now := time.Now()
	for i := range rows {
		at, ok := found[rows[i].Topic][rows[i].Partition]
		if !ok {
			continue
		}
		age := 0.0
		if !at.IsZero() {
			age = max(0, now.Sub(at).Seconds())
		}
		rows[i].LagSeconds = &age
	}
	return nil
}

// patience is how long the search for the oldest records waits for another one.
const patience = 5 * time.Second

// oldest reads one record of each span, the first, and returns its time: the
// zero time where there is none but marks of transactions. No request gives the
// timestamp of an offset, so the record itself is fetched. Partitions that do not answer are left out.
func (g *groups) oldest(ctx context.Context, unread map[string]map[int32]span) (map[string]map[int32]time.Time, error) {
	from := map[string]map[int32]kgo.Offset{}
	left := 0
	for topic, ps := range unread {
		from[topic] = map[int32]kgo.Offset{}
		for p, s := range ps {
			from[topic][p] = kgo.NoResetOffset().At(s.start)
			left++
		}
	}
	// Enough for a batch of most producers, and a larger one comes all the same.
	k, err := g.open(ctx, kgo.ConsumePartitions(from), kgo.KeepControlRecords(), kgo.FetchMaxPartitionBytes(64<<10), kgo.BrokerMaxReadBytes(1<<30))
	if err != nil {
		return nil, err
	}
	defer k.Close()
	found := map[string]map[int32]time.Time{}
	settle := func(topic string, p int32, at *time.Time) {
		if _, open := from[topic][p]; !open {
			return
		}
		delete(from[topic], p)
		left--
		k.PauseFetchPartitions(map[string][]int32{topic: {p}})
		if at != nil {
			if found[topic] == nil {
				found[topic] = map[int32]time.Time{}
			}
			found[topic][p] = *at
		}
	}
	for left > 0 {
		poll, cancel := context.WithTimeout(ctx, patience)
		fetches := k.PollFetches(poll)
		quiet := poll.Err() != nil
		cancel()
		for it := fetches.RecordIter(); !it.Done(); {
			r := it.Next()
			last := r.Offset >= unread[r.Topic][r.Partition].end-1
			switch {
			case !r.Attrs.IsControl() && r.Timestamp.UnixMilli() < 0: // it has none
				settle(r.Topic, r.Partition, nil)
			case !r.Attrs.IsControl():
				settle(r.Topic, r.Partition, &r.Timestamp)
			case last:
				settle(r.Topic, r.Partition, new(time.Time))
			}
		}
		for _, e := range fetches.Errors() {
			if !errors.Is(e.Err, context.DeadlineExceeded) {
				settle(e.Topic, e.Partition, nil)
			}
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if quiet {
			break
		}
	}
	return found, nil
}
