package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// supportedFeatures are the feature levels of this binary. Features that are
// not built yet are known at level 0 alone.
func supportedFeatures() map[string][2]int16 {
	return map[string][2]int16{
		"barnabas.version":    {1, 1},
		"group.version":       {0, 1},
		"metadata.version":    {7, meta.MetadataVersion44},
		"transaction.version": {0, 0},
	}
}

// claim takes the log directories, or refuses them without touching anything.
func (b *Broker) claim(ctx context.Context) error {
	if n, known := openFilesLimit(); known {
		b.log.Info("open files and connections are limited", "open_files", n)
	}
	if err := b.parts.logs.Claim(); err != nil {
		return err
	}
	return ctx.Err()
}

// watchDirs ends the process once no log directory is left (R7).
func (b *Broker) watchDirs(ctx context.Context) error {
	defer b.parts.logs.Release() // unless they were opened, and closed
	select {
	case <-ctx.Done():
		return nil
	case err := <-b.parts.dirFailed:
		return fmt.Errorf("log directory: the last one is offline: %w", err)
	}
}

// holdPorts keeps the ports that were opened, for those who serve them.
func (b *Broker) holdPorts(ctx context.Context) error {
	<-ctx.Done()
	b.parts.server.Close()
	return nil
}

// begin brings up what is below the listeners, which are open by now: while the
// metadata store is away, or logs are recovered, clients are told to come again
// (safety 36).
func (b *Broker) begin(ctx context.Context) error {
	p := &b.parts
	if err := b.intime(b.findCluster)(ctx); err != nil {
		return err
	}
	if err := p.logs.Open(ctx); err != nil {
		return err
	}
	close(p.opened)
	if err := b.intime(b.beginMetadata)(ctx); err != nil {
		return err
	}
	close(p.begun)
	return nil
}

// findCluster finds out which cluster this is, and reads the dynamic settings
// that its metadata hold: the logs are opened under them.
func (b *Broker) findCluster(ctx context.Context) error {
	p := &b.parts
	id, err := identify(ctx, p.store, p.logs.ClusterID(), b.node.Metadata.ClusterID != "")
	if err != nil {
		return err
	}
	if err := p.logs.Join(id); err != nil {
		return err
	}
	p.keeper.begin(id)
	return b.readSettings(ctx)
}

// runLogs serves the logs, and at the end brings them into order: flushed and
// marked clean. Only then the registration is given up (safety 35).
func (b *Broker) runLogs(ctx context.Context) error {
	p := &b.parts
	select {
	case <-p.opened:
	case <-ctx.Done():
		return nil
	}
	saved := make(chan struct{})
	saving, stop := context.WithCancel(ctx)
	go func() {
		defer close(saved)
		b.saveRevision(saving)
	}()
	err := p.logs.Run(ctx)
	stop()
	<-saved
	epoch := p.keeper.Epoch(p.keeper.Image())
	p.replicas.Close()
	return errors.Join(err, p.logs.Close(epoch))
}

// saveRevision notes from time to time, and at the end, how far this broker
// followed the metadata: a store that was set back is recognized by it.
func (b *Broker) saveRevision(ctx context.Context) {
	t := time.NewTicker(time.Minute)
	defer t.Stop()
	var last int64
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case <-t.C:
		}
		img := b.parts.keeper.Image()
		if img.Revision() == last {
			continue
		}
		if err := b.parts.logs.SetRevision(img.ClusterID(), img.Revision()); err != nil {
			b.log.Warn("metadata revision not noted", "err", err)
			continue
		}
		last = img.Revision()
	}
}

// intime bounds a step of the start by initial.broker.registration.timeout.ms;
// Apache Kafka ends a broker, too, that could not register within it.
func (b *Broker) intime(step func(context.Context) error) func(context.Context) error {
	return func(ctx context.Context) error {
		limit := b.node.Metadata.RegistrationTimeout
		late := fmt.Errorf("this broker could not register with the metadata store within %v (initial.broker.registration.timeout.ms)", limit)
		ctx, cancel := context.WithTimeoutCause(ctx, limit, late)
		defer cancel()
		err := step(ctx)
		if err != nil && errors.Is(context.Cause(ctx), late) && !errors.Is(err, late) {
			return fmt.Errorf("%w: %w", late, err)
		}
		return err
	}
}

// beginMetadata checks the metadata against what the log directories have seen.
func (b *Broker) beginMetadata(ctx context.Context) error {
	p := &b.parts
	id := p.keeper.Image().ClusterID()
	rev, err := retried(ctx, func() (int64, error) { return p.store.Rev(ctx) })
	if err != nil {
		return err
	}
	if cluster, seen := p.logs.Format(); cluster == id && rev < seen {
		return fmt.Errorf("the metadata store is at revision %d, and these log directories have seen %d: it was set back to an older state; "+
			"restore a newer backup of it, or with a revision above %d (etcdutl snapshot restore --bump-revision)", rev, seen, seen)
	}
	return nil
}

// giveUp gives up what this broker no longer has, just before it registers, and
// returns the revision that it was planned at. done is false when somebody is
// registered under its number.
func (b *Broker) giveUp(ctx context.Context) (rev int64, done bool, err error) {
	p := &b.parts
	id := p.keeper.Image().ClusterID()
	for {
		img, err := retried(ctx, func() (*meta.Image, error) {
			kvs, rev, err := metastore.ListAll(ctx, p.store, meta.KeysOf(id).Prefix(), 1000)
			img, _ := meta.FromListing(id, kvs, rev) // of what is wrong with it the image tells
			return img, err
		})
		if err != nil {
			return 0, false, err
		}
		if _, there := img.Broker(b.node.NodeID); there {
			return img.Revision(), false, nil
		}
		err = b.resign(ctx, img)
		if errors.Is(err, errOutrun) {
			continue
		}
		if err == nil {
			b.parts.logs.Vouch()
		}
		return img.Revision(), true, err
	}
}

// errOutrun: the metadata changed between a plan and its transaction.
var errOutrun = errors.New("the metadata changed meanwhile")

// follow keeps the image, on a context that outlives the listeners: what they
// still answer sees what it changed.
func (b *Broker) follow(ctx context.Context) error {
	p := &b.parts
	select {
	case <-p.begun:
	case <-ctx.Done():
		return nil
	}
	f := metastore.NewFollower(p.store, p.keeper.Image().Keys().Prefix(), func(u metastore.Update) error {
		return p.keeper.apply(ctx, u)
	}, b.log.With("part", "metadata"))
	p.member.follower.Store(f)
	return f.Run(ctx)
}

// resign takes this broker out of the ISR of partitions whose log it lost (safety
// 3), or whose log may lack what was not synced (safety 11), before it registers. Logs that moved between its directories just
// before the last stop are no losses: their states learn where they are.
func (b *Broker) resign(ctx context.Context, img *meta.Image) error {
	var losses []plan.Loss
	doubtful := map[meta.PartitionID]bool{}
	for _, l := range b.parts.replicas.Lost(img) {
		doubtful[l.Partition] = l.Doubtful
		losses = append(losses, plan.Loss{
			Partition: l.Partition, Doubtful: l.Doubtful, LogMissing: l.LogMissing, Anew: !l.Doubtful && len(b.offlineDirs()) == 0,
		})
	}
	var moves []plan.DirMove
	for _, a := range b.parts.replicas.Moves(img) {
		moves = append(moves, plan.DirMove{Partition: a.Partition, From: a.From, To: a.Dir})
	}
	moved, err := plan.MoveDirs(img, b.node.NodeID, 0, moves)
	if err != nil {
		return err
	}
	lost := plan.Resign(img, b.node.NodeID, losses)
	for i, batch := range append(lost, moved...) {
		res, err := txn(ctx, b.parts.store, batch.Txn)
		if err != nil {
			return fmt.Errorf("give up lost partitions: %w", err)
		}
		if !res.Succeeded {
			return fmt.Errorf("give up lost partitions: %w", errOutrun)
		}
		if i >= len(lost) {
			continue
		}
		for _, c := range batch.Changes {
			what := "log of a partition is lost"
			if doubtful[c.Next.ID()] {
				what = "log of a partition that is not durable may have lost records with the power: this replica leaves the in-sync ones until it has caught up"
			}
			b.log.Warn(what, "partition", c.Next.ID(), "leader_epoch", c.Next.LeaderEpoch)
		}
	}
	return nil
}

func (b *Broker) registration() *meta.Broker {
	self := b.here()
	self.StartID, self.Features = b.startID, supportedFeatures()
	for _, d := range b.parts.logs.Dirs() {
		self.Dirs = append(self.Dirs, d.ID)
		if d.Offline != nil {
			self.Offline = append(self.Offline, d.ID)
		}
	}
	self.Cordoned = b.parts.logs.Cordoned()
	return self
}

// here is this broker as clients find it.
func (b *Broker) here() *meta.Broker {
	self := &meta.Broker{ID: b.node.NodeID, Rack: b.node.Rack}
	for _, l := range b.node.Advertised {
		self.Listeners = append(self.Listeners, b.advertise(l))
	}
	return self
}

func (b *Broker) advertise(l config.Listener) meta.Listener {
	return meta.Listener{
		Name: l.Name, Protocol: l.Protocol, Host: l.Host,
		Port: advertisedPort(b.parts.server.Addr(l.Name), int32(l.Port)),
	}
}

// awaitReady waits until this broker leads what it is to lead.
func (b *Broker) awaitReady(ctx context.Context) error {
	for {
		changed := b.parts.keeper.Changed()
		if b.readiness() == nil {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	close(b.ready)
	return nil
}

// readiness says what is still missing before requests are served, or nil.
func (b *Broker) readiness() error {
	p := &b.parts
	img := p.keeper.Image()
	epoch := p.keeper.Epoch(img)
	if epoch == 0 {
		pr := p.logs.Progress()
		return fmt.Errorf("starting: %d of %d logs open, %d bytes checked", pr.Opened.Load(), pr.Logs.Load(), pr.Bytes.Load())
	}
	if !controlled(img) {
		return errors.New("starting: no controller yet")
	}
	waiting := 0
	for s := range img.PartitionsNaming(b.node.NodeID) {
		if s.Leader != b.node.NodeID {
			continue // another leads it, or nobody can: its log is lost
		}
		if self, _ := s.Replica(b.node.NodeID); self.Dir == kafka.DirUnassigned {
			continue // new: its log is being made, and nobody has records in it
		}
		t, _, _ := img.Partition(s.ID())
		part, ok := p.replicas.Get(kafka.TopicPartition{Topic: t.Name, Partition: s.Partition})
		if !ok {
			waiting++
			continue
		}
		if _, leads := part.Leading(); !leads {
			waiting++
		}
	}
	if waiting > 0 {
		return fmt.Errorf("starting: %d partitions have no leader yet", waiting)
	}
	return nil
}

// controlled: a registered broker is the controller.
func controlled(img *meta.Image) bool {
	c, held := img.ControllerHolder()
	if !held {
		return false
	}
	b, there := img.Broker(c.Node)
	return there && b.Epoch == c.BrokerEpoch
}

// healthy says what is broken beyond what waiting mends, or nil.
func (b *Broker) healthy() error {
	var errs []error
	for _, d := range b.parts.logs.Dirs() {
		if d.Offline != nil {
			errs = append(errs, fmt.Errorf("log directory %s is offline until the broker restarts: %w", d.Path, d.Offline))
		}
	}
	return errors.Join(errs...)
}
