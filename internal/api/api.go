package api

import (
	"context"
	"log/slog"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/auth/acl"
	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/levels"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/replica"
	"github.com/barnabas-mq/barnabas/internal/server"
)

// Limits are the settings that handlers need.
type Limits struct {
	FetchMaxBytes     int           // fetch.max.bytes
	SessionSlots      int           // max.incremental.fetch.session.cache.slots
	PageOfPartitions  int           // max.request.partition.size.limit
	AutoCreate        bool          // auto.create.topics.enable
	DeleteTopics      bool          // delete.topic.enable
	NumPartitions     int32         // num.partitions
	ReplicationFactor int16         // default.replication.factor
	RequestTimeout    time.Duration // for what a client sent without a bound of its own
}

// Partitions are the replicas that this broker hosts.
type Partitions interface {
	Get(tp kafka.TopicPartition) (*replica.Partition, bool)
}

// Cluster is where changes of metadata are made. Methods return when the
// change is in this broker's own image, so that what follows on the same
// connection sees it. Errors wrap *kerr.Error; a deadline of ctx that passed
// is REQUEST_TIMED_OUT, and the change may have been made.
type Cluster interface {
	// CreateTopic makes a topic, or with validate only checks that it could.
	CreateTopic(ctx context.Context, t NewTopic, validate bool) (CreatedTopic, error)
	// AddPartitions adds partitions to a topic, or with validate only checks that it could.
	AddPartitions(ctx context.Context, p MorePartitions, validate bool) error
	// Reassign begins, replaces and cancels reassignments, ElectLeaders elects; an
	// error, or nil, for each.
	Reassign(ctx context.Context, rs []plan.Reassignment) []error
	ElectLeaders(ctx context.Context, of []kafka.TopicPartition, how plan.Election) []error
	// DeleteTopic deletes the topic with this id.
	DeleteTopic(ctx context.Context, id kafka.TopicID) error
	// Configure changes the overrides of a topic, a group, a subscription to client
	// metrics or a broker, of all brokers with the name "". change is called with
	// those that there are, again when they were changed meanwhile, and gives the
	// next. With validate nothing is stored.
	Configure(ctx context.Context, scope config.Scope, name string, change func(was map[string]string) (map[string]string, error), validate bool) error
	// ProducerID hands out an id that nobody had before.
	ProducerID(ctx context.Context) (int64, error)
}

// Settings resolves configuration.
type Settings interface {
	// Describe lists every topic setting with its value under these overrides.
	Describe(overrides map[string]string) []Setting
	// Validate checks overrides by name and value, nil for a null one; INVALID_CONFIG.
	Validate(overrides map[string]*string) error
	// DescribeTopic, DescribeGroup and DescribeBroker list settings by name, nil
	// names all, with where each comes from.
	DescribeTopic(overrides map[string]string, names []string) []config.Entry
	DescribeGroup(overrides map[string]string, names []string) []config.Entry
	DescribeBroker(names []string) []config.Entry
	// Alter gives the overrides after ops; INVALID_CONFIG.
	Alter(scope config.Scope, was map[string]string, ops []config.Op) (map[string]string, error)
}

// Setting is one row of a described topic configuration.
type Setting struct {
	Name                string
	Value               *string // nil: unset, or sensitive
	ReadOnly, Sensitive bool
	Source              int8 // ConfigSource code: 1 topic, 4 static broker, 5 default
}

// Features are what ApiVersions tells beside the table, and UpdateFeatures changes.
type Features struct {
	// Supported are the ranges of this binary, by feature name.
	Supported map[string][2]int16
	// Update changes finalized levels, or with validate only checks that it could.
	Update func(ctx context.Context, updates []plan.FeatureUpdate, validate bool) error
}

// Deps of New.
type Deps struct {
	Self       kafka.NodeID
	Image      func() *meta.Image                 // the newest published one; never nil
	Await      func(context.Context, int64) error // until the image shows a revision; nil: requests do not wait for the first
	CatchUp    func(context.Context)              // until the image shows all that the store had; nil: requests do not wait for that
	Partitions Partitions
	Here       func() *meta.Broker // this broker, registered or not; nil: it is told only when it is
	Valid      func() bool         // this broker's session holds; nil: it is alone, and needs none
	Cluster    Cluster
	Groups     Groups
	LogDirs    LogDirs
	Settings   Settings
	Dynamic    Dynamic
	Levels     *levels.Levels
	Limits     Limits
	RackAware  bool              // consumers are sent to replicas of their rack (replica.selector.class)
	Throttle   *replica.Throttle // of leaders (leader.replication.throttled.rate); nil: none
	Features   Features
	Quorum     func(context.Context) (Quorum, error) // the metadata's
	Voters     Voters
	Telemetry  Telemetry
	Log        *slog.Logger
	Metrics    *Metrics
	Now        func() time.Time // nil: time.Now
}

// API holds the handlers. Its methods may be called from any goroutine.
type API struct {
	Deps
	sessions  *sessionCache
	telemetry desk
	table     server.Table
	born      time.Time
}

// New returns the handlers; it starts nothing.
func New(d Deps) *API {
	if d.Now == nil {
		d.Now = time.Now
	}
	if d.Metrics == nil {
		d.Metrics = NewMetrics(nil)
	}
	a := &API{Deps: d, sessions: newSessionCache(d.Limits.SessionSlots), born: d.Now()}
	a.telemetry.init()
	a.table = a.newTable()
	return a
}

func (a *API) allow(r *server.Request, op acl.Operation, res acl.Resource, name string) bool {
	return acl.For(a.Image()).Allow(r.Principal, op, res, name)
}

// hosted finds the partition on this broker. Its absence is told by the image:
// a partition that exists elsewhere is NOT_LEADER_OR_FOLLOWER.
func (a *API) hosted(t *meta.Topic, partition int32) (*replica.Partition, error) {
	if partition < 0 || int(partition) >= len(t.Partitions) {
		return nil, kerr.UnknownTopicOrPartition
	}
	p, ok := a.Partitions.Get(kafka.TopicPartition{Topic: t.Name, Partition: partition})
	if !ok || p.TopicID() != t.ID {
		return nil, kerr.NotLeaderForPartition
	}
	return p, nil
}

// leaderHint is the leader that NOT_LEADER_OR_FOLLOWER and FENCED_LEADER_EPOCH
// answers name, so that a client need not ask for metadata (KIP-951).
func leaderHint(t *meta.Topic, partition int32) (id, epoch int32) {
	if t == nil || partition < 0 || int(partition) >= len(t.Partitions) {
		return -1, -1
	}
	s := t.Partitions[partition]
	return int32(s.Leader), int32(s.LeaderEpoch)
}

// reachable are the brokers that have a listener of the name. While none is
// registered, as between two lives of a node that is alone, it is this one, which
// can be asked: clients that are told of no broker take it for gone, and
// librdkafka does not come back to it for five minutes.
func (a *API) reachable(img *meta.Image, listener string) []*meta.Broker {
	var out []*meta.Broker
	for _, b := range img.Brokers() {
		if _, _, ok := address(b, listener); ok {
			out = append(out, b)
		}
	}
	if len(out) == 0 && a.Here != nil {
		if b := a.Here(); b != nil {
			if _, _, ok := address(b, listener); ok {
				out = append(out, b)
			}
		}
	}
	return out
}

// address is where a broker listens, on the listener that a request came in by.
func address(b *meta.Broker, listener string) (host string, port int32, ok bool) {
	for _, l := range b.Listeners {
		if l.Name == listener {
			return l.Host, l.Port, true
		}
	}
	return "", -1, false
}

func rack(b *meta.Broker) *string {
	if b.Rack == "" {
		return nil
	}
	return &b.Rack
}
