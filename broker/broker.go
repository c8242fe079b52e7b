// Package broker is Barnabas as a Go value: configuration in, wired parts out.
// It is the one place that knows every part.
//
//	b, err := broker.New(broker.Options{Set: []string{"log.dirs=/var/lib/barnabas"}})
//	...
//	err = b.Run(ctx) // until ctx ends: then leaders are given up, data is flushed, the directory is marked clean
//
// New reads configuration and nothing else. Run may be called once. Addr,
// Ready and Missing may be called from any goroutine at any time.
package broker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/levels"
	"github.com/barnabas-mq/barnabas/internal/life"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Options of New. The zero value is one broker with the documented defaults.
type Options struct {
	// File is a properties file in Apache Kafka's format; "" for none.
	File string
	// Environ holds NAME=value settings, as os.Environ gives them; nil for none.
	Environ []string
	// Set holds key=value settings, which win over the file and the environment.
	Set []string
	// Config is settings that were read already, in place of File, Environ and
	// Set: for the command line in this module.
	Config *config.Config
	// Logger gets one line per change of state; nil logs to nowhere.
	Logger *slog.Logger
	// Levels are those that Logger goes by, for the command line in this module;
	// nil: levels of its own over what Logger takes.
	Levels *levels.Levels
	// Version is told on the admin listener's metrics; "" is "unknown".
	Version string
	// World is what the broker stands on in place of this machine, for the
	// simulation in this module; nil is this machine.
	World *World

	files vfs.FS               // of the log directories; nil is the real one
	store metastore.Store      // of the metadata; nil is etcd, as the configuration says
	clock func() time.Duration // of the session; nil is the system's
}

// World is what a broker stands on. What is nil is this machine's.
type World struct {
	Files vfs.FS
	Store metastore.Store
	// BootID is another one whenever Files lost what was not synced; "": unknown.
	BootID string
	// Clock is what the session goes by: safety does not depend on it.
	Clock  func() time.Duration
	Listen func(ctx context.Context, address string) (net.Listener, error)
	Dial   func(ctx context.Context, address string) (net.Conn, error)
}

// stand has the broker stand there.
func (o *Options) stand() *World {
	w := o.World
	if w == nil {
		w = &World{}
		if o.files == nil {
			w.BootID = bootID()
		}
		return w
	}
	o.files, o.store, o.clock = w.Files, w.Store, w.Clock
	return w
}

// bootID is the running system's, where it has one: Linux.
func bootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return string(bytes.TrimSpace(id))
}

// Broker is one broker, with the metadata store in it where it votes.
type Broker struct {
	cfg     *config.Config // as it was started with
	running *config.Config // with what Reload made take effect
	node    config.Broker
	log     *slog.Logger
	levels  *levels.Levels
	startID string
	reg     *prometheus.Registry
	files   vfs.FS
	bootID  string
	listen  func(ctx context.Context, address string) (net.Listener, error) // nil: TCP
	dial    func(ctx context.Context, address string) (net.Conn, error)     // to other brokers
	ready   chan struct{}
	parts   parts
}

// New reads and checks the configuration.
func New(o Options) (*Broker, error) {
	log := o.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	logged := o.Levels
	if logged == nil {
		logged = levels.Of(log.Handler())
		log = slog.New(logged.Handler(log.Handler()))
	}
	cfg := o.Config
	if cfg == nil {
		var warnings []string
		var err error
		if cfg, warnings, err = config.Load(config.Options{File: o.File, Environ: o.Environ, Set: o.Set}); err != nil {
			return nil, err
		}
		for _, w := range warnings {
			log.Warn(w)
		}
	}
	if o.Levels != nil || cfg.IsSet("barnabas.log.level") {
		logged.Configure(cfg.LogLevels())
	}
	node, err := cfg.Broker(nil)
	if err != nil {
		return nil, err
	}
	if err := supported(node); err != nil {
		return nil, err
	}
	w := o.stand()
	b := &Broker{
		cfg: cfg, running: cfg, node: node, log: log, levels: logged, startID: storage.NewUUID().String(),
		reg: prometheus.NewRegistry(), ready: make(chan struct{}), files: o.files, listen: w.Listen, dial: w.Dial, bootID: w.BootID,
	}
	if b.files == nil {
		b.files = vfs.Real
	}
	if b.dial == nil {
		b.dial = func(ctx context.Context, address string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "tcp", address)
		}
	}
	b.reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo(o.Version))
	return b, b.build(o)
}

func buildInfo(version string) prometheus.Collector {
	if version == "" {
		version = "unknown"
	}
	g := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "barnabas_build_info", Help: "1, with the version as a label.", ConstLabels: prometheus.Labels{"version": version},
	})
	g.Set(1)
	return g
}

// supported refuses what this version cannot be part of.
func supported(n config.Broker) error {
	if !n.IsBroker {
		return errors.New("process.roles: a controller without a broker is not supported yet: use broker,controller")
	}
	return nil
}

// Run serves until ctx ends, which is not an error, or a part fails. When it
// returns, every goroutine is gone and the data directories are unlocked.
func (b *Broker) Run(ctx context.Context) error {
	g := life.New(b.log)
	for _, p := range b.sequence() {
		g.Add(p)
	}
	return g.Run(ctx)
}

// Ready is closed once the broker serves.
func (b *Broker) Ready() <-chan struct{} { return b.ready }

// Addr is where a listener listens; "" before Run opened it, and for a name
// that is not configured.
func (b *Broker) Addr(listener string) string {
	if a := b.parts.server.Addr(listener); a != nil {
		return a.String()
	}
	return ""
}

// Addrs are the listeners' addresses, as NAME://host:port, in the order of the
// configuration.
func (b *Broker) Addrs() []string {
	var out []string
	for _, l := range b.node.Listeners {
		out = append(out, l.Name+"://"+b.Addr(l.Name))
	}
	return out
}

// AdminAddr is where the admin listener listens; "" for none.
func (b *Broker) AdminAddr() string {
	if a := b.parts.adminAddr.Load(); a != nil {
		return (*a).String()
	}
	return ""
}

// ClusterID is the cluster's id, known once the broker is ready.
func (b *Broker) ClusterID() string { return b.parts.keeper.Image().ClusterID() }

// advertisedPort replaces port 0 by the one that was picked.
func advertisedPort(a net.Addr, configured int32) int32 {
	if t, ok := a.(*net.TCPAddr); ok && configured == 0 {
		return int32(t.Port)
	}
	return configured
}
