package meta_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
)

var (
	keys = meta.KeysOf(metatest.ClusterID)
	id   = kafka.TopicID{0: 7, 15: 9}
	dir  = metatest.Dir("a")
)

// golden is one value of each kind, as a store would hold it.
var golden = []struct {
	file, key string
	value     []byte
}{
	{"partition", keys.State(id, 3), (&meta.Partition{
		Replicas: []meta.Replica{{Node: 1, Dir: dir}, {Node: 2}, {Node: 3}, {Node: 4}},
		Adding:   []kafka.NodeID{4}, Removing: []kafka.NodeID{1},
		Leader: 2, LeaderBrokerEpoch: 77, LeaderEpoch: 5,
		ISR: []meta.Replica{{Node: 2}}, Eligible: []meta.Replica{{Node: 1, Dir: dir}},
		LastKnownLeader: -1, ControllerEpoch: 4,
	}).Encode()},
	{"partition_leaderless", keys.State(id, 0), (&meta.Partition{
		Replicas: []meta.Replica{{Node: 1, Dir: dir}}, Leader: -1, LeaderEpoch: 6,
		ISR: []meta.Replica{{Node: 1, Dir: kafka.DirLost}}, LastKnownLeader: 1,
	}).Encode()},
	{"broker", keys.Broker(2), (&meta.Broker{
		StartID: "start", Rack: "r1", Dirs: []kafka.DirID{dir, metatest.Dir("b")}, Offline: []kafka.DirID{dir}, Leaving: true,
		Listeners: []meta.Listener{{Name: "EXTERNAL", Protocol: "SASL_SSL", Host: "b.example", Port: 9093}},
		Features:  map[string][2]int16{"group.version": {0, 1}, "barnabas.version": {1, 1}},
	}).Encode()},
	{"topic", keys.Topic("orders"), (&meta.Topic{ID: id}).Encode(4)},
	{"pending", keys.Pending(id), (&meta.Pending{Name: "orders", From: 4, Count: 400, Node: 2, BrokerEpoch: 77, Token: kafka.UUID{1}}).Encode()},
	{"tombstone", keys.Deleted(id), (&meta.Tombstone{Name: "orders", DeletedAtMs: 1700000000000}).Encode()},
	{"claim", keys.Name("a.b"), meta.Claim("a.b")},
	{"config", keys.TopicConfig("orders"), meta.Config{}.Encode(map[string]string{"retention.ms": "5000", "cleanup.policy": "compact,delete"})},
	{"controller", keys.Controller(), meta.Controller{Node: 2, BrokerEpoch: 77}.Encode()},
	{"controller_epoch", keys.ControllerEpoch(), meta.ControllerEpoch{Epoch: 8}.Next()},
	{"features", keys.Features(), meta.Features{}.Encode(meta.InitialFeatures())},
	{"cluster", keys.Cluster(), meta.Cluster{ID: metatest.ClusterID, CreatedAtMs: 1700000000000}.Encode()},
	{"producer_ids", keys.ProducerIDs(), meta.ProducerIDs{}.Encode(3000, 2, 77)},
}

// TestGoldenValues holds the stored form of every value: a store written by
// one build is read by the next. -rewrite accepts what is written now.
func TestGoldenValues(t *testing.T) {
	rewrite := flag.Lookup("rewrite").Value.String() == "true"
	for _, g := range golden {
		t.Run(g.file, func(t *testing.T) {
			var pretty bytes.Buffer
			if err := json.Indent(&pretty, g.value, "", "  "); err != nil {
				t.Fatal(err)
			}
			got := g.key + "\n" + pretty.String() + "\n"
			path := filepath.Join("testdata", "golden", g.file)
			if rewrite {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("stored form changed:\n%swas:\n%s", got, want)
			}
		})
	}
}

// again reads a value as the kind that its key says and writes it anew; ok is
// false when it is refused.
func again(key string, value []byte) (out []byte, ok bool) {
	e := kv.KV{Key: key, Value: value, CreateRev: 5, ModRev: 5, Version: 1}
	img, errs := meta.FromListing(metatest.ClusterID, []kv.KV{e}, 5)
	for _, err := range errs {
		if !strings.Contains(err.Error(), "has no state") { // the topic's own value was read
			return nil, false
		}
	}
	switch {
	case strings.HasSuffix(key, "/state"):
		for p := range img.Aside() {
			return p.Encode(), true
		}
	case strings.Contains(key, "/brokers/ids/"):
		return img.Brokers()[0].Encode(), true
	case strings.Contains(key, "/pending/"):
		for p := range img.Pendings() {
			return p.Encode(), true
		}
	case strings.Contains(key, "/deleted/"):
		for p := range img.Tombstones() {
			return p.Encode(), true
		}
	case strings.Contains(key, "/config/"):
		c := img.TopicOverrides("orders")
		return c.Encode(c.Entries), true
	case strings.HasSuffix(key, "/features"):
		f := img.FeaturesKey()
		return f.Encode(f.Levels), true
	case strings.HasSuffix(key, "/cluster"):
		c, _ := img.Cluster()
		return c.Encode(), true
	case strings.HasSuffix(key, "/controller"):
		c, _ := img.ControllerHolder()
		return c.Encode(), true
	}
	return nil, false
}

func TestValuesReadBack(t *testing.T) {
	for _, g := range golden {
		if out, ok := again(g.key, g.value); ok && !bytes.Equal(out, g.value) {
			t.Errorf("%s: %s read and written is %s", g.key, g.value, out)
		}
	}
}

// Values that are rewritten keep fields which this build does not know.
func TestUnknownFieldsAreKept(t *testing.T) {
	kept := map[string]bool{"partition": true, "broker": true, "config": true, "features": true}
	for _, g := range golden {
		if !kept[g.file] {
			continue
		}
		with := append(bytes.TrimSuffix(bytes.Clone(g.value), []byte("}")), `,"a_new":{"deep":[1,"x"]},"z_new":null}`...)
		out, ok := again(g.key, with)
		if !ok || !bytes.Equal(out, with) {
			t.Errorf("%s: %s became %s", g.file, with, out)
		}
	}
}

func FuzzValues(f *testing.F) {
	for n, g := range golden {
		f.Add(byte(n), g.value)
		f.Add(byte(n), append(bytes.TrimSuffix(bytes.Clone(g.value), []byte("}")), `,"new":1}`...))
	}
	f.Add(byte(0), []byte(`{"version":1,"LEADER":-1,"replicas":[{"id":1}],"isr":[{"id":1}],"Leader":1}`))
	f.Fuzz(func(t *testing.T, n byte, value []byte) {
		key := golden[int(n)%len(golden)].key
		once, ok := again(key, value)
		if !ok {
			return
		}
		twice, ok := again(key, once)
		if !ok || !bytes.Equal(once, twice) {
			t.Errorf("%s: %q was written as %s, and that as %s", key, value, once, twice)
		}
	})
}

func FuzzKeys(f *testing.F) {
	for _, g := range golden {
		f.Add(strings.TrimPrefix(g.key, keys.Prefix()))
	}
	f.Fuzz(func(t *testing.T, rest string) {
		e := kv.KV{Key: keys.Prefix() + rest, Value: golden[0].value, CreateRev: 5, ModRev: 5}
		img, _ := meta.FromListing(metatest.ClusterID, []kv.KV{e}, 5)
		for p := range img.Aside() {
			if keys.State(p.Topic, p.Partition) != e.Key {
				t.Errorf("%q is read as the state of %s, whose key is %q", e.Key, p.ID(), keys.State(p.Topic, p.Partition))
			}
		}
		img.Apply(kv.Change{Rev: 6, Events: []kv.Event{{KV: kv.KV{Key: e.Key, ModRev: 6}, Deleted: true}}})
	})
}
