package api

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/server"
)

func plainRequest(version int16) *server.Request {
	return &server.Request{Conn: &server.Conn{Listener: "PLAINTEXT"}, Version: version}
}

// seen has the image hold something.
func seen(t *testing.T, w *metatest.World) {
	t.Helper()
	if err := w.RegisterBroker(&meta.Broker{ID: 1, StartID: "s", Dirs: []kafka.DirID{{1}}}); err != nil {
		t.Fatal(err)
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
		if err := a.metadata(t.Context(), plainRequest(9), req, &resp); err != nil {
			t.Fatal(err)
		}
		return resp.Topics[0].ErrorCode
	}
	if code := ask(); code != kerr.LeaderNotAvailable.Code || len(cluster.asked) > 0 {
		t.Errorf("before the metadata: error %d, created %v", code, cluster.asked)
	}
	seen(t, w)
	img = w.Img
	if code := ask(); code != kerr.UnknownTopicOrPartition.Code || len(cluster.asked) != 1 {
		t.Errorf("with the metadata: error %d, created %v", code, cluster.asked)
	}
}

// Requests wait for the metadata in the first moments, and not longer.
func TestEarlyRequestsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := metatest.New()
		seen(t, w)
		var img atomic.Pointer[meta.Image]
		img.Store(meta.Empty("c"))
		read := make(chan struct{})
		a := New(Deps{Image: img.Load, Await: func(ctx context.Context, rev int64) error {
			select {
			case <-read:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}})
		ask := func() (time.Duration, error) {
			begin := time.Now()
			err := known(a, func(_ context.Context, _ *server.Request, _ *kmsg.DescribeClusterRequest, _ *kmsg.DescribeClusterResponse) error {
				return nil
			})(t.Context(), nil, nil, nil)
			return time.Since(begin), err
		}
		if took, err := ask(); !errors.Is(err, kerr.NotController) || took != early {
			t.Errorf("at the start: %v after %v", err, took)
		}
		if took, err := ask(); !errors.Is(err, kerr.NotController) || took != 0 {
			t.Errorf("later: %v after %v", err, took)
		}
		a.born = time.Now()
		go func() {
			time.Sleep(time.Second)
			img.Store(w.Img)
			close(read)
		}()
		if took, err := ask(); err != nil || took != time.Second {
			t.Errorf("when the metadata come: %v after %v", err, took)
		}
	})
}

// A broker that does not know its cluster yet sends nobody away: Java's consumer
// of the consumer protocol never comes back to such a coordinator (KIP-1242).
func TestClusterNotKnownYet(t *testing.T) {
	img := meta.Empty("")
	a := New(Deps{Self: 1, Image: func() *meta.Image { return img }})
	ask := func(cluster string, node int32) (int16, int64) {
		req, resp := kmsg.NewPtrApiVersionsRequest(), kmsg.NewApiVersionsResponse()
		req.Version, req.ClientSoftwareName, req.ClientSoftwareVersion = 5, "n", "1"
		req.ClusterID, req.NodeID = &cluster, node
		if err := a.apiVersions(t.Context(), plainRequest(5), req, &resp); err != nil {
			t.Fatal(err)
		}
		return resp.ErrorCode, resp.FinalizedFeaturesEpoch
	}
	if code, epoch := ask("c", 1); code != 0 || epoch != -1 {
		t.Errorf("before the cluster is known: error %d, epoch of the features %d", code, epoch)
	}
	if code, _ := ask("c", 2); code != kerr.RebootstrapRequired.Code {
		t.Errorf("another node: error %d", code)
	}
	img = meta.Empty("c")
	if code, _ := ask("c", 1); code != 0 {
		t.Errorf("the right cluster: error %d", code)
	}
	if code, _ := ask("other", 1); code != kerr.RebootstrapRequired.Code {
		t.Errorf("another cluster: error %d", code)
	}
}

// Commits, by name or id, are told to come again to the coordinator: an error of
// a partition's leader ends a Java consumer.
func TestCommitsBeforeTheMetadata(t *testing.T) {
	img := meta.Empty("c")
	a := New(Deps{Image: func() *meta.Image { return img }})
	req, resp := kmsg.NewPtrOffsetCommitRequest(), kmsg.NewOffsetCommitResponse()
	req.Version, req.Group = 10, "g"
	req.Topics = []kmsg.OffsetCommitRequestTopic{{TopicID: [16]byte{1}, Partitions: []kmsg.OffsetCommitRequestTopicPartition{{}}}}
	if err := a.offsetCommit(t.Context(), plainRequest(10), req, &resp); err != nil {
		t.Fatal(err)
	}
	if code := resp.Topics[0].Partitions[0].ErrorCode; code != kerr.CoordinatorNotAvailable.Code {
		t.Errorf("commit: error %d", code)
	}
	fetch, fetched := kmsg.NewPtrOffsetFetchRequest(), kmsg.NewOffsetFetchResponse()
	fetch.Version = 10
	fetch.Groups = []kmsg.OffsetFetchRequestGroup{{Group: "g", Topics: []kmsg.OffsetFetchRequestGroupTopic{{TopicID: [16]byte{1}, Partitions: []int32{0}}}}}
	if err := a.offsetFetch(t.Context(), plainRequest(10), fetch, &fetched); err != nil {
		t.Fatal(err)
	}
	if code := fetched.Groups[0].ErrorCode; code != kerr.CoordinatorNotAvailable.Code {
		t.Errorf("fetch of offsets: error %d", code)
	}
}
