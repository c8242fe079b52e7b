//go:build interop

package interop

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestKillCommits kills the broker with SIGKILL at random instants while
// groups of Java clients, of librdkafka's and of franz-go commit without a
// pause, by both protocols. No offset that is fetched is ever less than one
// that was acknowledged before, and all of them go on by themselves.
func TestKillCommits(t *testing.T) {
	needProcess(t)
	kills, rnd := killPlan(t, 5, 50)
	dir := workDir(t)
	settings := append([]string{"offsets.topic.num.partitions=10"}, consumerTimes...)
	b := startBroker(t, dir, settings...)
	addr := b.Addr
	topic := createTopic(t, addr, "commits", partitions, nil)
	d := newDiary()
	java, python := startProgram(t, d.take, javaMembers(t), addr, topic), startProgram(t, d.take, pythonMembers(t), addr, topic)
	var members []member
	groups := []string{}
	for name, p := range map[string]*program{"java": java, "librdkafka": python} {
		for _, protocol := range []string{"range", "consumer"} {
			g := name + "-" + protocol + "-" + topic
			groups = append(groups, g)
			for _, m := range []member{{p, d, g, "a"}, {p, d, g, "b"}} {
				m.start(protocol)
				members = append(members, m)
			}
		}
	}
	f := startFeed(t, addr, topic, 1000)
	awaitWork(t, "before the first kill", members...)
	fed := groups
	for i := range 3 {
		g := fmt.Sprintf("franz-%d-%s", i, topic)
		groups = append(groups, g)
		startCommits(t, addr, topic, g, d)
	}
	w := startWatch(t, addr, topic, d, groups, true)
	for i := range kills {
		awaitCommits(t, d, groups)
		pause(time.Duration(rnd.IntN(600)) * time.Millisecond)
		b.kill()
		start := time.Now()
		b = startBrokerAt(t, dir, addr, settings...)
		t.Logf("kill %d: ready again in %v", i+1, time.Since(start).Round(time.Millisecond))
	}
	awaitCommits(t, d, groups)
	awaitWork(t, "after the last kill", members...)
	ends := f.stop(t)
	w.awaitEnds(t, ends, fed)
	w.stop()
	w.mu.Lock()
	t.Logf("committed offsets asked for %d times, none less than acknowledged", w.asked)
	w.mu.Unlock()
	for _, g := range fed {
		d.check(t, g, ends)
	}
	for _, m := range members {
		m.end(t, "stop")
	}
	b.stop()
}

// startCommits commits growing offsets of a group without members, without a
// pause, and writes what was acknowledged into the diary.
func startCommits(t *testing.T, addr, topic, group string, d *diary) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.MetadataMinAge(50*time.Millisecond),
		kgo.RetryBackoffFn(func(int) time.Duration { return 20 * time.Millisecond }))
	if err != nil {
		t.Fatal(err)
	}
	adm := kadm.NewClient(cl)
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		for n := int64(1); ctx.Err() == nil; n++ {
			o := kadm.Offsets{}
			for part := range int32(partitions) {
				o.Add(kadm.Offset{Topic: topic, Partition: part, At: n, LeaderEpoch: -1})
			}
			ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
			got, err := adm.CommitOffsets(ctx, group, o)
			cancel()
			if err != nil {
				continue // the broker is away
			}
			d.mu.Lock()
			for part := range int32(partitions) {
				if r, ok := got.Lookup(topic, part); ok && r.Err == nil {
					d.acknowledge(group, part, n)
				}
			}
			d.commits[group]++
			close(d.change)
			d.change = make(chan struct{})
			d.mu.Unlock()
		}
	})
	t.Cleanup(func() {
		cancel()
		wg.Wait()
		cl.Close()
	})
}

// awaitCommits waits until every group was acknowledged some commits more.
func awaitCommits(t *testing.T, d *diary, groups []string) {
	t.Helper()
	before := map[string]int{}
	d.mu.Lock()
	for _, g := range groups {
		before[g] = d.commits[g]
	}
	d.mu.Unlock()
	for _, g := range groups {
		d.await(t, g+" commits", func() bool { return d.commits[g] > before[g]+2 })
	}
}
