package api

import (
	"context"
	"log/slog"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// Clients are never told of no broker by one that they can ask.
func TestSomebodyIsReachable(t *testing.T) {
	at := func(id kafka.NodeID) *meta.Broker {
		return &meta.Broker{ID: id, StartID: "s", Dirs: []kafka.DirID{{byte(id), 1}}, Listeners: []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: int32(id)}}}
	}
	a := New(Deps{Here: func() *meta.Broker { return at(1) }})
	w := metatest.New()
	told := func(listener string) (ids []kafka.NodeID) {
		for _, b := range a.reachable(w.Img, listener) {
			ids = append(ids, b.ID)
		}
		return ids
	}
	if got := told("PLAINTEXT"); len(got) != 1 || got[0] != 1 {
		t.Errorf("while nobody is registered: %v", got)
	}
	if got := told("OTHER"); len(got) != 0 {
		t.Errorf("of a listener that it does not have: %v", got)
	}
	if err := w.RegisterBroker(at(2)); err != nil {
		t.Fatal(err)
	}
	if got := told("PLAINTEXT"); len(got) != 1 || got[0] != 2 {
		t.Errorf("beside another: %v", got)
	}
}

// creations counts what is created on demand.
type creations struct {
	Cluster
	asked []string
}

func (c *creations) CreateTopic(_ context.Context, t NewTopic, _ bool) (CreatedTopic, error) {
	c.asked = append(c.asked, t.Name)
	return CreatedTopic{}, kerr.NotController
}

// While a broker does not know which topics there are, it has clients come again
// (safety 36), and creates none on demand: every one of them seems to be missing.
func TestNothingIsCreatedUnseen(t *testing.T) {
	cluster, w := &creations{}, metatest.New()
	img := meta.Empty("c")
	a := New(Deps{Image: func() *meta.Image { return img }, Cluster: cluster, Limits: Limits{AutoCreate: true}, Log: slog.New(slog.DiscardHandler)})
	ask := func() int16 {
		req, resp := kmsg.NewPtrMetadataRequest(), kmsg.NewMetadataResponse()
		req.Version, req.AllowAutoTopicCreation = 9, true
		req.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("t")}}
		if err := a.metadata(t.Context(), &server.Request{Conn: &server.Conn{Listener: "PLAINTEXT"}, Version: 9}, req, &resp); err != nil {
			t.Fatal(err)
		}
		return resp.Topics[0].ErrorCode
	}
	if code := ask(); code != kerr.LeaderNotAvailable.Code || len(cluster.asked) > 0 {
		t.Errorf("before the metadata: error %d, created %v", code, cluster.asked)
	}
	if err := w.RegisterBroker(&meta.Broker{ID: 1, StartID: "s", Dirs: []kafka.DirID{{1}}}); err != nil {
		t.Fatal(err)
	}
	img = w.Img
	if code := ask(); code != kerr.UnknownTopicOrPartition.Code || len(cluster.asked) != 1 {
		t.Errorf("with the metadata: error %d, created %v", code, cluster.asked)
	}
}
