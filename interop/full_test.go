//go:build interop && linux

package interop

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sys/unix"
)

// smallDisk mounts a file system of its own, which goes with the test.
func smallDisk(t *testing.T, mib int64) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("mounting a file system takes root")
	}
	need(t, "losetup")
	need(t, "mkfs.ext4")
	base := t.TempDir()
	image, dir := filepath.Join(base, "image"), filepath.Join(base, "disk")
	f, err := os.Create(image)
	if err == nil {
		err = errors.Join(f.Truncate(mib<<20), f.Close(), os.Mkdir(dir, 0o755))
	}
	if err != nil {
		t.Fatal(err)
	}
	run(t, base, "mkfs.ext4", "-q", "-m", "0", image)
	loop, err := exec.Command("losetup", "--find", "--show", image).Output()
	if err != nil {
		t.Skipf("no loop device: %v", err)
	}
	dev := string(loop[:len(loop)-1])
	t.Cleanup(func() {
		if err := exec.Command("losetup", "-d", dev).Run(); err != nil {
			t.Errorf("losetup -d %s: %v", dev, err)
		}
	})
	run(t, base, "mount", dev, dir)
	t.Cleanup(func() {
		if err := exec.Command("umount", dir).Run(); err != nil {
			t.Errorf("umount %s: %v", dir, err)
		}
	})
	return dir
}

func freeBytes(t *testing.T, dir string) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Bavail) * st.Bsize
}

// hog takes all the room of a file system but what is to be left.
func hog(t *testing.T, dir string, leave int64) (release func()) {
	t.Helper()
	name := filepath.Join(dir, "hog")
	f, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size, step := int64(0), int64(64<<20); step >= 4096; {
		if freeBytes(t, dir)-step < leave {
			step /= 2
			continue
		}
		if err := unix.Fallocate(int(f.Fd()), 0, size, step); err != nil {
			step /= 2
			continue
		}
		size += step
	}
	return func() {
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
}

// ledger is what a producer was told: every acknowledged record by where it is.
type ledger struct {
	topic string
	mu    sync.Mutex
	acked map[int32]map[int64][32]byte
	n     int
	errs  map[string]int
}

func newLedger(topic string) *ledger {
	return &ledger{topic: topic, acked: map[int32]map[int64][32]byte{}, errs: map[string]int{}}
}

func (l *ledger) note(r *kgo.Record, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		var ke *kerr.Error
		if errors.As(err, &ke) {
			l.errs[ke.Message]++
		} else {
			l.errs[err.Error()]++
		}
		return
	}
	if l.acked[r.Partition] == nil {
		l.acked[r.Partition] = map[int64][32]byte{}
	}
	l.acked[r.Partition][r.Offset] = sha256.Sum256(r.Value)
	l.n++
}

func (l *ledger) counts() (acked int, errs map[string]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	errs = map[string]int{}
	for k, v := range l.errs {
		errs[k] = v
	}
	return l.n, errs
}

// check reads the topic to its end and finds every acknowledged record where
// it was said to be.
func (l *ledger) check(t *testing.T, addr string) {
	t.Helper()
	l.mu.Lock()
	want := map[int32]map[int64][32]byte{}
	total := 0
	for p, m := range l.acked {
		want[p] = map[int64][32]byte{}
		for o, h := range m {
			want[p][o] = h
			total++
		}
	}
	l.mu.Unlock()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.ConsumeTopics(l.topic), kgo.FetchMaxWait(200*time.Millisecond))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ends, err := kadm.NewClient(cl).ListEndOffsets(ctx, l.topic)
	if err != nil {
		t.Fatalf("end offsets: %v", err)
	}
	left := map[int32]int64{}
	ends.Each(func(o kadm.ListedOffset) {
		if o.Err != nil {
			t.Fatalf("end offset of %s-%d: %v", o.Topic, o.Partition, o.Err)
		}
		if o.Offset > 0 {
			left[o.Partition] = o.Offset
		}
	})
	found, other := 0, 0
	for len(left) > 0 {
		fs := cl.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			t.Fatalf("reading %s to its end: %v; left %v", l.topic, err, left)
		}
		fs.EachError(func(topic string, p int32, err error) { t.Fatalf("fetch %s-%d: %v", topic, p, err) })
		fs.EachRecord(func(r *kgo.Record) {
			if h, ok := want[r.Partition][r.Offset]; !ok {
				other++ // written and not acknowledged: a maybe
			} else if h != sha256.Sum256(r.Value) {
				t.Fatalf("%s-%d offset %d holds something else than was acknowledged", l.topic, r.Partition, r.Offset)
			} else {
				found++
			}
			if r.Offset+1 >= left[r.Partition] {
				delete(left, r.Partition)
			}
		})
	}
	if found != total {
		t.Fatalf("%d of %d acknowledged records are there", found, total)
	}
	t.Logf("%d acknowledged records read back, and %d that were not acknowledged", found, other)
}

// bulk produces without retries until it is stopped: each refusal is seen.
type bulk struct {
	l    *ledger
	stop func()
	slow atomic.Bool // a record each millisecond at most
}

func startBulk(t *testing.T, addr string, l *ledger, partitions int32, opts ...kgo.Opt) *bulk {
	t.Helper()
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(addr), kgo.DefaultProduceTopic(l.topic), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.DisableIdempotentWrite(), kgo.RecordRetries(0), kgo.MaxBufferedRecords(256), kgo.MaxProduceRequestsInflightPerBroker(4),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	b := &bulk{l: l}
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	done.Go(func() {
		rnd := rand.NewChaCha8([32]byte{1})
		for n := uint64(0); ctx.Err() == nil; n++ {
			value := make([]byte, 16<<10)
			_, _ = rnd.Read(value)
			binary.BigEndian.PutUint64(value, n)
			cl.Produce(ctx, &kgo.Record{Partition: int32(n % uint64(partitions)), Value: value}, func(r *kgo.Record, err error) {
				if err == nil || ctx.Err() == nil {
					l.note(r, err)
				}
				if err != nil {
					wait(5 * time.Millisecond) // a broker that refuses is not to be flooded
				}
			})
			if b.slow.Load() {
				wait(time.Millisecond)
			}
		}
	})
	b.stop = sync.OnceFunc(func() {
		cancel()
		done.Wait()
		cl.Close()
	})
	t.Cleanup(b.stop)
	return b
}

// until waits for what counts say; it fails after a minute.
func (l *ledger) until(t *testing.T, what string, ok func(acked int, errs map[string]int) bool) {
	t.Helper()
	end := time.Now().Add(time.Minute)
	for {
		acked, errs := l.counts()
		if ok(acked, errs) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("%s: not within a minute; acknowledged %d, errors %v", what, acked, errs)
		}
		pause(20 * time.Millisecond)
	}
}

const refused = "KAFKA_STORAGE_ERROR"

// untilRefused waits until the producer gets KAFKA_STORAGE_ERROR and nothing is
// acknowledged any more, and demands that it got no other error.
func (l *ledger) untilRefused(t *testing.T) {
	t.Helper()
	_, before := l.counts()
	l.until(t, "writes are refused", func(_ int, errs map[string]int) bool { return errs[refused] > before[refused]+200 })
	_, errs := l.counts()
	for e, n := range errs {
		if e != refused {
			t.Errorf("%d times %s while the disk was full", n, e)
		}
	}
}

func (l *ledger) untilAcked(t *testing.T, more int) {
	t.Helper()
	before, _ := l.counts()
	l.until(t, "writes are taken again", func(acked int, _ map[string]int) bool { return acked >= before+more })
}

// TestDiskFull fills the log directories' file system while producing and
// consuming: KAFKA_STORAGE_ERROR for producers, everything else goes on,
// writing resumes by itself, nothing acknowledged is lost, and a broker that
// was killed on the full disk starts again.
func TestDiskFull(t *testing.T) {
	needProcess(t)
	t.Run("log directories alone", func(t *testing.T) { diskFull(t, 500, true) })
	t.Run("metadata on the same disk", func(t *testing.T) { diskFull(t, 1024, false) })
}

func diskFull(t *testing.T, mib int64, elsewhere bool) {
	const parts = 4
	disk := smallDisk(t, mib)
	settings := []string{"log.flush.offset.checkpoint.interval.ms=1000", "log.segment.delete.delay.ms=500"}
	if elsewhere {
		settings = append(settings, "metadata.log.dir="+t.TempDir())
	}
	data := filepath.Join(disk, "data")
	b := startBroker(t, data, settings...)
	listen := b.Addr
	cfg := map[string]*string{"segment.bytes": kadm.StringPtr("4194304")}
	victim := createTopic(t, listen, "victim", parts, cfg)
	v := newLedger(victim)
	first := startBulk(t, listen, v, parts)
	v.untilAcked(t, 6000)
	first.stop()

	l := newLedger(createTopic(t, listen, "full", parts, cfg))
	p := startBulk(t, listen, l, parts)
	l.untilRefused(t)
	t.Logf("almost full, %d MiB free: refused", freeBytes(t, disk)>>20)
	others(t, listen, v)

	// To the last block: appends, checkpoints and rolls meet ENOSPC.
	release := hog(t, disk, 0)
	pause(3 * time.Second)
	l.untilRefused(t)
	t.Logf("%d bytes free: refused", freeBytes(t, disk))
	others(t, listen, v)
	release()
	l.untilAcked(t, 0)

	deleteTopic(t, listen, victim)
	l.untilAcked(t, 500)
	t.Log("room again after a topic was deleted: writing resumed")

	// In the middle of writing, again and again; slowly, for the room that the
	// deleted topic made is all there is above the low-water mark.
	p.slow.Store(true)
	for range 5 {
		release := hog(t, disk, 2<<20)
		l.untilRefused(t)
		release()
		l.untilAcked(t, 20)
	}
	release = hog(t, disk, 0)
	l.untilRefused(t)
	b.kill()
	p.stop()
	b = startBrokerAt(t, data, listen, settings...)
	t.Logf("started again with %d bytes free", freeBytes(t, disk))
	l.check(t, listen)
	l.mu.Lock()
	clear(l.errs)
	l.mu.Unlock()
	p = startBulk(t, listen, l, parts)
	p.slow.Store(true)
	l.untilRefused(t)
	release()
	l.untilAcked(t, 20)
	p.stop()
	l.check(t, listen)
	b.stop()
	b = startBrokerAt(t, data, listen, settings...)
	l.check(t, listen)
	b.stop()
}

// others is what has to work while nothing can be written.
func others(t *testing.T, addr string, l *ledger) {
	t.Helper()
	l.check(t, addr)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	a := admin(t, addr)
	md, err := a.Metadata(ctx, l.topic)
	if err != nil || md.Topics[l.topic].Err != nil || len(md.Topics[l.topic].Partitions) == 0 {
		t.Errorf("metadata: %v %v", err, md)
	}
	for _, p := range md.Topics[l.topic].Partitions {
		if p.Leader < 0 || p.Err != nil {
			t.Errorf("metadata: %s-%d: leader %d, %v", l.topic, p.Partition, p.Leader, p.Err)
		}
	}
}

func deleteTopic(t *testing.T, addr, topic string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if res, err := admin(t, addr).DeleteTopics(ctx, topic); err != nil || res.Error() != nil {
		t.Fatalf("delete %s: %v", topic, fmt.Errorf("%w %w", err, res.Error()))
	}
}
