//go:build unix

package brokertest_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// place is where a partition's log is, as DescribeLogDirs tells it.
type place struct {
	dir    string
	size   int64
	lag    int64
	future bool
}

// describe gives the places of every partition, by "topic-partition", and the
// directories themselves.
func (p *peer) describe(version int16, topics []kmsg.DescribeLogDirsRequestTopic) (map[string][]place, map[string]kmsg.DescribeLogDirsResponseDir) {
	p.t.Helper()
	req := kmsg.NewPtrDescribeLogDirsRequest()
	req.Version, req.Topics = version, topics
	resp := ask[*kmsg.DescribeLogDirsResponse](p, req)
	wantCode(p.t, "describe log dirs", resp.ErrorCode, nil)
	at, dirs := map[string][]place{}, map[string]kmsg.DescribeLogDirsResponseDir{}
	for _, d := range resp.Dirs {
		dirs[d.Dir] = d
		for _, t := range d.Topics {
			for _, n := range t.Partitions {
				key := fmt.Sprintf("%s-%d", t.Topic, n.Partition)
				at[key] = append(at[key], place{d.Dir, n.Size, n.OffsetLag, n.IsFuture})
			}
		}
	}
	return at, dirs
}

// moveTo asks for a move, and gives the answer's error.
func (p *peer) moveTo(dir, topic string, partition int32) error {
	p.t.Helper()
	resp := ask[*kmsg.AlterReplicaLogDirsResponse](p, moveRequest(dir, topic, partition))
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

func moveRequest(dir, topic string, partition int32) *kmsg.AlterReplicaLogDirsRequest {
	req := kmsg.NewPtrAlterReplicaLogDirsRequest()
	req.Version = 2
	d := kmsg.NewAlterReplicaLogDirsRequestDir()
	d.Dir = dir
	t := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
	t.Topic, t.Partitions = topic, []int32{partition}
	d.Topics = append(d.Topics, t)
	req.Dirs = append(req.Dirs, d)
	return req
}

// awaitMoved asks until the partition is in dir and nowhere else.
func (p *peer) awaitMoved(dir, tp string) {
	p.t.Helper()
	deadline := time.NewTimer(time.Minute)
	defer deadline.Stop()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for {
		at, _ := p.describe(4, nil)
		if ps := at[tp]; len(ps) == 1 && ps[0].dir == dir {
			return
		}
		select {
		case <-again.C:
		case <-deadline.C:
			p.t.Fatalf("%s did not move to %s: %+v", tp, dir, at[tp])
		}
	}
}

func bytesOnDisk(t *testing.T, dir string) (n int64) {
	t.Helper()
	names, err := filepath.Glob(dir + "/*.log")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		fi, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		n += fi.Size()
	}
	return n
}

// Both directories are told with sizes as on disk (UI-01); a log moves between
// them while it is written, with everything that it holds, and is there after
// restarts; a partition that is not there yet is made where it was wished.
func TestLogDirs(t *testing.T) {
	base := t.TempDir()
	one, two := filepath.Join(base, "one"), filepath.Join(base, "two")
	settings := []string{"metadata.log.dir=" + filepath.Join(base, "metadata")}
	b := spawn(t, one+","+two, 0, settings...)
	p := b.dial()
	p.create("t", 4)
	var want []string
	write := func(n int) {
		t.Helper()
		for range n {
			v := fmt.Sprintf("%d %s", len(want), strings.Repeat("x", 1000))
			if out := p.write("t", records(v)); out[0].ErrorCode != 0 {
				t.Fatalf("produce: %s", name(out[0].ErrorCode))
			}
			want = append(want, v)
		}
	}
	write(50)
	p.describedRight()

	at, _ := p.describe(5, nil)
	from, to := one, two
	if at["t-0"][0].dir == two {
		from, to = two, one
	}
	for _, c := range []struct {
		dir, topic string
		partition  int32
		want       *kerr.Error
	}{
		{base, "t", 0, kerr.LogDirNotFound},
		{from, "t", 0, nil}, // it is there
		{to, "t", 9, kerr.UnknownTopicOrPartition},
		{to, strings.Repeat("n", 220), 0, kerr.InvalidTopicException},
		{two, "later", 0, kerr.UnknownTopicOrPartition},
		{two, "later", 1, kerr.UnknownTopicOrPartition},
		{two, "later", 2, kerr.UnknownTopicOrPartition},
	} {
		if err := p.moveTo(c.dir, c.topic, c.partition); c.want == nil && err != nil || c.want != nil && err != c.want {
			t.Errorf("%s-%d to %s: %v, want %v", c.topic, c.partition, c.dir, err, c.want)
		}
	}
	p.create("later", 3)
	if at, _ := p.describe(5, nil); at["later-0"][0].dir != two || at["later-1"][0].dir != two || at["later-2"][0].dir != two {
		t.Errorf("not made where it was wished: %v", at)
	}

	for round := range 4 {
		if err := p.moveTo(to, "t", 0); err != nil {
			t.Fatal(err)
		}
		write(30)
		p.awaitMoved(to, "t-0")
		write(20)
		check := func(when string) {
			t.Helper()
			var got []string
			for at := int64(0); at < int64(len(want)); at = int64(len(got)) {
				got = append(got, values(t, p.read("t", 0, at))...)
			}
			if strings.Join(got, ",") != strings.Join(want, ",") {
				t.Fatalf("round %d, %s: %d values, want %d", round, when, len(got), len(want))
			}
		}
		check("moved")
		if round%2 == 0 {
			b.stop()
		} else {
			b.kill()
		}
		b = spawn(t, one+","+two, 0, settings...)
		p = b.dial()
		check("after a start")
		p.awaitMoved(to, "t-0")
		from, to = to, from
	}
}

// describedRight holds every version of DescribeLogDirs against what is on disk:
// a topic t of four partitions in two directories.
func (p *peer) describedRight() {
	t := p.t
	t.Helper()
	for _, version := range []int16{1, 2, 3, 4, 5} {
		at, dirs := p.describe(version, nil)
		if len(dirs) != 2 || len(at) != 4 {
			t.Fatalf("v%d: %v", version, at)
		}
		for tp, ps := range at {
			if size := bytesOnDisk(t, filepath.Join(ps[0].dir, tp)); len(ps) != 1 || ps[0].size != size || ps[0].lag != 0 {
				t.Errorf("v%d: %s at %+v, %d bytes on disk", version, tp, ps, size)
			}
		}
		for dir, d := range dirs {
			if len(d.Topics[0].Partitions) != 2 || d.ErrorCode != 0 || d.IsCordoned {
				t.Errorf("v%d: %s: %+v", version, dir, d)
			}
			if told := d.TotalBytes > 0 && d.UsableBytes > 0 && d.UsableBytes <= d.TotalBytes; told != (version >= 4) {
				t.Errorf("v%d: %s has %d of %d bytes", version, dir, d.UsableBytes, d.TotalBytes)
			}
		}
	}
	asked := kmsg.NewDescribeLogDirsRequestTopic()
	asked.Topic, asked.Partitions = "t", []int32{1, 77}
	if at, dirs := p.describe(5, []kmsg.DescribeLogDirsRequestTopic{asked}); len(at) != 1 || len(at["t-1"]) != 1 || len(dirs) != 2 {
		t.Errorf("of one partition: %v", at)
	}
	if at, dirs := p.describe(5, []kmsg.DescribeLogDirsRequestTopic{}); len(at) != 0 || len(dirs) != 2 {
		t.Errorf("of nothing: %v", at)
	}
}

// A directory is cordoned, and lifted, while the broker runs, and is as it was
// set after a restart.
func TestDynamicCordon(t *testing.T) {
	base := t.TempDir()
	one, two := filepath.Join(base, "one"), filepath.Join(base, "two")
	settings := []string{"metadata.log.dir=" + filepath.Join(base, "metadata")}
	b := spawn(t, one+","+two, 0, settings...)
	p := b.dial()
	wantAll := func(topic, dir string) {
		t.Helper()
		p.create(topic, 4)
		at, _ := p.describe(5, nil)
		for n := range 4 {
			if tp := fmt.Sprintf("%s-%d", topic, n); at[tp][0].dir != dir {
				t.Errorf("%s is in %s", tp, at[tp][0].dir)
			}
		}
	}
	p.change(ofBroker, "1", "cordoned.log.dirs", &two)
	wantAll("a", one)
	if _, dirs := p.describe(5, nil); dirs[one].IsCordoned || !dirs[two].IsCordoned {
		t.Errorf("cordoned: %v and %v", dirs[one].IsCordoned, dirs[two].IsCordoned)
	}
	if err := p.moveTo(two, "a", 0); err != kerr.InvalidReplicaAssignment {
		t.Errorf("move to a cordoned directory: %v", err)
	}
	if out := p.alter(ofBroker, "", "cordoned.log.dirs", &two, false); out.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("for all brokers: %s", name(out.ErrorCode))
	}
	if out := p.alter(ofBroker, "1", "cordoned.log.dirs", &base, false); out.ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("another directory: %s", name(out.ErrorCode))
	}
	b.stop()
	b = spawn(t, one+","+two, 0, settings...)
	p = b.dial()
	wantAll("b", one)
	p.change(ofBroker, "1", "cordoned.log.dirs", nil)
	wantAll("c", two)
	p.change(ofBroker, "1", "cordoned.log.dirs", text("*"))
	until(t, "no topic is placed here", func() bool { // once the registration says so
		return p.createTopics(7, true, wish("none", 1, 1))[0].ErrorCode == kerr.InvalidReplicationFactor.Code
	})
	if out := p.createTopics(7, false, wish("none", 1, 1))[0]; out.ErrorCode != kerr.InvalidReplicationFactor.Code {
		t.Errorf("with all directories cordoned: %s", name(out.ErrorCode))
	}
}

// Moves stop while replica.alter.log.dirs.io.max.bytes.per.second is 0, and all
// of them go on without it.
func TestDynamicMoveRate(t *testing.T) {
	base := t.TempDir()
	one, two := filepath.Join(base, "one"), filepath.Join(base, "two")
	b := spawn(t, one+","+two, 0, "metadata.log.dir="+filepath.Join(base, "metadata"))
	p := b.dial()
	p.change(ofBroker, "1", "cordoned.log.dirs", &two)
	p.create("t", 3)
	p.change(ofBroker, "1", "cordoned.log.dirs", nil)
	const rate = "replica.alter.log.dirs.io.max.bytes.per.second"
	for _, of := range []string{"", "1"} {
		p.change(ofBroker, of, rate, text("0"))
		for n := range int32(3) {
			if err := p.moveTo(two, "t", n); err != nil {
				t.Fatal(err)
			}
		}
		for range 3 {
			p.write("t", records("v"), records("v"), records("v")) // more than what was copied at once
		}
		at, _ := p.describe(5, nil)
		for n := range 3 {
			tp := fmt.Sprintf("t-%d", n)
			if len(at[tp]) != 2 {
				t.Errorf("%s moved all the same: %+v", tp, at[tp])
			}
		}
		p.change(ofBroker, of, rate, nil)
		for n := range 3 {
			p.awaitMoved(two, fmt.Sprintf("t-%d", n))
		}
		one, two = two, one
	}
}

// Logs move to and fro under load while the broker is killed again and again:
// every acknowledged record is there at the end, once.
func TestKillWhileLogsMove(t *testing.T) {
	const parts, rounds = 4, 8
	base := t.TempDir()
	dirs := []string{filepath.Join(base, "one"), filepath.Join(base, "two")}
	settings := []string{"metadata.log.dir=" + filepath.Join(base, "metadata"), "log.segment.bytes=1048576"}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	b := spawn(t, strings.Join(dirs, ","), 0, settings...)
	b.dial().create("t", parts)
	var acked [parts]atomic.Int64 // values below are acknowledged
	var tried [parts]int64
	moved := 0
	for round := range rounds {
		ctx, cancel := context.WithCancel(t.Context())
		var work sync.WaitGroup
		for n := range int32(parts) {
			work.Go(func() { load(ctx, b.addr, n, &acked[n], &tried[n]) })
		}
		p := b.dial()
		kill := time.NewTimer(time.Duration(300+rng.IntN(700)) * time.Millisecond)
		for up := true; up; {
			n := rng.Int32N(parts)
			at, _ := p.describe(4, nil)
			tp := fmt.Sprintf("t-%d", n)
			if ps := at[tp]; len(ps) == 1 {
				to := dirs[0]
				if ps[0].dir == to {
					to = dirs[1]
				}
				if err := p.moveTo(to, "t", n); err == nil {
					moved++
				}
			}
			select {
			case <-kill.C:
				up = false
			default:
			}
		}
		b.kill()
		cancel()
		work.Wait()
		b = spawn(t, strings.Join(dirs, ","), 0, settings...)
		for n := range int32(parts) {
			if got, want := b.dial().end("t", n), acked[n].Load(); got < want {
				t.Fatalf("round %d: t-%d ends at %d, and %d records were acknowledged", round, n, got, want)
			}
		}
	}
	t.Logf("%d moves were asked for", moved)
	if moved < rounds {
		t.Errorf("%d moves only", moved)
	}
	for n := range int32(parts) {
		verify(t, b.addr, n, acked[n].Load())
	}
}

// load produces numbers in order until ctx ends; after an error it goes on
// behind what it tried.
func load(ctx context.Context, addr string, part int32, acked *atomic.Int64, next *int64) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DisableIdempotentWrite(),
		kgo.MaxProduceRequestsInflightPerBroker(1), kgo.RecordRetries(0), kgo.RequiredAcks(kgo.AllISRAcks()))
	if err != nil {
		return
	}
	defer cl.Close()
	for ctx.Err() == nil {
		var rs []*kgo.Record
		for i := range 20 {
			rs = append(rs, &kgo.Record{Topic: "t", Partition: part, Value: fmt.Appendf(nil, "%d %s", *next+int64(i), strings.Repeat("v", 500))})
		}
		*next += int64(len(rs))
		out := cl.ProduceSync(ctx, rs...)
		for _, r := range out {
			if r.Err == nil {
				acked.Store(r.Record.Offset + 1)
			}
		}
	}
}

// verify reads a partition: its offsets are without a gap, its values grow.
func verify(t *testing.T, addr string, part int32, acked int64) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{"t": {part: kgo.NewOffset().AtStart()}}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next, last := int64(0), int64(-1)
	for next < acked {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatalf("t-%d: %d of %d: %v", part, next, acked, err)
		}
		fs.EachRecord(func(r *kgo.Record) {
			var v int64
			if _, err := fmt.Sscan(string(r.Value[:20]), &v); err != nil || r.Offset != next || v <= last {
				t.Errorf("t-%d: offset %d has value %d after %d (%v)", part, r.Offset, v, last, err)
			}
			next, last = r.Offset+1, v
		})
	}
}
