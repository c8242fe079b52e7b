package brokertest_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/barnabas-mq/barnabas/brokertest"
)

// A record goes in and comes out again, also after a restart.
func TestProduceRestartConsume(t *testing.T) {
	b := brokertest.Start(t)
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	produce(ctx, t, b, "a", "b", "c")
	b.Restart()
	produce(ctx, t, b, "d")
	consume(ctx, t, b, "a", "b", "c", "d")
}

// A subtest may be called anything.
func TestDirectoryOfAnyName(t *testing.T) {
	t.Run("one, two=3", func(t *testing.T) {
		b := brokertest.Start(t)
		if _, err := os.Stat(filepath.Join(b.DataDir(), "meta.properties")); err != nil {
			t.Error(err)
		}
	})
}

func produce(ctx context.Context, t *testing.T, b *brokertest.Broker, values ...string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.AllowAutoTopicCreation())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	for _, v := range values {
		if err := cl.ProduceSync(ctx, &kgo.Record{Topic: "t", Value: []byte(v)}).FirstErr(); err != nil {
			t.Fatalf("produce %q: %v", v, err)
		}
	}
}

func consume(ctx context.Context, t *testing.T, b *brokertest.Broker, want ...string) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(b.Addr()), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{
		"t": {0: kgo.NewOffset().AtStart()},
	}))
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	var got []string
	for len(got) < len(want) {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			t.Fatal(err)
		}
		fs.EachRecord(func(r *kgo.Record) { got = append(got, string(r.Value)) })
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("consumed %q, want %q", got, want)
	}
}
