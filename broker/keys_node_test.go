package broker

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/etcd/server/v3/embed"
)

// start refuses with an error of New.
func refusedAtStart(want string, set ...string) func(*testing.T) {
	return func(t *testing.T) {
		if _, err := New(Options{Set: set}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// serving starts a broker with settings and gives what Metadata tells of it.
func serving(t *testing.T, set ...string) (*process, kmsg.MetadataResponseBroker) {
	t.Helper()
	p := startBroker(t, nil, append([]string{"log.dirs=" + t.TempDir()}, set...)...)
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{}
	resp, err := p.cl.SeedBrokers()[0].Request(p.ctx(), req)
	if err != nil {
		t.Fatal(err)
	}
	return p, resp.(*kmsg.MetadataResponse).Brokers[0]
}

// nodeProofs are of keys that shape the whole process.
func nodeProofs() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"node.id":   hasID("node.id=7", 7),
		"broker.id": hasID("broker.id=8", 8),
		"broker.rack": func(t *testing.T) {
			if _, b := serving(t, "broker.rack=east"); b.Rack == nil || *b.Rack != "east" {
				t.Errorf("%+v", b)
			}
		},
		"process.roles":                          refusedAtStart("a controller without a broker", "process.roles=controller"),
		"controller.quorum.voters":               refusedAtStart("node.id 1 is not in controller.quorum.voters", "controller.quorum.voters=2@h:1"),
		"controller.listener.names":              controllersApart,
		"initial.broker.registration.timeout.ms": registersInTime,
		"barnabas.metadata.endpoints":            keepsElsewhere,
		"barnabas.metadata.tls.certificate.file": overTLS("certificate"),
		"barnabas.metadata.tls.key.file":         overTLS("key"),
		"barnabas.metadata.tls.ca.file":          overTLS("ca"),
		"metadata.log.dir": func(t *testing.T) {
			dir := t.TempDir()
			serving(t, "metadata.log.dir="+dir)
			if _, err := os.Stat(filepath.Join(dir, "metadata")); err != nil {
				t.Error(err)
			}
		},
		"barnabas.admin.listener": func(t *testing.T) {
			p, _ := serving(t, "barnabas.admin.listener=127.0.0.1:0")
			resp, err := http.Get("http://" + p.b.AdminAddr() + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			if body, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s", resp.Status, body)
			}
		},
	}
}

func hasID(set string, want int32) func(*testing.T) {
	return func(t *testing.T) {
		if _, b := serving(t, set); b.NodeID != want {
			t.Errorf("node %d, want %d", b.NodeID, want)
		}
	}
}

// controllersApart: a listener of controllers is none for clients.
func controllersApart(t *testing.T) {
	b, err := New(Options{Set: []string{"listeners=PLAINTEXT://127.0.0.1:0,MINE://127.0.0.1:0", "controller.listener.names=MINE", "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,MINE:PLAINTEXT"}})
	if err != nil {
		t.Fatal(err)
	}
	if ls := b.serverConfig().Listeners; len(ls) != 1 || ls[0].Name != "PLAINTEXT" {
		t.Errorf("%+v", ls)
	}
}

// registersInTime: where nobody answers as the metadata store, the start ends.
func registersInTime(t *testing.T) {
	b, err := New(Options{Set: []string{"listeners=PLAINTEXT://127.0.0.1:0", "barnabas.admin.listener=", "log.dirs=" + t.TempDir(),
		"barnabas.metadata.endpoints=127.0.0.1:1", "initial.broker.registration.timeout.ms=200"}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := b.Run(ctx); err == nil || !strings.Contains(err.Error(), "within 200ms (initial.broker.registration.timeout.ms)") {
		t.Errorf("%v", err)
	}
}

// A file as Apache Kafka 4.4 ships it starts, but for its ports and its place.
func TestShippedFileStarts(t *testing.T) {
	b, err := New(Options{
		File: filepath.Join("..", "internal", "config", "testdata", "server.properties"),
		Set:  []string{"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:0", "barnabas.admin.listener=", "log.dirs=" + t.TempDir()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	select {
	case <-b.Ready():
	case err := <-done:
		t.Fatalf("ended at its start: %v", err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// keepsElsewhere: the metadata is in an etcd beside the broker, which has none of
// its own.
func keepsElsewhere(t *testing.T) {
	c := embed.NewConfig()
	c.Dir, c.LogLevel = t.TempDir(), "fatal"
	loopback := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{loopback}, []url.URL{loopback}
	c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{loopback}, []url.URL{loopback}
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	e, err := embed.StartEtcd(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	dir := t.TempDir()
	p := startBroker(t, nil, "log.dirs="+dir, "barnabas.metadata.endpoints="+e.Clients[0].Addr().String())
	p.createTopic("t", 1)
	if _, err := os.Stat(filepath.Join(dir, "metadata")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the broker keeps metadata of its own: %v", err)
	}
	if n := e.Server.KV().Rev(); n < 3 {
		t.Errorf("the etcd beside it is at revision %d", n)
	}
}

// topicMakingBeds are of keys that count when topics are made and deleted.
func topicMakingBeds() []bed {
	return []bed{
		{name: "making", set: []string{"num.partitions=3", "default.replication.factor=2", "auto.create.topics.enable=false", "delete.topic.enable=false"},
			broker: map[string]func(*process){
				"num.partitions": func(p *process) {
					if out := p.make("n", -1, 1); out.NumPartitions != 3 {
						p.t.Errorf("%d partitions (%v)", out.NumPartitions, kerr.ErrorForCode(out.ErrorCode))
					}
				},
				"default.replication.factor": func(p *process) {
					if err := kerr.ErrorForCode(p.make("r", 1, -1).ErrorCode); !errors.Is(err, kerr.InvalidReplicationFactor) {
						p.t.Errorf("two replicas on one broker: %v", err)
					}
				},
				"auto.create.topics.enable": func(p *process) {
					req := kmsg.NewPtrMetadataRequest()
					req.AllowAutoTopicCreation = true
					t, name := kmsg.NewMetadataRequestTopic(), "unknown"
					t.Topic = &name
					req.Topics = append(req.Topics, t)
					if err := kerr.ErrorForCode(ask[*kmsg.MetadataResponse](groupClient{p}, req).Topics[0].ErrorCode); !errors.Is(err, kerr.UnknownTopicOrPartition) {
						p.t.Errorf("%v", err)
					}
				},
				"delete.topic.enable": func(p *process) {
					req := kmsg.NewPtrDeleteTopicsRequest()
					t := kmsg.NewDeleteTopicsRequestTopic()
					t.TopicID = p.make("d", 1, 1).TopicID
					req.TimeoutMillis, req.Topics = 10_000, append(req.Topics, t)
					if err := kerr.ErrorForCode(ask[*kmsg.DeleteTopicsResponse](groupClient{p}, req).Topics[0].ErrorCode); !errors.Is(err, kerr.TopicDeletionDisabled) {
						p.t.Errorf("%v", err)
					}
				},
			}},
		{name: "requests", set: []string{"request.timeout.ms=100", "max.incremental.fetch.session.cache.slots=0", "fetch.max.bytes=1024", "barnabas.produce.validation=full"},
			broker: map[string]func(*process){
				"request.timeout.ms":                        answersInTime,
				"max.incremental.fetch.session.cache.slots": keepsNoSession,
				"fetch.max.bytes":                           fetchesLittle,
				"barnabas.produce.validation":               opensBatches,
			}},
	}
}

// answersInTime: the next producer id is somebody else's turn, for ever.
func answersInTime(p *process) {
	turn := p.b.parts.cluster.ids.turn
	turn <- struct{}{}
	defer func() { <-turn }()
	began := time.Now()
	err := kerr.ErrorForCode(ask[*kmsg.InitProducerIDResponse](groupClient{p}, kmsg.NewPtrInitProducerIDRequest()).ErrorCode)
	if d := time.Since(began); err == nil || d < 100*time.Millisecond || d > 15*time.Second {
		p.t.Errorf("%v after %v", err, d)
	}
}
