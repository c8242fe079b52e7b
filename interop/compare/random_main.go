//go:build interop

package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// randomOptions are the flags of random runs.
type randomOptions struct {
	requests, from, to, stop int
	seed                     uint64
	only                     string
	shrink, differences, all bool
}

func randomFlags() *randomOptions {
	o := new(randomOptions)
	flag.IntVar(&o.requests, "random", 0, "send so many random administrative requests to brokers that it empties before")
	flag.Uint64Var(&o.seed, "seed", 0, "of random requests; 0 is a new one")
	flag.IntVar(&o.from, "from", 0, "the first random request that is sent")
	flag.IntVar(&o.to, "to", -1, "the last random request that is sent")
	flag.StringVar(&o.only, "only", "", "numbers of random requests, with commas between")
	flag.IntVar(&o.stop, "stop", 20, "end a random run after so many differences")
	flag.BoolVar(&o.shrink, "shrink", false, "look for the fewest random requests that show the first difference")
	flag.BoolVar(&o.all, "all", false, "fail when a key of the random requests is not served")
	flag.BoolVar(&o.differences, "differences", false, "print the document of accepted differences")
	return o
}

func (o *randomOptions) wanted() bool {
	return o.requests > 0 || o.to >= 0 || o.only != "" || o.differences
}

func (o *randomOptions) run(a, b string, verbose bool) int {
	if o.differences {
		fmt.Print(differencesPage())
		return 0
	}
	if o.seed == 0 {
		o.seed = rand.Uint64() >> 1
	}
	numbers, err := o.numbers()
	if err == nil {
		err = o.play(a, b, numbers, verbose)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "compare:", err)
		return 1
	}
	return 0
}

func (o *randomOptions) numbers() (out []int, err error) {
	if o.only != "" {
		for _, text := range strings.Split(o.only, ",") {
			n, err := strconv.Atoi(text)
			if err != nil {
				return nil, fmt.Errorf("-only: %w", err)
			}
			out = append(out, n)
		}
		return out, nil
	}
	last := o.to
	if last < 0 {
		last = o.from + o.requests - 1
	}
	for n := o.from; n <= last; n++ {
		out = append(out, n)
	}
	return out, nil
}

func (o *randomOptions) play(a, b string, numbers []int, verbose bool) error {
	fmt.Printf("random requests: -seed %d, %d of them\n", o.seed, len(numbers))
	r, err := newRandomRun(a, b, o.seed, os.Stdout)
	if err != nil {
		return err
	}
	defer r.close()
	r.verbose = verbose
	missing := r.missing()
	if len(missing) > 0 {
		fmt.Printf("not served by both, and left out: %s\n", strings.Join(missing, ", "))
	}
	if err := r.play(numbers, o.stop); err != nil {
		return err
	}
	r.summary()
	if len(r.differ) == 0 {
		if o.all && len(missing) > 0 {
			return fmt.Errorf("not served by both: %s", strings.Join(missing, ", "))
		}
		return nil
	}
	if o.shrink {
		if err := r.shrink(numbers, r.differ[0]); err != nil {
			return err
		}
	}
	return fmt.Errorf("%d random requests differ", len(r.differ))
}

// missing names the keys of random requests that a broker does not serve.
func (r *randomRun) missing() (out []string) {
	for _, key := range randomKeys {
		if !r.common[key.Int16()] {
			out = append(out, kmsg.NameForKey(key.Int16()))
		}
	}
	return out
}

func (r *randomRun) summary() {
	for _, api := range slices.Sorted(maps.Keys(r.asked)) {
		fmt.Printf("%6d  %s\n", r.asked[api], api)
	}
	fmt.Printf("%d answers were asked for again until both had caught up\n", r.retried)
	for i, d := range accepted {
		fmt.Printf("accepted %5d lines: %s: %s\n", r.met[i], d.api, d.what)
	}
}

// shrink looks for the fewest requests after which the difference is still
// there: first the shortest stretch before it, then without each.
func (r *randomRun) shrink(numbers []int, d difference) error {
	r.silent, r.out = true, io.Discard
	still := func(n []int) bool {
		if err := r.play(n, 1); err != nil {
			return false
		}
		return len(r.differ) > 0 && r.differ[0].number == d.number && sameLines(r.differ[0].lines, d.lines)
	}
	kept := numbers[:slices.Index(numbers, d.number)+1]
	for share := 1; share < len(kept); share *= 2 {
		if less := kept[len(kept)-share:]; still(less) {
			kept = less
			break
		}
	}
	for step := max(1, len(kept)/2); step >= 1; step /= 2 {
		for i := 0; i+step < len(kept); {
			if less := slices.Delete(slices.Clone(kept), i, i+step); still(less) {
				kept = less
				continue
			}
			i += step
		}
	}
	var text []string
	for _, n := range kept {
		text = append(text, strconv.Itoa(n))
	}
	fmt.Printf("the first difference needs -seed %d -only %s\n", r.seed, strings.Join(text, ","))
	return nil
}

func sameLines(a, b []line) bool {
	return slices.EqualFunc(a, b, func(x, y line) bool { return x.side == y.side && x.text == y.text })
}

// randomKeys are the requests that a random run is about.
var randomKeys = []kmsg.Key{
	kmsg.CreateTopics, kmsg.DeleteTopics, kmsg.CreatePartitions, kmsg.DeleteRecords, kmsg.DescribeConfigs, kmsg.AlterConfigs,
	kmsg.IncrementalAlterConfigs, kmsg.ListConfigResources, kmsg.DescribeCluster, kmsg.DescribeTopicPartitions, kmsg.Metadata,
	kmsg.DescribeLogDirs, kmsg.AlterReplicaLogDirs, kmsg.DescribeProducers, kmsg.UpdateFeatures, kmsg.ListOffsets, kmsg.UnregisterBroker,
	kmsg.GetTelemetrySubscriptions, kmsg.PushTelemetry, kmsg.OffsetDelete, kmsg.DeleteGroups, kmsg.DescribeGroups, kmsg.ListGroups,
	kmsg.ApiVersions, kmsg.FindCoordinator, kmsg.Produce, kmsg.OffsetCommit,
}
