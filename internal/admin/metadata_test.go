package admin

import (
	"encoding/json"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

func image(t *testing.T) *meta.Image {
	t.Helper()
	const cluster = "AAAAAAAAAAAAAAAAAAAAAQ"
	k := meta.KeysOf(cluster)
	id, dir := kafka.TopicID{15: 1}, kafka.DirID{15: 9}
	b := &meta.Broker{ID: 1, StartID: "s", Listeners: []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: 9092}}, Dirs: []kafka.DirID{dir}}
	p := &meta.Partition{Topic: id, Replicas: []meta.Replica{{Node: 1, Dir: dir}}, Leader: 1, LeaderBrokerEpoch: 5, LeaderEpoch: 2,
		ISR: []meta.Replica{{Node: 1, Dir: dir}}, LastKnownLeader: kafka.NoNode, ControllerEpoch: 3}
	topic := &meta.Topic{Name: "orders", ID: id}
	entry := func(key string, value []byte) kv.KV {
		return kv.KV{Key: key, Value: value, CreateRev: 5, ModRev: 6, Version: 1}
	}
	img, errs := meta.FromListing(cluster, []kv.KV{
		entry(k.Broker(1), b.Encode()),
		entry(k.TopicConfig("orders"), meta.Config{}.Encode(map[string]string{"retention.ms": "5", "mystery.password": "x"})),
		entry(k.State(id, 0), p.Encode()),
		entry(k.Topic("orders"), topic.Encode(1)),
	}, 6)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return img
}

func TestMetadata(t *testing.T) {
	img := image(t)
	s := New(Config{})
	s.Handle("GET /metadata/", Metadata(func() *meta.Image { return img }))
	for _, c := range []struct {
		path string
		code int
		want string // fields that must be there with these values
	}{
		{"/", 200, `{"children":["brokers","cluster","config","controller","controller_epoch","features"]}`},
		{"/brokers", 200, `{"children":["ids","topics"]}`},
		{"/brokers/ids", 200, `{"children":["1"]}`},
		{"/brokers/ids/1", 200, `{"version":5,"endpoints":["PLAINTEXT://h:9092"],"epoch":5}`},
		{"/brokers/topics", 200, `{"children":["orders"]}`},
		{"/brokers/topics/orders", 200, `{"partitions":{"0":[1]},"topic_id":"AAAAAAAAAAAAAAAAAAAAAQ"}`},
		{"/brokers/topics/orders/partitions", 200, `{"children":["0"]}`},
		{"/brokers/topics/orders/partitions/0", 200, `{"children":["state"]}`},
		{"/brokers/topics/orders/partitions/0/state", 200, `{"version":1,"leader":1,"leader_epoch":2,"isr":[1],"controller_epoch":3,"partition_epoch":6}`},
		{"/config/topics/orders", 200, `{"config":{"retention.ms":"5","mystery.password":"[hidden]"}}`},
		{"/config/brokers/default", 200, `{"config":{}}`},
		{"/config/topics", 200, `{"children":["orders"]}`},
		{"/cluster", 200, `{"id":"AAAAAAAAAAAAAAAAAAAAAQ"}`},
		{"/features", 200, `{"epoch":0}`},
		{"/controller", 404, ""},
		{"/brokers/ids/2", 404, ""},
		{"/brokers/ids/x", 404, ""},
		{"/brokers/topics/none", 404, ""},
		{"/brokers/topics/orders/partitions/1/state", 404, ""},
		{"/brokers/topics/orders/partitions/0/state/x", 404, ""},
		{"/brokers/topics/orders/state", 404, ""},
		{"/config/topics/none", 404, ""},
		{"/nothing", 404, ""},
	} {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest("GET", "/metadata"+c.path, nil))
		if w.Code != c.code {
			t.Errorf("%s: %d %s", c.path, w.Code, w.Body)
			continue
		}
		if c.want == "" {
			continue
		}
		var got, want map[string]any
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		for k, v := range want {
			if !reflect.DeepEqual(got[k], v) {
				t.Errorf("%s: %s is %v, want %v", c.path, k, got[k], v)
			}
		}
	}
	w := httptest.NewRecorder()
	Metadata(func() *meta.Image { return nil }).ServeHTTP(w, httptest.NewRequest("GET", "/metadata/", nil))
	if w.Code != 503 {
		t.Errorf("before there is an image: %d", w.Code)
	}
}
