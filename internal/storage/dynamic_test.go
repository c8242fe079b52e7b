package storage

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// producer.id.expiration.ms changes under logs that are open, and for logs to come.
func TestProducerExpirationChanges(t *testing.T) {
	b := openBox(t, vfs.NewMem(), managerConfig("/d"), false)
	defer b.close()
	known := func(l *Log) int {
		if _, err := l.Append(time.Now(), makeBatch(t, batch.Options{Producer: &batch.Producer{ID: 5}}, rec{ts: time.Now().UnixMilli(), value: "x"}), 0, FromClient); err != nil {
			t.Fatal(err)
		}
		b.m.expireProducers()
		return len(l.Producers())
	}
	open := b.log(testConfig())
	if known(open) != 1 {
		t.Fatal("a producer is forgotten at once")
	}
	b.m.SetProducerExpiration(time.Nanosecond)
	b.m.expireProducers()
	if len(open.Producers()) != 0 {
		t.Error("a log that was open goes by the old time")
	}
	later, err := b.m.Create(kafka.TopicPartition{Topic: "later"}, kafka.TopicID{9}, testConfig())
	if err != nil {
		t.Fatal(err)
	}
	if known(later) != 0 {
		t.Error("a log that came later goes by the old time")
	}
}

// num.recovery.threads.per.data.dir, set before the logs are opened: as many
// are opened at once. Each waits for the others, up to a time that is over
// only when they do not come.
func TestRecoveryThreadsChange(t *testing.T) {
	mem := vfs.NewMem()
	b := openBox(t, mem, managerConfig("/d"), false)
	const logs = 3
	for i := range int32(logs) {
		if _, err := b.m.Create(kafka.TopicPartition{Topic: "t", Partition: i}, testID, testConfig()); err != nil {
			t.Fatal(err)
		}
	}
	b.close()
	var mu sync.Mutex
	in, together := map[string]bool{}, make(chan struct{})
	fsys := vfs.Wrap(mem, vfs.Hooks{Before: func(op vfs.Op) error {
		if !strings.HasSuffix(op.Name, "partition.metadata") {
			return nil
		}
		mu.Lock()
		if !in[op.Name] {
			in[op.Name] = true
			if len(in) == logs {
				close(together)
			}
		}
		mu.Unlock()
		select {
		case <-together:
		case <-time.After(10 * time.Second):
			t.Errorf("%s is opened alone", op.Name)
		}
		return nil
	}})
	cfg := managerConfig("/d")
	cfg.RecoveryThreads = 1
	b = &box{tb: t, m: New(cfg, fsys, testLogger(t), nil), stop: func() {}}
	b.m.SetRecoveryThreads(logs)
	if err := b.m.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.close()
}
