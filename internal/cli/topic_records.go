package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func (t *topics) deleteRecordsCommand() *cobra.Command {
	var before []string
	var all, yes bool
	c := &cobra.Command{
		Use:   "delete-records TOPIC",
		Short: "Delete the oldest records of a topic's partitions",
		Long: `Delete the records of a topic below an offset: they are never read again, and their
files go as soon as nothing else is in them. --all empties the topic.`,
		Example: "  barnabas topic delete-records orders --before-offset 0:2,1:1\n  barnabas topic delete-records orders --all --yes",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			offsets, err := parseBefore(before)
			if err != nil {
				return err
			}
			if all == (len(offsets) > 0) {
				return usagef("give --before-offset PARTITION:OFFSET,... or --all")
			}
			if all {
				if err := confirm(c, yes, "delete every record of "+args[0]); err != nil {
					return err
				}
			}
			return t.deleteRecords(c, args[0], offsets, all)
		},
		ValidArgsFunction: t.completeOneTopic,
	}
	f := c.Flags()
	f.StringSliceVar(&before, "before-offset", nil, "delete what lies below an offset of a partition: PARTITION:OFFSET,...")
	f.BoolVar(&all, "all", false, "delete every record there is now")
	f.BoolVarP(&yes, "yes", "y", false, "do not ask")
	return c
}

// parseBefore reads PARTITION:OFFSET texts.
func parseBefore(list []string) (map[int32]int64, error) {
	out := map[int32]int64{}
	for _, s := range list {
		p, at, ok := strings.Cut(s, ":")
		partition, err1 := strconv.ParseInt(p, 10, 32)
		offset, err2 := strconv.ParseInt(at, 10, 64)
		if !ok || err1 != nil || err2 != nil || partition < 0 || offset < 0 {
			return nil, usagef("--before-offset %s: write PARTITION:OFFSET, such as 0:4711", s)
		}
		if _, twice := out[int32(partition)]; twice {
			return nil, usagef("--before-offset names the partition %d twice", partition)
		}
		out[int32(partition)] = offset
	}
	return out, nil
}

func (t *topics) deleteRecords(c *cobra.Command, topic string, offsets map[int32]int64, all bool) error {
	k, err := t.open(c.Context())
	if err != nil {
		return err
	}
	defer k.Close()
	adm := kadm.NewClient(k)
	if err := needs(c.Context(), adm, kmsg.NewPtrDeleteRecordsRequest()); err != nil {
		return err
	}
	d, err := oneTopic(c.Context(), k, "delete records of", topic)
	if err != nil {
		return err
	}
	if all {
		for p := range d.Partitions {
			offsets[p] = -1 // what is committed
		}
	}
	for _, p := range slices.Sorted(maps.Keys(offsets)) {
		if _, ok := d.Partitions[p]; !ok {
			return usagef("--before-offset: topic %s has the partitions 0 to %d", topic, len(d.Partitions)-1)
		}
	}
	return t.printDeleted(c, k, topic, offsets)
}

// deletedRecords is where a partition begins now.
type deletedRecords struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Start     int64  `json:"start"`
}

func (t *topics) printDeleted(c *cobra.Command, k *kgo.Client, topic string, offsets map[int32]int64) error {
	done, err := deleteBelow(c.Context(), k, topic, offsets)
	out := []deletedRecords{}
	errs := []error{err}
	for _, p := range slices.Sorted(maps.Keys(offsets)) {
		r, ok := done[p]
		switch {
		case !ok:
		case errors.Is(r.Err, kerr.OffsetOutOfRange):
			errs = append(errs, fmt.Errorf("delete records of %s:%d: the offset %d is above its end (%w); `barnabas topic describe %s` shows it", topic, p, offsets[p], r.Err, topic))
		case r.Err != nil:
			errs = append(errs, refusal("delete records of", fmt.Sprintf("%s:%d", topic, p), r.Err, ""))
		default:
			out = append(out, deletedRecords{topic, p, r.LowWatermark})
		}
	}
	if t.output.draws(len(out)) {
		errs = append(errs, t.output.print(c.OutOrStdout(), out, func(tab *table) {
			tab.row("TOPIC", "PARTITION", "START")
			for _, r := range out {
				tab.row(r.Topic, r.Partition, r.Start)
			}
		}))
	}
	return errors.Join(errs...)
}

func deleteBelow(ctx context.Context, k *kgo.Client, topic string, offsets map[int32]int64) (map[int32]kadm.DeleteRecordsResponse, error) {
	var all kadm.Offsets
	for p, at := range offsets {
		all.Add(kadm.Offset{Topic: topic, Partition: p, At: at})
	}
	done, err := kadm.NewClient(k).DeleteRecords(ctx, all)
	if err != nil {
		err = fmt.Errorf("delete records of %s: %w", topic, err)
	}
	return done[topic], err
}
