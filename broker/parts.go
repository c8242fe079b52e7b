package broker

import (
	"context"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/barnabas-mq/barnabas/internal/admin"
	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/controller"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/life"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/metastore/etcdstore"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/replica/fetcher"
	"github.com/barnabas-mq/barnabas/internal/server"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/telemetry/otlp"
)

// parts of a broker, made by build and started by sequence.
type parts struct {
	logs     *storage.Manager
	store    metastore.Store
	engine   func(context.Context) error // runs the store
	member   *member
	pulse    *pulse
	replicas *replica.Manager
	keeper   *imageKeeper
	control  *control
	inSync   *inSync
	fetchers *fetcher.Fetchers
	// Of replicas that are throttled, when they lead and when they follow.
	slowLeaders, slowFollowers *replica.Throttle
	cluster                    *wishes
	groups                     *groups
	pushed                     *otlp.Store // metrics of clients
	server                     *server.Server
	dynamic                    *dynamic

	opened, begun chan struct{} // closed once the logs are open, and the metadata can be followed

	adminAddr atomic.Pointer[net.Addr]
	dirFailed chan error // the last log directory is gone
}

// build makes the parts that need no I/O to be made.
func (b *Broker) build(o Options) error {
	n, p := b.node, &b.parts
	s := newSettings(b.cfg, n.NodeID, b.log.With("part", "config"))
	p.dirFailed = make(chan error, 1)
	p.logs = storage.New(b.storageConfig(s), b.files, b.log.With("part", "storage"), b.reg)
	p.logs.SetMoveRate(n.Storage.MoveBytesPerSecond)
	p.opened, p.begun = make(chan struct{}), make(chan struct{})
	if err := b.buildStore(o); err != nil {
		return err
	}
	p.replicas = replica.NewManager(n.NodeID, p.logs, s.forPartition, b.log.With("part", "replica"))
	b.reg.MustRegister(p.replicas.Collector())
	p.keeper = newImageKeeper(n.NodeID, b.startID, p.replicas, b.log.With("part", "metadata"))
	s.image = p.keeper.Image
	b.buildMember(o)
	p.control = &control{
		keeper: p.keeper, store: p.store, unclean: s.unclean, self: n.NodeID, log: b.log.With("part", "controller"),
		offline: b.offlineDirs, cordoned: p.logs.Cordoned, dirFailed: make(chan struct{}, 1), patience: n.Storage.OfflineReportingTimeout,
	}
	p.replicas.Moved = func(a replica.Assignment) {
		p.keeper.moved(a)
		p.control.dirsChanged()
	}
	p.inSync = newInSync(p.keeper, p.store, p.replicas, n.Replication.Lag, b.log.With("part", "replica"))
	p.replicas.Propose = p.inSync.propose
	p.slowLeaders, p.slowFollowers = replica.NewThrottle(n.Replication.LeaderRate), replica.NewThrottle(n.Replication.FollowerRate)
	p.fetchers = fetcher.New(b.fetcherConfig())
	p.replicas.Entered = p.fetchers.Entered
	if b.cfg.Bool("auto.leader.rebalance.enable") {
		p.control.rebalance = time.Duration(b.cfg.Int("leader.imbalance.check.interval.seconds")) * time.Second
	}
	p.cluster = newWishes(p.keeper, p.store, p.replicas, b.log.With("part", "metadata"))
	p.groups = newGroups(s, p.keeper, p.cluster, p.replicas, b.log.With("part", "groups"), b.reg)
	p.control.grow = []controller.Grown{{Topic: api.OffsetsTopic, Factor: int(p.groups.cfg.Offsets.Replicas)}}
	p.keeper.published = func(img *meta.Image, d *meta.Delta, resync bool) {
		p.groups.follow(img, d, resync)
		if len(d.BrokersUp)+len(d.BrokersChanged) > 0 {
			p.fetchers.Wake()
		}
	}
	p.groups.valid = b.validity()
	p.dynamic = &dynamic{settings: s, parts: p}
	p.keeper.carryOut = func(img *meta.Image) {
		p.member.look(img)
		p.dynamic.carryOut(img)
	}
	b.reg.MustRegister(p.groups.Collector())
	p.pushed = otlp.NewStore(int(b.cfg.Int("telemetry.max.bytes")), nil)
	b.reg.MustRegister(p.pushed)
	p.server = server.New(b.serverConfig(), b.handlers(s).Table())
	return nil
}

// buildStore makes the metadata store, unless there is one.
func (b *Broker) buildStore(o Options) error {
	p := &b.parts
	if o.store != nil {
		p.store, p.engine = o.store, func(ctx context.Context) error {
			<-ctx.Done()
			return nil
		}
		return nil
	}
	s, err := etcdstore.New(b.metadataConfig(), b.log.With("part", "metadata"), b.reg)
	if err != nil {
		return err
	}
	p.store, p.engine = s, s.Run
	return nil
}

func (b *Broker) buildMember(o Options) {
	p, n := &b.parts, b.node
	p.member = newMember(n.NodeID, b.startID, p.store, p.keeper, b.log.With("part", "metadata"))
	p.member.giveUp = b.giveUp
	p.member.tells, p.member.wait, p.member.clock = b.registration, n.Metadata.ShutdownTimeout, o.clock
	if o.store != nil || !n.Metadata.Alone() {
		p.member.ttl = n.Metadata.Lease
	}
	b.reg.MustRegister(p.member.collectors()...)
	p.pulse = &pulse{
		self: n.NodeID, listener: n.InterBroker, keeper: p.keeper, store: p.store, valid: p.member.Valid, dial: b.dial, log: b.log.With("part", "controller"),
	}
}

// validity is what requests are fenced by: nothing where there is no session.
func (b *Broker) validity() func() bool {
	if b.parts.member.ttl == 0 {
		return nil
	}
	return b.parts.member.Valid
}

func (b *Broker) storageConfig(s *settings) storage.ManagerConfig {
	n := b.node.Storage
	files := 0 // storage's own bound
	if limit, known := openFilesLimit(); known && limit/4 < 4096 {
		files = int(limit / 4) // beside connections, and files that are not synced yet
	}
	return storage.ManagerConfig{
		MaxOpenFiles:       files,
		Dirs:               n.Dirs,
		RecoveryThreads:    n.RecoveryThreads,
		CheckpointInterval: n.RecoveryPointInterval,
		StartsInterval:     n.LogStartInterval,
		MarksInterval:      n.HighWatermarkInterval,
		FlushInterval:      n.FlushSchedulerInterval,
		RetentionInterval:  n.RetentionInterval,
		LowWaterBytes:      n.ReserveBytes,
		Defaults:           storageConfig(s.static.Topic(nil)),
		NodeID:             b.node.NodeID,
		BootID:             b.bootID,
		ProducerExpiration: n.ProducerIDExpiry,
		Cordoned:           n.Cordoned,
		ClusterID:          b.node.Metadata.ClusterID,
		MoveWorkers:        n.MoveWorkers,
		DirFailed:          b.dirFailed,
	}
}

// metadataConfig: an etcd that is elsewhere, a member of this process, or the voters' clients.
func (b *Broker) metadataConfig() etcdstore.Config {
	m := b.node.Metadata
	c := etcdstore.Config{Endpoints: m.Endpoints, Files: etcdstore.Files(m.TLS), Plaintext: m.Plaintext}
	if len(m.Endpoints) > 0 {
		return c
	}
	for _, v := range m.Voters {
		c.Voters = append(c.Voters, etcdstore.Voter{ID: v.ID, Address: net.JoinHostPort(v.Host, strconv.Itoa(int(v.Port)))})
	}
	c.Bootstrap = m.Bootstrap
	if !b.node.Votes() {
		return c
	}
	c.Member = etcdstore.Member{Dir: filepath.Join(m.Dir, "metadata"), ID: int32(b.node.NodeID), Join: m.Join}
	if len(b.node.Peers) > 0 { // what is bound; what others are told is the voter's address
		c.Member.Listen = b.node.Peers[0].Address()
	}
	return c
}

func (b *Broker) serverConfig() server.Config {
	n := b.node.Network
	c := server.Config{
		MaxFrameBytes:      int64(n.RequestMaxBytes),
		QueuedBytes:        n.InFlightMaxBytes,
		MaxIdle:            n.IdleTimeout,
		Limits:             connectionLimits(n),
		Backlog:            n.Backlog,
		SendBufferBytes:    max(n.SendBufferBytes, 0),
		ReceiveBufferBytes: max(n.ReceiveBufferBytes, 0),
		Listen:             b.listen,
		Logger:             b.log.With("part", "server"),
		Metrics:            b.reg,
	}
	for _, l := range b.node.Listeners {
		c.Listeners = append(c.Listeners, server.Listener{
			Name: l.Name, Address: l.Address(), InterBroker: l.Name == b.node.InterBroker && len(b.node.Listeners) > 1,
		})
	}
	return c
}

// connectionLimits are the server's, out of the settings and what the process may open.
func connectionLimits(n config.Network) server.Limits {
	l := server.Limits{Connections: n.MaxConnections, PerIP: n.MaxPerIP, Overrides: n.PerIP, Rate: n.ConnectionRate}
	if l.PerIP == 0 {
		l.PerIP = -1 // as in Apache Kafka: only addresses that have a limit of their own
	}
	if limit, known := openFilesLimit(); known {
		// Connections get half of what the process may open: without files for
		// the logs nothing of what they ask could be done.
		half := int(min(limit/2, math.MaxInt32))
		if l.Connections <= 0 || l.Connections > half {
			l.Connections = half
		}
	}
	return l
}

func (b *Broker) handlers(s *settings) *api.API {
	p := &b.parts
	return api.New(api.Deps{
		Self:       b.node.NodeID,
		Image:      p.keeper.Image,
		Await:      p.keeper.Await,
		CatchUp:    func(ctx context.Context) { p.cluster.catchUp(ctx) },
		Partitions: p.replicas,
		Here:       b.here,
		Valid:      b.validity(),
		Cluster:    p.cluster,
		Groups:     p.groups,
		Settings:   s,
		Dynamic:    s,
		Levels:     b.levels,
		LogDirs:    p.logs,
		Limits: api.Limits{
			FetchMaxBytes:     int(b.node.Network.FetchMaxBytes),
			SessionSlots:      b.node.Network.FetchSessions,
			PageOfPartitions:  int(b.cfg.Int("max.request.partition.size.limit")),
			AutoCreate:        b.node.Topics.AutoCreate,
			DeleteTopics:      b.node.Topics.Delete,
			NumPartitions:     b.node.Topics.Partitions,
			ReplicationFactor: b.node.Topics.ReplicationFactor,
			RequestTimeout:    b.cfg.Duration("request.timeout.ms"),
		},
		RackAware: b.node.Replication.RackAware,
		Throttle:  p.slowLeaders,
		Features:  api.Features{Supported: supportedFeatures(), Update: p.cluster.updateFeatures},
		Quorum:    b.quorum,
		Voters:    voters{b},
		Telemetry: api.Telemetry{MaxBytes: p.pushed.MaxBytes(), Push: p.pushed.Push},
		Log:       b.log.With("part", "api"),
		Metrics:   api.NewMetrics(b.reg),
	})
}

// dirFailed is told that a log directory went offline.
func (b *Broker) dirFailed(_ kafka.DirID, err error, left int) {
	if left > 0 {
		b.parts.control.dirsChanged()
		return
	}
	select {
	case b.parts.dirFailed <- err:
	default:
	}
}

// setCordoned changes which log directories take no new replicas, now and in
// the registration.
func (p *parts) setCordoned(paths []string) {
	p.logs.SetCordoned(paths)
	p.control.dirsChanged()
}

// offlineDirs are the log directories that cannot be used until the next start.
func (b *Broker) offlineDirs() []kafka.DirID {
	var out []kafka.DirID
	for _, d := range b.parts.logs.Dirs() {
		if d.Offline != nil {
			out = append(out, d.ID)
		}
	}
	return out
}

// sequence is the order of the start; the stop goes the other way, each part
// gone before the one above it is asked to go. Ports are taken first, and clients
// are answered before the metadata is there and the logs are (safety 36); the broker is a member for
// longer than its logs are open, and leaves while it still serves.
func (b *Broker) sequence() []life.Part {
	p := &b.parts
	seq := []life.Part{
		{Name: "log directory", Start: b.claim, Run: b.watchDirs},
		{Name: "listeners", Start: p.server.Listen, Run: b.holdPorts},
		{Name: "metadata store", Run: p.engine},
		{Name: "registration", Run: p.member.Run},
		{Name: "logs", Run: b.runLogs},
		{Name: "group coordinator", Run: p.groups.run.Run},
		{Name: "metadata", Run: b.follow},
		{Name: "new logs", Run: p.keeper.makeLogs},
		{Name: "wishes", Run: p.cluster.Run},
		{Name: "clients", Run: p.server.Run},
		{Name: "start", Start: b.begin},
		{Name: "membership", Start: b.intime(p.member.join)},
		{Name: "controller", Run: p.control.Run},
		{Name: "in-sync replicas", Run: p.inSync.Run},
		{Name: "followers", Run: p.fetchers.Run},
		{Name: "pulse", Run: p.pulse.Run},
		{Name: "handing over", Run: p.member.leave},
		{Name: "readiness", Start: b.awaitReady},
	}
	if b.node.Admin == "" {
		return seq
	}
	a := admin.New(admin.Config{
		Address: b.node.Admin, Gatherer: b.reg, Healthy: b.healthy, Ready: b.readiness, Log: b.log.With("part", "admin"),
	})
	a.Handle("GET /metadata/", admin.Metadata(p.keeper.Image))
	a.Handle("GET /metadata-backup", http.HandlerFunc(b.backup))
	return append([]life.Part{{Name: "admin listener", Start: func(context.Context) error {
		addr, err := a.Listen()
		if err == nil {
			p.adminAddr.Store(&addr)
		}
		return err
	}, Run: a.Run}}, seq...)
}
