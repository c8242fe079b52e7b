package etcdstore

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// caretaker looks after an embedded member.
type caretaker struct {
	cfg     Member
	member  *member
	client  *clientv3.Client
	metrics *metrics
	logger  *slog.Logger
	ballast *ballast
	last    syncState
	alarmed bool
}

func newCaretaker(s *Store, m *member) *caretaker {
	return &caretaker{
		cfg:     m.cfg.Member,
		member:  m,
		client:  s.client,
		metrics: s.metrics,
		logger:  s.logger,
		ballast: newBallast(m.cfg.Member, s.logger),
	}
}

func (c *caretaker) run(ctx context.Context) {
	c.last, _ = readHistogram(c.metrics.walSync)
	quick := time.NewTicker(ballastEvery)
	defer quick.Stop()
	slow := time.NewTicker(c.cfg.CareEvery)
	defer slow.Stop()
	for {
		c.metrics.ballast.Set(float64(c.ballast.tend()))
		select {
		case <-ctx.Done():
			return
		case <-quick.C:
		case <-slow.C:
			c.syncTimes()
			c.room(ctx)
		}
	}
}

// syncTimes warns of a disk that is too slow for elections and leases.
func (c *caretaker) syncTimes() {
	now, ok := readHistogram(c.metrics.walSync)
	if !ok {
		return
	}
	p99 := percentile(c.last, now, 0.99)
	c.last = now
	c.metrics.syncP99.Set(p99.Seconds())
	if p99 > slowSync {
		c.logger.Warn("metadata log syncs slowly: consider a disk of its own", "p99", p99, "limit", slowSync)
	}
}

// percentile of what was observed between two states: the upper bound of its bucket; 0 when nothing was.
func percentile(from, to syncState, q float64) time.Duration {
	n := to.count - from.count
	if n == 0 {
		return 0
	}
	var last float64
	for _, bound := range slices.Sorted(maps.Keys(to.buckets)) {
		last = bound
		if float64(to.buckets[bound]-from.buckets[bound]) >= q*float64(n) {
			break
		}
	}
	return time.Duration(last * float64(time.Second))
}

// room keeps the file from growing without need, and lifts the quota's alarm once there is room.
func (c *caretaker) room(ctx context.Context) {
	srv := c.member.etcd.Server
	var alarms []*etcdserverpb.AlarmMember
	for _, a := range srv.Alarms() {
		// The alarm of another member is its own to lift: what is free here says nothing of it.
		if a.Alarm == etcdserverpb.AlarmType_NOSPACE && (a.MemberID == uint64(srv.MemberID()) || c.member.alone()) {
			alarms = append(alarms, a)
		}
	}
	alarmed := len(alarms) > 0
	c.metrics.noSpace.Set(0)
	if alarmed {
		c.metrics.noSpace.Set(1)
	}
	if alarmed && !c.alarmed {
		c.logger.Error("metadata store is over its quota and refuses writes", "quota", c.cfg.Quota)
	}
	c.alarmed = alarmed
	size, used := srv.Backend().Size(), srv.Backend().SizeInUse()
	if alarmed || size >= c.cfg.DefragFrom && used < size/2 {
		if done, ok := c.turn(ctx); ok {
			c.defrag(size, used)
			done()
		}
	}
	if !alarmed || srv.Backend().Size() > c.cfg.Quota/10*9 {
		return
	}
	for _, a := range alarms {
		if _, err := c.client.AlarmDisarm(ctx, &clientv3.AlarmMember{MemberID: a.MemberID, Alarm: a.Alarm}); err != nil {
			c.logger.Warn("quota alarm stays", "cause", err)
			return
		}
	}
	c.alarmed = false
	c.metrics.noSpace.Set(0)
	c.logger.Info("metadata store is under its quota again", "size", srv.Backend().Size())
}

// turnKey is there while a member rewrites its file; outside of what brokers watch.
const (
	turnKey  = "barnabas-rewriting"
	turnTime = 10 * time.Minute
)

// turn waits for nobody: a member that rewrites its file answers nothing
// meanwhile, so only one does at a time, and it does not lead. Who leads hands
// over and comes back in the next round.
func (c *caretaker) turn(ctx context.Context) (done func(), ok bool) {
	srv := c.member.etcd.Server
	if c.member.alone() {
		return func() {}, true
	}
	if srv.Leader() == srv.MemberID() {
		if err := srv.TryTransferLeadershipOnShutdown(); err != nil {
			c.logger.Info("leadership of the metadata not handed over", "cause", err)
		}
		return nil, false
	}
	lease, err := c.client.Grant(ctx, int64(turnTime.Seconds()))
	if err != nil {
		return nil, false
	}
	done = func() { _, _ = c.client.Revoke(context.WithoutCancel(ctx), lease.ID) } // else it ends by itself
	r, err := c.client.Txn(ctx).If(clientv3.Compare(clientv3.Version(turnKey), "=", 0)).
		Then(clientv3.OpPut(turnKey, c.member.cfg.Member.Name, clientv3.WithLease(lease.ID))).Commit()
	if err != nil || !r.Succeeded {
		done()
		return nil, false
	}
	return done, true
}

// defrag rewrites the file; etcd makes the copy beside it, and ends when there is no room for it.
func (c *caretaker) defrag(size, used int64) {
	free, err := freeBytes(c.cfg.Dir)
	if err != nil || free < used+used/4+max(c.cfg.Ballast, 0) {
		c.logger.Warn("no room to rewrite the metadata file", "free", free, "used", used, "cause", err)
		return
	}
	start := time.Now()
	if err := c.member.etcd.Server.Backend().Defrag(); err != nil {
		c.logger.Warn("metadata file not rewritten", "cause", err)
		return
	}
	c.metrics.defrags.Inc()
	c.logger.Info("metadata file rewritten", "before", size, "after", c.member.etcd.Server.Backend().Size(), "took", time.Since(start))
}
