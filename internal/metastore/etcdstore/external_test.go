package etcdstore

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/metastore/storetest"
)

// listening starts an etcd with a client listener and returns its address.
func listening(t *testing.T, tlsInfo *transport.TLSInfo) string {
	t.Helper()
	mcfg, err := Config{Member: testMember(t)}.withDefaults()
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := embedConfig(mcfg)
	if err != nil {
		t.Fatal(err)
	}
	u := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	if tlsInfo != nil {
		u.Scheme = "https"
		cfg.ClientTLSInfo = *tlsInfo
	}
	cfg.ListenClientUrls = []url.URL{u}
	cfg.AdvertiseClientUrls = []url.URL{u}
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newZap(slog.New(slog.DiscardHandler), func(err error) { panic(err) }))
	segmentOnce.Do(setSegment)
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	m := &member{cfg: mcfg, etcd: e, removed: new(atomic.Bool)}
	if err := m.elect(context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	return e.Clients[0].Addr().String()
}

func TestExternalConformance(t *testing.T) {
	storetest.Run(t, func(t *testing.T) metastore.Store {
		return run(t, Config{Endpoints: []string{listening(t, nil)}})
	})
}

// The same over TLS with client certificates.
func TestExternalTLSConformance(t *testing.T) {
	info, cfg := certificates(t)
	storetest.Run(t, func(t *testing.T) metastore.Store {
		return run(t, Config{Endpoints: []string{"https://" + listening(t, info)}, TLS: cfg})
	})
}

// certificates makes one self-signed certificate for server and client.
func certificates(t *testing.T) (*transport.TLSInfo, *tls.Config) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
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
	der, err := x509.CreateCertificate(rand.Reader, tmpl, tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, data := range map[string][]byte{certFile: certPEM, keyFile: keyPEM} {
		if err := os.WriteFile(name, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return &transport.TLSInfo{CertFile: certFile, KeyFile: keyFile, TrustedCAFile: certFile, ClientCertAuth: true},
		&tls.Config{Certificates: []tls.Certificate{pair}, RootCAs: pool, MinVersion: tls.VersionTLS12}
}

// proxy is a TCP relay whose answers can be swallowed and whose connections can be cut.
type proxy struct {
	net.Listener
	target string

	mu      sync.Mutex
	mute    chan struct{} // not nil: answers wait until it is closed
	conns   []net.Conn
	onBytes func() // called once at the next bytes from the client
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: l, target: target}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s, err := net.Dial("tcp", target)
			if err != nil {
				_ = c.Close()
				continue
			}
			p.mu.Lock()
			p.conns = append(p.conns, c, s)
			p.mu.Unlock()
			wg.Go(func() { p.relay(s, c, true) })
			wg.Go(func() { p.relay(c, s, false) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.cut()
		p.setMute(false)
		wg.Wait()
	})
	return p
}

func (p *proxy) relay(dst, src net.Conn, request bool) {
	buf := make([]byte, 32<<10)
	for {
		n, err := src.Read(buf)
		p.mu.Lock()
		mute, hook := p.mute, p.onBytes
		if request && n > 0 {
			p.onBytes = nil
		}
		p.mu.Unlock()
		if !request && mute != nil {
			<-mute
		}
		if n > 0 {
			if _, werr := dst.Write(buf[:n]); werr != nil {
				err = werr
			}
		}
		if request && n > 0 && hook != nil {
			hook()
		}
		if err != nil {
			_ = dst.Close()
			_ = src.Close()
			return
		}
	}
}

func (p *proxy) setMute(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on && p.mute == nil {
		p.mute = make(chan struct{})
	}
	if !on && p.mute != nil {
		close(p.mute)
		p.mute = nil
	}
}

func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}

func putTxn(key, value string) metastore.Txn {
	return metastore.Txn{Then: []metastore.Op{{Kind: metastore.Put, Key: key, Value: []byte(value)}}}
}

// waitFor waits until the key is there.
func waitFor(t *testing.T, s metastore.Store, key string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w, err := s.Watch(ctx, key, 1)
	if err != nil {
		t.Fatal(err)
	}
	for c := range w.C() {
		if len(c.Events) > 0 {
			return
		}
	}
	t.Fatalf("%s did not come: %v", key, w.Err())
}

// The request arrives, the answer does not: a maybe that was carried out.
func TestLostAnswerIsMaybe(t *testing.T) {
	addr := listening(t, nil)
	p := newProxy(t, addr)
	s := run(t, Config{Endpoints: []string{p.Addr().String()}})
	direct := run(t, Config{Endpoints: []string{addr}})
	if _, err := s.Txn(context.Background(), putTxn("a", "1")); err != nil {
		t.Fatal(err)
	}
	p.setMute(true)
	ctx, cancel := context.WithCancel(context.Background())
	got := make(chan error, 1)
	go func() {
		_, err := s.Txn(ctx, putTxn("muted", "1"))
		got <- err
	}()
	waitFor(t, direct, "muted") // it certainly was carried out
	cancel()
	err := <-got
	if !errors.Is(err, metastore.ErrMaybe) || errors.Is(err, metastore.ErrUnavailable) {
		t.Fatalf("lost answer: %v", err)
	}
	p.setMute(false)
}

// The connection breaks under a request.
func TestBrokenConnectionIsMaybe(t *testing.T) {
	addr := listening(t, nil)
	p := newProxy(t, addr)
	s := run(t, Config{Endpoints: []string{p.Addr().String()}})
	if _, err := s.Txn(context.Background(), putTxn("a", "1")); err != nil {
		t.Fatal(err)
	}
	p.setMute(true)
	p.mu.Lock()
	p.onBytes = p.cut
	p.mu.Unlock()
	_, err := s.Txn(context.Background(), putTxn("b", "1"))
	if !errors.Is(err, metastore.ErrMaybe) || errors.Is(err, metastore.ErrUnavailable) {
		t.Fatalf("broken connection: %v", err)
	}
	// The client finds its way back by itself.
	p.setMute(false)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for ctx.Err() == nil {
		if _, err = s.Txn(ctx, putTxn("c", "1")); err == nil {
			return
		}
	}
	t.Fatalf("after the break: %v", err)
}

// Nobody is there: certainly not carried out.
func TestNoServerIsUnavailable(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	s := run(t, Config{Endpoints: []string{addr}, RequestTimeout: 500 * time.Millisecond})
	if _, err := s.Rev(context.Background()); !errors.Is(err, metastore.ErrUnavailable) {
		t.Fatalf("rev: %v", err)
	}
	if _, err := s.List(context.Background(), "a", "", 0, 0); !errors.Is(err, metastore.ErrUnavailable) {
		t.Fatalf("list: %v", err)
	}
	if _, err = s.Txn(context.Background(), putTxn("a", "1")); err == nil || errors.Is(err, metastore.ErrMaybe) != !errors.Is(err, metastore.ErrUnavailable) {
		t.Fatalf("txn: %v", err)
	}
	t.Log(err)
}

// A watch survives a broken connection without a gap: client v3 resumes it.
func TestWatchSurvivesBrokenConnection(t *testing.T) {
	addr := listening(t, nil)
	p := newProxy(t, addr)
	s := run(t, Config{Endpoints: []string{p.Addr().String()}})
	direct := run(t, Config{Endpoints: []string{addr}})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	w, err := s.Watch(ctx, "k", 0)
	if err != nil {
		t.Fatal(err)
	}
	want := int64(0)
	for i := range 3 {
		r, err := direct.Txn(ctx, putTxn("k", "1"))
		if err != nil {
			t.Fatal(err)
		}
		if want == 0 {
			want = r.Rev
		}
		if i == 1 {
			p.cut()
		}
	}
	for end := want + 3; want < end; {
		c, ok := <-w.C()
		if !ok {
			t.Fatalf("watch ended: %v", w.Err())
		}
		for _, e := range c.Events {
			if e.KV.ModRev != want {
				t.Fatalf("revision %d, want %d", e.KV.ModRev, want)
			}
			want++
		}
	}
}
