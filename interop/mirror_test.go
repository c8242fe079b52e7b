//go:build interop

package interop

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// TestMirrorStreamsAndBatch has three readers on one topic at once, each a
// group of its own: a Streams application, a batch reader that comes again and
// again, and MirrorMaker 2, which copies the topic to a second broker while it
// is written.
func TestMirrorStreamsAndBatch(t *testing.T) {
	needProcess(t)
	dir := workDir(t)
	source := startBroker(t, filepath.Join(dir, "source"), consumerTimes...)
	copyTo := startBroker(t, filepath.Join(dir, "target"), consumerTimes...)
	adm, there := admin(t, source.Addr), admin(t, copyTo.Addr)
	topic := createTopic(t, source.Addr, "mirrored", partitions, nil)
	out := createTopic(t, source.Addr, "mirrored-counts", 2, nil)
	startMirror(t, source.Addr, copyTo.Addr, topic)
	w := startWordCount(t, source.Addr, topic, out)
	mirrored := "source." + topic
	rounds := 3
	if full() {
		rounds = 30
	}
	read := 0
	for range rounds {
		w.write(t, 2000)
		read += batch(t, source.Addr, adm, topic)
		w.awaitSome(t)
	}
	if want := endSum(t, adm, topic); int64(read) != want {
		t.Errorf("the batch reader has read %d records in %d runs, want %d", read, rounds, want)
	}
	w.awaitDone(t, adm)
	counts := w.counts(t, adm)
	for word, n := range w.want {
		if counts[word] != n {
			t.Errorf("%s was counted %d times, is there %d times", word, counts[word], n)
		}
	}
	awaitCopy(t, adm, there, topic, mirrored)
	want, got := contents(t, source.Addr, adm, topic), contents(t, copyTo.Addr, there, mirrored)
	for part := range want {
		if !bytes.Equal(want[part], got[part]) {
			t.Errorf("partition %d of the copy differs: %d bytes, want %d", part, len(got[part]), len(want[part]))
		}
	}
	t.Logf("%d records copied, counted, and read by batches", read)
	awaitGroupCopied(t, there, "batch-"+topic, mirrored)
	w.stop(t)
}

// batch reads a topic from where its group stopped to the end that it has
// now, commits, and leaves.
func batch(t *testing.T, addr string, adm *kadm.Client, topic string) (read int) {
	t.Helper()
	group := "batch-" + topic
	before, err := adm.FetchOffsets(t.Context(), group)
	if err != nil {
		t.Fatal(err)
	}
	ends, err := adm.ListEndOffsets(t.Context(), topic)
	if err != nil {
		t.Fatal(err)
	}
	left := int64(0)
	ends.Each(func(o kadm.ListedOffset) {
		at := int64(0)
		if c, ok := before.Lookup(topic, o.Partition); ok {
			at = c.At
		}
		left += o.Offset - at
	})
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for int64(read) < left {
		f := cl.PollFetches(ctx)
		if err := f.Err(); err != nil {
			t.Fatalf("the batch reader has read %d of %d: %v", read, left, err)
		}
		read += f.NumRecords()
	}
	if err := cl.CommitUncommittedOffsets(ctx); err != nil {
		t.Fatal(err)
	}
	return read
}

// startMirror runs MirrorMaker 2 from one broker to the other.
func startMirror(t *testing.T, source, target, topic string) {
	t.Helper()
	need(t, "java")
	fetching.Lock()
	libs := fetchJars(t, "mirror.xml", filepath.Join(cacheDir(t), "mirror-4.3.1-simple"))
	fetching.Unlock()
	conf := filepath.Join(t.TempDir(), "mm2.properties")
	text := fmt.Sprintf(`clusters = source, target
source.bootstrap.servers = %s
target.bootstrap.servers = %s
source->target.enabled = true
source->target.topics = %s
target->source.enabled = false
source->target.sync.group.offsets.enabled = true
sync.topic.acls.enabled = false
replication.factor = 1
checkpoints.topic.replication.factor = 1
heartbeats.topic.replication.factor = 1
offset-syncs.topic.replication.factor = 1
offset.storage.replication.factor = 1
status.storage.replication.factor = 1
config.storage.replication.factor = 1
offset.storage.partitions = 4
offset.lag.max = 10
refresh.topics.interval.seconds = 2
refresh.groups.interval.seconds = 2
sync.group.offsets.interval.seconds = 1
emit.checkpoints.interval.seconds = 1
consumer.auto.offset.reset = earliest
`, source, target, topic)
	if err := os.WriteFile(conf, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	log := newTail()
	cmd := exec.Command("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.slf4j.simpleLogger.showDateTime=true", "-Dorg.slf4j.simpleLogger.dateTimeFormat=HH:mm:ss.SSS",
		"-Dorg.slf4j.simpleLogger.log.org.apache.kafka=warn", "-Dorg.slf4j.simpleLogger.log.org.apache.kafka.connect=info", "-cp", filepath.Join(libs, "*"),
		"org.apache.kafka.connect.mirror.MirrorMaker", conf)
	cmd.Dir = t.TempDir()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cmd.Process.Kill()
		cmd.Wait()
		if t.Failed() {
			t.Logf("the mirror's output, its end:\n%s", log.last(400))
		}
	})
}

// awaitCopy waits until the copy is as long as the topic.
func awaitCopy(t *testing.T, adm, there *kadm.Client, topic, mirrored string) {
	t.Helper()
	await(t, "the mirror has copied everything", func() bool {
		ends, err := adm.ListEndOffsets(t.Context(), topic)
		if err != nil {
			t.Fatal(err)
		}
		copied, err := there.ListEndOffsets(t.Context(), mirrored)
		if err != nil || copied.Error() != nil {
			return false // not made yet
		}
		done := true
		ends.Each(func(o kadm.ListedOffset) {
			if c, ok := copied.Lookup(mirrored, o.Partition); !ok || c.Offset < o.Offset {
				done = false
			}
		})
		return done
	})
}

// awaitGroupCopied waits until the mirror has set the group's offsets at the
// copy.
func awaitGroupCopied(t *testing.T, there *kadm.Client, group, mirrored string) {
	t.Helper()
	await(t, "the batch reader's offsets are copied", func() bool {
		got, err := there.FetchOffsets(t.Context(), group)
		return err == nil && len(got[mirrored]) > 0
	})
}

// contents is what each partition of a topic holds, in order.
func contents(t *testing.T, addr string, adm *kadm.Client, topic string) (all [partitions][]byte) {
	t.Helper()
	readTopic(t, addr, adm, topic, func(r *kgo.Record) {
		all[r.Partition] = fmt.Appendf(all[r.Partition], "%d %q %q\n", r.Timestamp.UnixMilli(), r.Key, r.Value)
	})
	return all
}
