//go:build unix

package brokertest_test

import (
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
	"go.etcd.io/etcd/server/v3/embed"
)

// A process that is killed is missed by the others at once, and not when its
// session is over, whoever it was; it comes back under its number (safety 34).
func TestKilledBrokerIsMissedAtOnce(t *testing.T) {
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
	at := "barnabas.metadata.endpoints=" + e.Clients[0].Addr().String()
	dir := t.TempDir()
	join := func(node string) *process {
		return spawn(t, dir+"/"+node, 0, at, "node.id="+node, "broker.session.timeout.ms=300000")
	}
	one, two, three := join("1"), join("2"), join("3")
	seen := three.dial()
	seen.awaitCluster(1, 1, 2, 3)
	two.kill()
	seen.awaitCluster(1, 1, 3)
	one.kill() // the controller
	seen.awaitCluster(3, 3)
	join("2")
	again := join("1")
	seen.awaitCluster(3, 1, 2, 3)
	again.stop()
	seen.awaitCluster(3, 2, 3)
}

// awaitCluster waits until a broker tells of these brokers and that controller.
func (p *peer) awaitCluster(controller int32, brokers ...int32) {
	p.t.Helper()
	req := kmsg.NewPtrMetadataRequest()
	req.Version = 9
	req.Topics = []kmsg.MetadataRequestTopic{}
	end := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		resp := ask[*kmsg.MetadataResponse](p, req)
		var ids []int32
		for _, b := range resp.Brokers {
			ids = append(ids, b.NodeID)
		}
		slices.Sort(ids)
		if resp.ControllerID == controller && slices.Equal(ids, brokers) {
			return
		}
		if time.Now().After(end) {
			p.t.Fatalf("brokers %v under %d, want %v under %d", ids, resp.ControllerID, brokers, controller)
		}
		<-tick.C
	}
}
