package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// Broker is what a process needs to know to start, typed and checked.
type Broker struct {
	NodeID       kafka.NodeID
	Rack         string
	IsBroker     bool
	IsController bool

	Listeners   []Listener // where clients and brokers connect
	Advertised  []Listener // what they are told; the port of the listener of the same name replaces a 0
	InterBroker string     // name of the listener between brokers
	Peers       []Listener // where the metadata members meet
	Admin       string     // host:port of the admin HTTP, or ""

	Metadata    Metadata
	Network     Network
	Replication Replication
	Storage     Storage
	Topics      Topics
}

// Metadata is how the process reaches the cluster's metadata.
type Metadata struct {
	Dir       string   // of the embedded store
	Voters    []Voter  // nodes that carry it for others to reach
	Bootstrap []string // host:port of voters, for a node that is none
	Endpoints []string // of an external store; empty: embedded
	Join      bool     // an empty directory becomes a member of the voters' cluster
	TLS       MetadataTLS
	Plaintext bool   // voters beyond loopback, without TLS
	ClusterID string // as configured; "" for what the log directories or the store say
	// Lease is what a broker of several asks the metadata store for: less than a
	// Session, by what a loss of the quorum's leader adds to it.
	Lease time.Duration
	// ShutdownTimeout bounds how long a stop waits for others to take over.
	ShutdownTimeout time.Duration
	// RegistrationTimeout bounds the broker's registration at its start.
	RegistrationTimeout time.Duration
}

// MetadataTLS names files in PEM; all are empty for none.
type MetadataTLS struct{ Certificate, Key, CA string }

// minSession is what a metadata store grants at least.
const minSession = 2 * time.Second

// quorumChange is what a loss of the quorum's leader adds to the leases that it
// kept: the voters elect another after one to two seconds, and that one gives
// each lease its whole time again, and a second.
const quorumChange = 2 * time.Second

// Session is how long a broker of several that the metadata store does not hear
// of keeps its registration.
func (c *Config) Session() time.Duration {
	return max(c.Duration("broker.session.timeout.ms"), minSession)
}

// plainID: an id that can stand in a key and in a file as it is.
func plainID(id string) bool {
	return len(id) <= 64 && strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_") == ""
}

// Alone: this node carries the metadata, and nobody else reaches them.
func (m Metadata) Alone() bool { return len(m.Voters)+len(m.Bootstrap)+len(m.Endpoints) == 0 }

// Votes says whether this node carries the embedded store.
func (b Broker) Votes() bool {
	return b.Metadata.Alone() || slices.ContainsFunc(b.Metadata.Voters, func(v Voter) bool { return v.ID == int32(b.NodeID) })
}

// Network bounds what comes in.
type Network struct {
	RequestMaxBytes    int32
	InFlightMaxBytes   int64 // over all connections
	SendBufferBytes    int   // -1: the system's
	ReceiveBufferBytes int
	MaxConnections     int
	MaxPerIP           int
	ConnectionRate     int // a second
	Backlog            int // -1: the system's
	PerIP              map[netip.Addr]int
	IdleTimeout        time.Duration // -1: none
	FetchMaxBytes      int32
	FetchSessions      int
}

// Storage is what the log directories need beside the topics' settings.
type Storage struct {
	Dirs                    []string
	RecoveryThreads         int // per directory
	RetentionInterval       time.Duration
	RecoveryPointInterval   time.Duration
	LogStartInterval        time.Duration
	HighWatermarkInterval   time.Duration
	ProducerIDExpiry        time.Duration
	FlushSchedulerInterval  time.Duration
	FullProduceValidation   bool // barnabas.produce.validation=full
	ReserveBytes            int64
	OfflineReportingTimeout time.Duration
	Cordoned                []string // cordoned.log.dirs, "*" for all
	MoveWorkers             int      // num.replica.alter.log.dirs.threads; 0: one a directory
	MoveBytesPerSecond      int64    // replica.alter.log.dirs.io.max.bytes.per.second
}

// Topics is what a topic gets that is created without saying.
type Topics struct {
	Partitions        int32
	ReplicationFactor int16
	AutoCreate        bool
	Delete            bool // whether topics may be deleted
}

// Broker resolves the settings that concern several keys. host gives the
// address to advertise for a listener on every interface; nil means DefaultHost.
func (c *Config) Broker(host func() string) (Broker, error) {
	if host == nil {
		host = DefaultHost
	}
	b := Broker{
		NodeID: kafka.NodeID(c.Int("node.id")),
		Rack:   c.Text("broker.rack"),
		Admin:  c.Text("barnabas.admin.listener"),
	}
	if b.NodeID < 0 { // broker.id=-1 asks for a number, as it did in Apache Kafka
		b.NodeID = 1
	}
	roles := c.List("process.roles")
	b.IsBroker, b.IsController = slices.Contains(roles, "broker"), slices.Contains(roles, "controller")
	if err := c.addresses(&b, host); err != nil {
		return Broker{}, err
	}
	if err := c.directories(&b); err != nil {
		return Broker{}, err
	}
	if err := c.metadata(&b); err != nil {
		return Broker{}, err
	}
	b.Network = c.Network()
	b.Replication = c.replication()
	b.Storage = c.storage(b.Storage.Dirs)
	b.Topics = Topics{
		Partitions:        int32(c.Int("num.partitions")),
		ReplicationFactor: int16(c.Int("default.replication.factor")),
		AutoCreate:        c.Bool("auto.create.topics.enable"),
		Delete:            c.Bool("delete.topic.enable"),
	}
	return b, nil
}

func (c *Config) addresses(b *Broker, host func() string) error {
	all, err := c.parseListeners("listeners")
	if err != nil {
		return err
	}
	if err := checkPorts(all); err != nil {
		return err
	}
	for _, l := range all {
		if l.Protocol != "PLAINTEXT" {
			return fmt.Errorf("listeners: %s asks for %s, which this version does not speak yet: use PLAINTEXT", l, l.Protocol)
		}
	}
	b.Listeners, b.Peers = c.splitControllers(all)
	if !b.IsBroker {
		b.Listeners = nil
		return nil
	}
	if len(b.Listeners) == 0 {
		return errors.New("listeners: at least one for clients is needed")
	}
	if b.Advertised, err = c.advertised(b.Listeners, host); err != nil {
		return err
	}
	b.InterBroker, err = c.interBroker(b.Listeners, b.Advertised)
	return err
}

func (c *Config) directories(b *Broker) error {
	dirs := c.List("log.dirs")
	if len(dirs) == 0 {
		return errors.New("log.dirs: at least one directory is needed")
	}
	for i, d := range dirs {
		if slices.Contains(dirs[:i], d) {
			return fmt.Errorf("log.dirs: %s stands twice", d)
		}
	}
	b.Storage.Dirs = dirs
	if err := checkCordoned(dirs, c.List("cordoned.log.dirs")); err != nil {
		return err
	}
	b.Metadata.Dir = c.Text("metadata.log.dir")
	if b.Metadata.Dir == "" {
		b.Metadata.Dir = dirs[0]
	}
	return nil
}

// checkCordoned refuses directories that are not among log.dirs (KIP-1066).
func checkCordoned(dirs, cordoned []string) error {
	for _, d := range cordoned {
		switch {
		case d == "*" && len(cordoned) > 1:
			return errors.New("cordoned.log.dirs: * stands for all directories and must stand alone")
		case d != "*" && !slices.Contains(dirs, d):
			return fmt.Errorf("cordoned.log.dirs: %s is not among log.dirs", d)
		}
	}
	return nil
}

func (c *Config) metadata(b *Broker) error {
	voters, err := c.parseVoters()
	if err != nil {
		return err
	}
	b.Metadata.Voters = voters
	b.Metadata.Endpoints = c.List("barnabas.metadata.endpoints")
	if b.Metadata.Bootstrap, err = c.bootstrap(b.IsController || len(b.Metadata.Endpoints) > 0, len(voters)); err != nil {
		return err
	}
	b.Metadata.Join = c.Bool("controller.quorum.auto.join.enable")
	b.Metadata.Plaintext = c.Bool("barnabas.metadata.plaintext")
	if b.Metadata.TLS, err = c.metadataTLS(); err != nil {
		return err
	}
	b.Metadata.RegistrationTimeout = c.Duration("initial.broker.registration.timeout.ms")
	b.Metadata.Lease = max(c.Session()-quorumChange, minSession)
	b.Metadata.ShutdownTimeout = c.Duration("barnabas.shutdown.timeout.ms")
	b.Metadata.ClusterID = c.Text("barnabas.cluster.id")
	if id := b.Metadata.ClusterID; !plainID(id) {
		return fmt.Errorf("barnabas.cluster.id: %q: letters, digits, - and _ are needed, 64 of them at most", id)
	}
	return b.checkVoters()
}

func (b *Broker) checkVoters() error {
	m := b.Metadata
	switch n := len(m.Voters); {
	case len(m.Endpoints) > 0: // which count alone
	case n != 0 && n != 1 && n != 3 && n != 5:
		return fmt.Errorf("controller.quorum.voters: %d voters; one, three or five are needed", n)
	case n > 0 && b.IsController && !b.Votes():
		return fmt.Errorf("process.roles: this node is a controller, and node.id %d is not in controller.quorum.voters: "+
			"add it there on all nodes, or set process.roles=broker for a broker beside the voters", b.NodeID)
	case n > 0 && !b.IsController && b.Votes():
		return fmt.Errorf("process.roles: node.id %d is in controller.quorum.voters, and this node is no controller: set process.roles=broker,controller", b.NodeID)
	case !b.IsController && m.Alone():
		return errors.New("process.roles: a broker that is no controller needs controller.quorum.bootstrap.servers, controller.quorum.voters or " +
			"barnabas.metadata.endpoints to find the cluster")
	}
	return nil
}

// bootstrap is where a node that is no voter looks for those who are. A
// controller goes by controller.quorum.voters; without them it carries the
// metadata alone, and so it must not be one of several that think so. Apache
// Kafka's server.properties names localhost.
func (c *Config) bootstrap(unused bool, voters int) ([]string, error) {
	const key = "controller.quorum.bootstrap.servers"
	servers := c.List(key)
	for _, s := range servers {
		host, port, err := net.SplitHostPort(s)
		if n, perr := strconv.ParseUint(port, 10, 16); err != nil || perr != nil || n == 0 || host == "" {
			return nil, fmt.Errorf("%s: %q is not of the form host:port", key, s)
		}
		ip, err := netip.ParseAddr(host)
		own := len(servers) == 1 && (host == "localhost" || err == nil && ip.IsLoopback())
		if unused && voters == 0 && !own && len(c.List("barnabas.metadata.endpoints")) == 0 {
			return nil, fmt.Errorf("%s: it does not say which nodes carry the metadata, and each controller would begin a cluster of its own: "+
				"set controller.quorum.voters=id@host:port,... alike on all nodes", key)
		}
	}
	if unused {
		return nil, nil
	}
	return servers, nil
}

func (c *Config) metadataTLS() (MetadataTLS, error) {
	t := MetadataTLS{
		Certificate: c.Text("barnabas.metadata.tls.certificate.file"),
		Key:         c.Text("barnabas.metadata.tls.key.file"),
		CA:          c.Text("barnabas.metadata.tls.ca.file"),
	}
	if t != (MetadataTLS{}) && (t.Certificate == "" || t.Key == "" || t.CA == "") {
		return t, errors.New("barnabas.metadata.tls: certificate.file, key.file and ca.file go together: set all three, or none")
	}
	return t, nil
}

// Network reads the limits of what comes in.
func (c *Config) Network() Network {
	n := Network{
		RequestMaxBytes:    int32(c.Int("socket.request.max.bytes")),
		InFlightMaxBytes:   c.Int("queued.max.request.bytes"),
		SendBufferBytes:    c.chosen("socket.send.buffer.bytes"),
		ReceiveBufferBytes: c.chosen("socket.receive.buffer.bytes"),
		Backlog:            c.chosen("socket.listen.backlog.size"),
		MaxConnections:     int(c.Int("max.connections")),
		MaxPerIP:           int(c.Int("max.connections.per.ip")),
		ConnectionRate:     int(c.Int("max.connection.creation.rate")),
		IdleTimeout:        c.Duration("connections.max.idle.ms"),
		FetchMaxBytes:      int32(c.Int("fetch.max.bytes")),
		FetchSessions:      int(c.Int("max.incremental.fetch.session.cache.slots")),
	}
	if n.InFlightMaxBytes <= 0 {
		// Room for two of the largest requests, so that one cannot shut out the rest.
		n.InFlightMaxBytes = 2 * int64(n.RequestMaxBytes)
	}
	n.PerIP, _ = parsePerAddress(c.Text("max.connections.per.ip.overrides"))
	return n
}

// chosen is a size of sockets that somebody chose, or -1. One that is set ends
// the system's own tuning, which goes far beyond: with Apache Kafka's default of
// the buffers, which its server.properties repeats, large batches came in at
// half the speed; and its backlog refuses bursts that the system's takes.
func (c *Config) chosen(key string) int {
	k, _ := lookupBroker(key)
	if n := c.Int(key); format(n) != *k.Default {
		return int(n)
	}
	return -1
}

func (c *Config) storage(dirs []string) Storage {
	return Storage{
		Dirs:                    dirs,
		RecoveryThreads:         int(c.Int("num.recovery.threads.per.data.dir")),
		RetentionInterval:       c.Duration("log.retention.check.interval.ms"),
		RecoveryPointInterval:   c.Duration("log.flush.offset.checkpoint.interval.ms"),
		LogStartInterval:        c.Duration("log.flush.start.offset.checkpoint.interval.ms"),
		HighWatermarkInterval:   c.Duration("replica.high.watermark.checkpoint.interval.ms"),
		ProducerIDExpiry:        c.Duration("producer.id.expiration.ms"),
		FlushSchedulerInterval:  c.Duration("log.flush.scheduler.interval.ms"),
		FullProduceValidation:   c.Text("barnabas.produce.validation") == "full",
		ReserveBytes:            c.Int("barnabas.disk.reserve.bytes"),
		OfflineReportingTimeout: c.Duration("log.dir.failure.timeout.ms"),
		Cordoned:                c.List("cordoned.log.dirs"),
		MoveWorkers:             int(c.Int("num.replica.alter.log.dirs.threads")),
		MoveBytesPerSecond:      c.Int("replica.alter.log.dirs.io.max.bytes.per.second"),
	}
}

// crossCheck looks at keys that must agree.
func (c *Config) crossCheck() []error {
	var errs []error
	if c.IsSet("broker.id") && c.IsSet("node.id") {
		id := c.Int("broker.id")
		if node := c.Int("node.id"); id != node && id != -1 {
			errs = append(errs, fmt.Errorf("broker.id: %d is not node.id, which is %d: set one of them", id, node))
		}
	}
	for _, pair := range ordered {
		if low, high := c.Int(pair.low), c.Int(pair.high); low > high {
			errs = append(errs, fmt.Errorf("%s: %d is above %s, which is %d", pair.low, low, pair.high, high))
		}
	}
	for _, kind := range []string{"consumer", "share", "streams"} {
		session, heartbeat := "group."+kind+".session.timeout.ms", "group."+kind+".heartbeat.interval.ms"
		if c.Int(heartbeat) >= c.Int(session) {
			errs = append(errs, fmt.Errorf("%s: %d is not below %s, which is %d", heartbeat, c.Int(heartbeat), session, c.Int(session)))
		}
	}
	for _, key := range []string{"num.partitions", "default.replication.factor"} {
		if c.Int(key) < 1 {
			errs = append(errs, fmt.Errorf("%s: %d; at least 1 is needed", key, c.Int(key)))
		}
	}
	return errs
}

// ordered pairs: the first may not be above the second.
var ordered = []struct{ low, high string }{
	{"group.min.session.timeout.ms", "group.max.session.timeout.ms"},
	{"group.consumer.min.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"},
	{"group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"},
	{"group.consumer.min.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"},
	{"group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"},
	{"group.consumer.min.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	{"group.consumer.min.assignment.interval.ms", "group.consumer.assignment.interval.ms"},
	{"group.consumer.assignment.interval.ms", "group.consumer.max.assignment.interval.ms"},
	{"group.share.min.session.timeout.ms", "group.share.max.session.timeout.ms"},
	{"group.share.min.session.timeout.ms", "group.share.session.timeout.ms"},
	{"group.share.session.timeout.ms", "group.share.max.session.timeout.ms"},
	{"group.share.min.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
	{"group.share.min.heartbeat.interval.ms", "group.share.heartbeat.interval.ms"},
	{"group.share.heartbeat.interval.ms", "group.share.max.heartbeat.interval.ms"},
	{"group.share.min.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	{"group.share.min.assignment.interval.ms", "group.share.assignment.interval.ms"},
	{"group.share.assignment.interval.ms", "group.share.max.assignment.interval.ms"},
	{"group.share.min.record.lock.duration.ms", "group.share.max.record.lock.duration.ms"},
	{"group.share.min.delivery.count.limit", "group.share.max.delivery.count.limit"},
	{"group.share.min.partition.max.record.locks", "group.share.max.partition.max.record.locks"},
	{"group.streams.min.session.timeout.ms", "group.streams.max.session.timeout.ms"},
	{"group.streams.min.session.timeout.ms", "group.streams.session.timeout.ms"},
	{"group.streams.session.timeout.ms", "group.streams.max.session.timeout.ms"},
	{"group.streams.min.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
	{"group.streams.min.heartbeat.interval.ms", "group.streams.heartbeat.interval.ms"},
	{"group.streams.heartbeat.interval.ms", "group.streams.max.heartbeat.interval.ms"},
	{"group.streams.min.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
	{"group.streams.min.assignment.interval.ms", "group.streams.assignment.interval.ms"},
	{"group.streams.assignment.interval.ms", "group.streams.max.assignment.interval.ms"},
	{"group.streams.num.standby.replicas", "group.streams.max.standby.replicas"},
	{"log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"},
	{"replica.fetch.wait.max.ms", "replica.lag.time.max.ms"},
	{"replica.fetch.wait.max.ms", "replica.socket.timeout.ms"},
	{"socket.connection.setup.timeout.ms", "socket.connection.setup.timeout.max.ms"},
	{"add.partitions.to.txn.retry.backoff.ms", "add.partitions.to.txn.retry.backoff.max.ms"},
}
