package broker

import (
	"net/url"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// clusterProofs are of keys that count where a broker is one of several.
func clusterProofs() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"barnabas.shutdown.timeout.ms": handsOverInTime,
		"broker.session.timeout.ms":    holdsASession,
		"barnabas.cluster.id":          keepsClustersApart,

		"controller.quorum.bootstrap.servers": metadataForBrokers,
		"controller.quorum.auto.join.enable":  joinsAgain,
		"barnabas.metadata.plaintext":         inPlainText,
	}
}

// externalEtcd starts an etcd beside the brokers.
func externalEtcd(t *testing.T) (address string) {
	t.Helper()
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
	return e.Clients[0].Addr().String()
}

// holdsASession: the lease of a broker's registration is granted for that long,
// less what the quorum may add to it.
func holdsASession(t *testing.T) {
	at := externalEtcd(t)
	p := startBroker(t, nil, "log.dirs="+t.TempDir(), "barnabas.metadata.endpoints="+at, "broker.session.timeout.ms=7000")
	cl, err := clientv3.New(clientv3.Config{Endpoints: []string{at}})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	l, err := cl.TimeToLive(p.ctx(), clientv3.LeaseID(p.registered(1).Lease))
	if err != nil || l.GrantedTTL != 5 {
		t.Errorf("%+v: %v", l, err)
	}
}

// keepsClustersApart: two clusters live in one store, each of the same number's
// broker, where they are told their names; otherwise the second is the first.
func keepsClustersApart(t *testing.T) {
	mem := metastore.NewMem()
	red := startOn(t, mem, "1", "barnabas.cluster.id=red")
	blue := startOn(t, mem, "1", "barnabas.cluster.id=blue")
	red.createTopic("t", 1)
	if red.b.ClusterID() != "red" || blue.b.ClusterID() != "blue" {
		t.Errorf("%s and %s", red.b.ClusterID(), blue.b.ClusterID())
	}
	blue.createTopic("t", 2)
	if r, b := len(red.leaders("t")), len(blue.leaders("t")); r != 1 || b != 2 {
		t.Errorf("partitions: %d and %d", r, b)
	}
	if _, err := New(Options{Set: []string{"barnabas.cluster.id=a/b"}}); err == nil {
		t.Error("an id that is no part of a key is taken")
	}
}
