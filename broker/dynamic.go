package broker

import (
	"context"
	"log/slog"
	"sync"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// settings are what counts: the static configuration, with the dynamic one of
// an image over it. They turn it into what the floors below take.
type settings struct {
	static *config.Config
	self   kafka.NodeID
	image  func() *meta.Image // the newest published one
	log    *slog.Logger

	mu   sync.Mutex
	last laid
}

// laid is the configuration at the revisions of its two dynamic layers.
type laid struct {
	*config.Config
	cluster, broker int64
	warnings        []string
}

// restatic lays the dynamic settings over other static ones from now on.
func (s *settings) restatic(c *config.Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.static, s.last = c, laid{cluster: -1}
}

func newSettings(c *config.Config, self kafka.NodeID, log *slog.Logger) *settings {
	return &settings{static: c, self: self, log: log, last: laid{Config: c}}
}

// now is the configuration that counts in the newest published image.
func (s *settings) now() *config.Config { return s.at(s.image()) }

// at is the configuration that counts in an image.
func (s *settings) at(img *meta.Image) *config.Config { return s.lay(img).Config }

func (s *settings) lay(img *meta.Image) laid {
	cluster, broker := img.ClusterOverrides(), img.BrokerOverrides(s.self)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.last.cluster != cluster.ModRev || s.last.broker != broker.ModRev {
		l := laid{Config: s.static, cluster: cluster.ModRev, broker: broker.ModRev}
		if l.cluster != 0 || l.broker != 0 {
			l.Config, l.warnings = s.static.With(cluster.Entries, broker.Entries)
		}
		s.last = l
	}
	return s.last
}

// dynamic hands changed settings to the parts that hold some. Partitions take
// theirs from the image that they enter, groups from the image that they see.
type dynamic struct {
	settings *settings
	parts    *parts

	mu      sync.Mutex
	cluster int64 // revisions that were handed out last
	broker  int64
}

// forget has the next image's settings handed out whatever was before.
func (d *dynamic) forget() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.cluster = -1
}

// carryOut is called with every image before it is published: whoever sees a
// setting finds it in effect.
func (d *dynamic) carryOut(img *meta.Image) {
	d.mu.Lock()
	defer d.mu.Unlock()
	l := d.settings.lay(img)
	if l.cluster == d.cluster && l.broker == d.broker {
		return
	}
	d.cluster, d.broker = l.cluster, l.broker
	for _, w := range l.warnings {
		d.settings.log.Warn(w)
	}
	d.settings.log.Info("settings of the broker changed")
	d.hand(l.Config)
}

func (d *dynamic) hand(c *config.Config) {
	d.parts.server.SetLimits(connectionLimits(c.Network()))
	d.parts.logs.SetProducerExpiration(c.Duration("producer.id.expiration.ms"))
	d.parts.logs.SetRecoveryThreads(int(c.Int("num.recovery.threads.per.data.dir")))
	d.parts.logs.SetMoveRate(c.Int("replica.alter.log.dirs.io.max.bytes.per.second"))
	d.parts.slowLeaders.SetRate(c.Int("leader.replication.throttled.rate"))
	d.parts.slowFollowers.SetRate(c.Int("follower.replication.throttled.rate"))
	d.parts.setCordoned(c.List("cordoned.log.dirs"))
}

// readSettings puts the dynamic settings into effect that the metadata store holds.
func (b *Broker) readSettings(ctx context.Context) error {
	p := &b.parts
	keys := p.keeper.Image().Keys()
	page, err := retried(ctx, func() (metastore.Page, error) {
		kvs, rev, err := metastore.ListAll(ctx, p.store, keys.BrokerConfigs(), 1000)
		return metastore.Page{KVs: kvs, Rev: rev}, err
	})
	if err != nil {
		return err
	}
	img, _ := meta.FromListing(p.keeper.Image().ClusterID(), page.KVs, page.Rev)
	p.dynamic.carryOut(img)
	return nil
}

// DescribeTopic, DescribeGroup, DescribeBroker and Alter implement
// api.Settings, the others api.Dynamic.

func (s *settings) DescribeTopic(overrides map[string]string, names []string) []config.Entry {
	return s.now().DescribeTopic(overrides, names)
}

func (s *settings) DescribeGroup(overrides map[string]string, names []string) []config.Entry {
	return s.now().DescribeGroup(overrides, names)
}

func (s *settings) DescribeBroker(names []string) []config.Entry {
	return s.now().DescribeBroker(names)
}

func (s *settings) Alter(scope config.Scope, was map[string]string, ops []config.Op) (map[string]string, error) {
	return s.now().Alter(scope, was, ops)
}

func (s *settings) DescribeCluster(names []string) []config.Entry {
	return s.now().DescribeCluster(names)
}

func (s *settings) DescribeClientMetrics(overrides map[string]string, names []string) []config.Entry {
	return s.now().DescribeClientMetrics(overrides, names)
}

func (s *settings) AlterBroker(all bool, was map[string]string, ops []config.Op) (map[string]string, error) {
	return s.now().AlterBroker(all, was, ops)
}
