package broker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/metastore/etcdstore"
)

// selfSigned makes a certificate that is its own CA, and its key.
func selfSigned(t *testing.T) (cert, key string) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "metadata"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: keyDER}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return cert, key
}

// overTLS: the broker speaks to a metadata store that wants a certificate, with
// the right files, and cannot where one of them is another's.
func overTLS(wrong string) func(*testing.T) {
	return func(t *testing.T) {
		cert, key := selfSigned(t)
		c := embed.NewConfig()
		c.Dir, c.LogLevel = t.TempDir(), "fatal"
		loopback := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
		secure := url.URL{Scheme: "https", Host: "127.0.0.1:0"}
		c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{secure}, []url.URL{secure}
		c.ListenPeerUrls, c.AdvertisePeerUrls = []url.URL{loopback}, []url.URL{loopback}
		c.InitialCluster = c.InitialClusterFromName(c.Name)
		c.ClientTLSInfo = transport.TLSInfo{CertFile: cert, KeyFile: key, TrustedCAFile: cert, ClientCertAuth: true}
		e, err := embed.StartEtcd(c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		<-e.Server.ReadyNotify()
		set := func(cert, key, ca string) []string {
			return []string{"log.dirs=" + t.TempDir(), "barnabas.metadata.endpoints=" + e.Clients[0].Addr().String(),
				"barnabas.metadata.tls.certificate.file=" + cert, "barnabas.metadata.tls.key.file=" + key, "barnabas.metadata.tls.ca.file=" + ca}
		}
		startBroker(t, nil, set(cert, key, cert)...)
		otherCert, otherKey := selfSigned(t)
		files := map[string]string{"certificate": cert, "key": key, "ca": cert}
		files[wrong] = map[string]string{"certificate": otherCert, "key": otherKey, "ca": otherCert}[wrong]
		b, err := New(Options{Set: append(set(files["certificate"], files["key"], files["ca"]),
			"listeners=PLAINTEXT://127.0.0.1:0", "barnabas.admin.listener=", "initial.broker.registration.timeout.ms=300")})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		if err := b.Run(ctx); err == nil || ctx.Err() != nil {
			t.Errorf("with another %s: %v", wrong, err)
		}
	}
}

// What the metadata store is told, in each of its forms.
func TestMetadataConfig(t *testing.T) {
	const three = "controller.quorum.voters=1@127.0.0.1:9093,2@node2:9093,3@[::1]:9093"
	of := func(set ...string) etcdstore.Config {
		t.Helper()
		cfg, _, err := config.Load(config.Options{Set: set})
		if err != nil {
			t.Fatal(err)
		}
		node, err := cfg.Broker(nil)
		if err != nil {
			t.Fatal(err)
		}
		return (&Broker{cfg: cfg, node: node}).metadataConfig()
	}
	alone := of("log.dirs=/d")
	if alone.Member.Dir != "/d/metadata" || len(alone.Voters)+len(alone.Bootstrap) != 0 || alone.Member.Listen != "" {
		t.Errorf("alone: %+v", alone)
	}
	voter := of("log.dirs=/d", three, "controller.quorum.auto.join.enable=true", "barnabas.metadata.plaintext=true",
		"listeners=PLAINTEXT://127.0.0.1:9092,CONTROLLER://:9093", "controller.listener.names=CONTROLLER")
	want := []etcdstore.Voter{{ID: 1, Address: "127.0.0.1:9093"}, {ID: 2, Address: "node2:9093"}, {ID: 3, Address: "[::1]:9093"}}
	if len(voter.Voters) != 3 || voter.Voters[0] != want[0] || voter.Voters[1] != want[1] || voter.Voters[2] != want[2] ||
		voter.Member.ID != 1 || !voter.Member.Join || !voter.Plaintext || voter.Member.Listen != ":9093" {
		t.Errorf("voter: %+v", voter)
	}
	if _, err := etcdstore.New(voter, nil, nil); err != nil {
		t.Errorf("voter: %v", err)
	}
	broker := of("log.dirs=/d", three, "node.id=4", "process.roles=broker")
	if broker.Member.Dir != "" || len(broker.Voters) != 3 {
		t.Errorf("broker: %+v", broker)
	}
	finds := of("log.dirs=/d", "controller.quorum.bootstrap.servers=a:1,b:2", "node.id=4", "process.roles=broker")
	if finds.Member.Dir != "" || len(finds.Voters) != 0 || len(finds.Bootstrap) != 2 {
		t.Errorf("a broker that finds its voters: %+v", finds)
	}
	elsewhere := of("log.dirs=/d", "barnabas.metadata.endpoints=a:1,b:2")
	if len(elsewhere.Endpoints) != 2 || elsewhere.Member.Dir != "" {
		t.Errorf("elsewhere: %+v", elsewhere)
	}
}
