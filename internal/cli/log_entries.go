package cli

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/checkpoint"
	"github.com/barnabas-mq/barnabas/internal/storage/epochs"
	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
)

// mostEntries bounds the files that are read whole: an index is at most as
// large as a segment.
const mostEntries = 1 << 30

func readAll(name string, in io.Reader) ([]byte, error) {
	b, err := io.ReadAll(io.LimitReader(in, mostEntries+1))
	if err == nil && len(b) > mostEntries {
		err = fmt.Errorf("%s is longer than any such file", name)
	}
	return b, err
}

// baseOf is the base offset in a segment file's name.
func baseOf(name string) (int64, error) {
	base, _, ok := segment.ParseName(filepath.Base(name))
	if !ok {
		return 0, usagef("%s: the name must be the base offset in twenty digits", name)
	}
	return base, nil
}

// rest is what is wrong with a file that ends within an entry.
func tornEntry(name string, rest int) error {
	if rest == 0 {
		return nil
	}
	return fmt.Errorf("%s: damage: %d bytes after the last entry", name, rest)
}

func (d *dumper) offsetIndex(name string, in io.Reader) error {
	base, err := baseOf(name)
	if err != nil {
		return err
	}
	b, err := readAll(name, in)
	if err != nil {
		return err
	}
	all, rest := segment.OffsetEntries(base, b)
	for _, e := range all {
		if d.wants(e.Offset, e.Offset, d.producer) {
			d.line(struct {
				Offset   int64 `json:"offset"`
				Position int64 `json:"position"`
			}{e.Offset, e.Position}, "offset %d position %d\n", e.Offset, e.Position)
		}
	}
	return tornEntry(name, rest)
}

func (d *dumper) timeIndex(name string, in io.Reader) error {
	base, err := baseOf(name)
	if err != nil {
		return err
	}
	b, err := readAll(name, in)
	if err != nil {
		return err
	}
	all, rest := segment.TimeEntries(base, b)
	for _, e := range all {
		if d.wants(e.Offset, e.Offset, d.producer) {
			d.line(struct {
				Timestamp int64 `json:"timestamp"`
				Offset    int64 `json:"offset"`
			}{e.Timestamp, e.Offset}, "time %d offset %d\n", e.Timestamp, e.Offset)
		}
	}
	return tornEntry(name, rest)
}

func (d *dumper) txnIndex(name string, in io.Reader) error {
	b, err := readAll(name, in)
	if err != nil {
		return err
	}
	all, rest := segment.AbortedEntries(b)
	for _, a := range all {
		if d.wants(a.First, a.Last, a.ProducerID) {
			d.line(struct {
				ProducerID  int64 `json:"producerId"`
				FirstOffset int64 `json:"firstOffset"`
				LastOffset  int64 `json:"lastOffset"`
				LastStable  int64 `json:"lastStableOffset"`
			}{a.ProducerID, a.First, a.Last, a.LastStable}, "producer %d aborted offsets %d-%d last stable %d\n", a.ProducerID, a.First, a.Last, a.LastStable)
		}
	}
	return tornEntry(name, rest)
}

func (d *dumper) snapshot(name string, in io.Reader) error {
	b, err := readAll(name, in)
	if err != nil {
		return err
	}
	all, err := producers.Decode(name, b)
	slices.SortFunc(all, func(a, b producers.Entry) int { return cmp.Compare(a.ProducerID, b.ProducerID) })
	for _, e := range all {
		last, some := e.Last()
		first := int32(producers.None)
		if some {
			first = last.FirstSeq()
		}
		if d.producer >= 0 && d.producer != e.ProducerID {
			continue
		}
		d.line(struct {
			ProducerID       int64 `json:"producerId"`
			Epoch            int16 `json:"producerEpoch"`
			CoordinatorEpoch int32 `json:"coordinatorEpoch"`
			LastTimestamp    int64 `json:"lastTimestamp"`
			FirstSequence    int32 `json:"firstSequence"`
			LastSequence     int32 `json:"lastSequence"`
			LastOffset       int64 `json:"lastOffset"`
			OffsetDelta      int32 `json:"offsetDelta"`
			TxnFirstOffset   int64 `json:"currentTxnFirstOffset"`
		}{e.ProducerID, e.Epoch, e.CoordinatorEpoch, e.LastTimestampMs, first, last.LastSeq, last.LastOffset, last.OffsetDelta, e.TxnFirstOffset},
			"producer %d epoch %d coordinator epoch %d time %d sequences %d-%d last offset %d open transaction %d\n",
			e.ProducerID, e.Epoch, e.CoordinatorEpoch, e.LastTimestampMs, first, last.LastSeq, last.LastOffset, e.TxnFirstOffset)
	}
	return err
}

func (d *dumper) checkpoint(name string, in io.Reader) error {
	b, err := readAll(name, in)
	if err != nil {
		return err
	}
	if filepath.Base(name) == epochs.FileName {
		return checkpoint.ParseLines(name, b, 2, func(line int, f []string) error {
			epoch, err := checkpoint.ParseNumber(name, line, "epoch", f[0], 32, 0)
			if err != nil {
				return err
			}
			start, err := checkpoint.ParseNumber(name, line, "offset", f[1], 64, 0)
			if err == nil {
				d.line(struct {
					Epoch int64 `json:"leaderEpoch"`
					Start int64 `json:"startOffset"`
				}{epoch, start}, "leader epoch %d from offset %d\n", epoch, start)
			}
			return err
		})
	}
	offsets, err := checkpoint.Parse(name, b)
	order := slices.SortedFunc(maps.Keys(offsets), func(a, b kafka.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	for _, tp := range order {
		d.line(struct {
			Topic     string `json:"topic"`
			Partition int32  `json:"partition"`
			Offset    int64  `json:"offset"`
		}{tp.Topic, tp.Partition, offsets[tp]}, "%s offset %d\n", tp, offsets[tp])
	}
	return err
}

// line prints an entry: v as JSON or YAML, else by the format.
func (d *dumper) line(v any, format string, args ...any) {
	if d.output != "table" {
		d.object(v)
		return
	}
	_, _ = fmt.Fprintf(d.out, format, args...) // a failed write shows when the writer is flushed
}
