package broker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/config"
	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func groupBeds() []bed {
	return []bed{offsetsBed(), classicBed(), consumerBed(), boundsBed(),
		{name: "no consumer groups", set: []string{"group.coordinator.rebalance.protocols=classic"}, broker: map[string]func(*process){
			"group.coordinator.rebalance.protocols": func(p *process) {
				if _, err := p.groups().beat("g", 0); !errors.Is(err, kerr.UnsupportedVersion) {
					p.t.Errorf("%v", err)
				}
			},
		}},
		{name: "small groups", set: []string{"group.consumer.max.size=1", "group.consumer.assignors=range"}, broker: map[string]func(*process){
			"group.consumer.max.size": func(p *process) {
				g := p.groups()
				g.joins("full", "a")
				if err := g.member("full", "b", nil); !errors.Is(err, kerr.GroupMaxSizeReached) {
					p.t.Errorf("%v", err)
				}
			},
			"group.consumer.assignors": func(p *process) {
				uniform := "uniform"
				if err := p.groups().member("u", "a", &uniform); !errors.Is(err, kerr.UnsupportedAssignor) {
					p.t.Errorf("%v", err)
				}
			},
		}},
		{name: "short sessions", set: []string{"group.consumer.min.session.timeout.ms=300", "group.consumer.min.heartbeat.interval.ms=100"}, group: map[string]func(*process){
			"consumer.session.timeout.ms": func(p *process) {
				g := p.groups()
				if why := g.override("gs", "consumer.session.timeout.ms=400", "consumer.heartbeat.interval.ms=100"); why != "" {
					p.t.Fatal(why)
				}
				vanishes(g, "gs")
			},
		}},
		{name: "one replica", set: []string{"offsets.topic.replication.factor=1"}, broker: map[string]func(*process){
			"offsets.topic.replication.factor": func(p *process) {
				defer p.joined()() // it would be the second
				p.groups()
				if t, _ := p.b.parts.keeper.Image().Topic(api.OffsetsTopic); len(t.Partitions[0].Replicas) != 1 {
					p.t.Errorf("replicas %v", t.Partitions[0].Replicas)
				}
			},
		}},
	}
}

func offsetsBed() bed {
	shard := func(p *process) *logUnderTest { p.groups(); return &logUnderTest{name: api.OffsetsTopic} }
	return bed{
		name: "offsets", set: []string{"offsets.topic.num.partitions=1", "offsets.topic.segment.bytes=8388608", "offsets.topic.compression.codec=4", "offset.metadata.max.bytes=3"},
		broker: map[string]func(*process){
			"offsets.topic.num.partitions": func(p *process) {
				p.groups()
				if t, _ := p.b.parts.keeper.Image().Topic(api.OffsetsTopic); len(t.Partitions) != 1 {
					p.t.Errorf("%d partitions", len(t.Partitions))
				}
			},
			"offsets.topic.segment.bytes": func(p *process) {
				if n := p.log(shard(p), 0).Config().SegmentBytes; n != 8388608 {
					p.t.Errorf("segments of %d", n)
				}
			},
			"offsets.topic.compression.codec": func(p *process) {
				log := p.log(shard(p), 0)
				p.mustCommit("zstd", "")
				b, err := os.ReadFile(filepath.Join(log.Path(), "00000000000000000000.log"))
				if err != nil || len(b) < batch.HeaderSize || batch.Batch(b).Codec() != batch.Zstd {
					p.t.Errorf("%d bytes (%v), not zstd's", len(b), err)
				}
			},
			"offset.metadata.max.bytes": func(p *process) {
				shard(p)
				p.mustCommit("notes", "123")
				if err := p.commitNote("notes", "1234"); !errors.Is(err, kerr.OffsetMetadataTooLarge) {
					p.t.Errorf("%v", err)
				}
			},
		},
	}
}

// commitNote commits an offset of a topic, which it makes, with a note.
func (p *process) commitNote(group, note string) error {
	p.t.Helper()
	p.make("t", 1, 1) // there already, the second time
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = "t", groupClient{p}.topicID("t")
	part := kmsg.NewOffsetCommitRequestTopicPartition()
	part.Offset, part.Metadata = 1, &note
	t.Partitions = append(t.Partitions, part)
	req.Topics = append(req.Topics, t)
	return kerr.ErrorForCode(ask[*kmsg.OffsetCommitResponse](groupClient{p}, req).Topics[0].Partitions[0].ErrorCode)
}

func (p *process) mustCommit(group, note string) {
	p.t.Helper()
	if err := p.commitNote(group, note); err != nil {
		p.t.Fatal(err)
	}
}

func classicBed() bed {
	session := func(d time.Duration) func(*process) {
		return func(p *process) {
			if _, _, err := p.groups().stable("s", d); !errors.Is(err, kerr.InvalidSessionTimeout) {
				p.t.Errorf("%v", err)
			}
		}
	}
	return bed{
		name: "classic groups",
		set: []string{"group.min.session.timeout.ms=8000", "group.max.session.timeout.ms=20000", "group.initial.rebalance.delay.ms=0", "group.max.size=1",
			"group.consumer.migration.policy=disabled"},
		broker: map[string]func(*process){
			"group.min.session.timeout.ms": session(7 * time.Second),
			"group.max.session.timeout.ms": session(25 * time.Second),
			"group.initial.rebalance.delay.ms": func(p *process) { // 3 s by default
				g := p.groups()
				began := time.Now()
				if _, _, err := g.stable("quick", 10*time.Second); err != nil || time.Since(began) >= 3*time.Second {
					p.t.Errorf("%v after %v", err, time.Since(began))
				}
			},
			"group.max.size": func(p *process) {
				g := p.groups()
				if _, _, err := g.stable("full", 10*time.Second); err != nil {
					p.t.Fatal(err)
				}
				req := kmsg.NewPtrJoinGroupRequest()
				instance := "another"
				req.Group, req.InstanceID, req.ProtocolType, req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = "full", &instance, "consumer", 10_000, 10_000
				proto := kmsg.NewJoinGroupRequestProtocol()
				proto.Name = "range"
				req.Protocols = append(req.Protocols, proto)
				if err := kerr.ErrorForCode(ask[*kmsg.JoinGroupResponse](g, req).ErrorCode); !errors.Is(err, kerr.GroupMaxSizeReached) {
					p.t.Errorf("%v", err)
				}
			},
			"group.consumer.migration.policy": func(p *process) {
				g := p.groups()
				if _, _, err := g.stable("old", 10*time.Second); err != nil {
					p.t.Fatal(err)
				}
				if err := g.member("old", "new", nil); err == nil {
					p.t.Error("a member of the consumer protocol joined")
				}
			},
		},
	}
}

// heartbeat of a member that joins.
func (p groupClient) first(group, member string, assignor *string) *kmsg.ConsumerGroupHeartbeatResponse {
	p.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.RebalanceTimeoutMillis, req.ServerAssignor = group, member, 10_000, assignor
	req.SubscribedTopicNames, req.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	return ask[*kmsg.ConsumerGroupHeartbeatResponse](p, req)
}

func (p groupClient) member(group, member string, assignor *string) error {
	p.t.Helper()
	return kerr.ErrorForCode(p.first(group, member, assignor).ErrorCode)
}

func (p groupClient) joins(group, member string) *kmsg.ConsumerGroupHeartbeatResponse {
	p.t.Helper()
	resp := p.first(group, member, nil)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		p.t.Fatal(err)
	}
	return resp
}

func (p groupClient) describe(group string) kmsg.ConsumerGroupDescribeResponseGroup {
	p.t.Helper()
	req := kmsg.NewPtrConsumerGroupDescribeRequest()
	req.Groups = []string{group}
	return ask[*kmsg.ConsumerGroupDescribeResponse](p, req).Groups[0]
}

// override sets keys of a group, and gives what is said against it.
func (p groupClient) override(group string, set ...string) string {
	p.t.Helper()
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	r := kmsg.NewIncrementalAlterConfigsRequestResource()
	r.ResourceType, r.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	for _, s := range set {
		k, v, _ := strings.Cut(s, "=")
		c := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
		c.Name, c.Value = k, &v
		r.Configs = append(r.Configs, c)
	}
	req.Resources = append(req.Resources, r)
	out := ask[*kmsg.IncrementalAlterConfigsResponse](p, req).Resources[0]
	if out.ErrorCode == 0 {
		return ""
	}
	return *out.ErrorMessage
}

// vanishes: a silent member is gone, long before the 45 s of the default.
func vanishes(p groupClient, group string) {
	p.t.Helper()
	p.joins(group, "silent")
	p.process.until("the member's end", func() bool { return len(p.describe(group).Members) == 0 })
}

// assignsAtOnce: by default the second assignment waits until the first is a second old.
func assignsAtOnce(p groupClient, group string) bool {
	p.t.Helper()
	p.joins(group, "a")
	p.joins(group, "b")
	d := p.describe(group)
	return d.Epoch > 1 && d.AssignmentEpoch == d.Epoch
}

func consumerBed() bed {
	return bed{
		name: "consumer groups",
		set: []string{"group.consumer.min.session.timeout.ms=300", "group.consumer.session.timeout.ms=300", "group.consumer.min.heartbeat.interval.ms=100",
			"group.consumer.heartbeat.interval.ms=200", "group.consumer.assignment.interval.ms=0"},
		broker: map[string]func(*process){
			"group.consumer.session.timeout.ms": func(p *process) { vanishes(p.groups(), "v") },
			"group.consumer.heartbeat.interval.ms": func(p *process) {
				if ms := p.groups().joins("h", "a").HeartbeatIntervalMillis; ms != 200 {
					p.t.Errorf("%d ms", ms)
				}
			},
			"group.consumer.assignment.interval.ms": func(p *process) {
				g := p.groups()
				if !long(p.t, g, "a1") || !assignsAtOnce(g, "a1") {
					p.t.Error("the second assignment waits")
				}
			},
		},
		group: map[string]func(*process){
			"consumer.heartbeat.interval.ms": func(p *process) {
				g := p.groups()
				if why := g.override("gh", "consumer.heartbeat.interval.ms=150"); why != "" {
					p.t.Fatal(why)
				}
				if ms := g.joins("gh", "a").HeartbeatIntervalMillis; ms != 150 {
					p.t.Errorf("%d ms", ms)
				}
			},
			"consumer.assignment.interval.ms": func(p *process) {
				g := p.groups()
				long(p.t, g, "ga")
				if why := g.override("ga", "consumer.assignment.interval.ms=15000"); why != "" {
					p.t.Fatal(why)
				}
				if assignsAtOnce(g, "ga") {
					p.t.Error("the second assignment does not wait")
				}
			},
		},
	}
}

// long gives a group's members 45 seconds.
func long(t *testing.T, g groupClient, name string) bool {
	t.Helper()
	why := g.override(name, "consumer.session.timeout.ms=45000")
	if why != "" {
		t.Error(why)
	}
	return why == ""
}

// boundsBed: each bound stands in what is said against a value out of bounds.
func boundsBed() bed {
	says := func(key, value, want string) func(*process) {
		return func(p *process) {
			if why := p.groups().override("b", key+"="+value); why != key+" must be in the range "+want+" inclusive." {
				p.t.Errorf("%q", why)
			}
		}
	}
	session := says("consumer.session.timeout.ms", "1000", "30000 to 70000")
	heartbeat := says("consumer.heartbeat.interval.ms", "1000", "3000 to 16000")
	assignment := says("consumer.assignment.interval.ms", "17000", "500 to 16000")
	return bed{
		name: "bounds",
		set: []string{"group.consumer.min.session.timeout.ms=30000", "group.consumer.max.session.timeout.ms=70000",
			"group.consumer.min.heartbeat.interval.ms=3000", "group.consumer.max.heartbeat.interval.ms=16000",
			"group.consumer.min.assignment.interval.ms=500", "group.consumer.max.assignment.interval.ms=16000"},
		broker: map[string]func(*process){
			"group.consumer.min.session.timeout.ms": session, "group.consumer.max.session.timeout.ms": session,
			"group.consumer.min.heartbeat.interval.ms": heartbeat, "group.consumer.max.heartbeat.interval.ms": heartbeat,
			"group.consumer.min.assignment.interval.ms": assignment, "group.consumer.max.assignment.interval.ms": assignment,
		},
	}
}

// groupProofs need disks of their own, or a clock.
func groupProofs() map[string]func(*testing.T) {
	return map[string]func(*testing.T){
		"offsets.commit.timeout.ms": givesUpCommits,
		"offsets.load.buffer.size":  loadsInParts,
		"offsets.retention.minutes": func(t *testing.T) {
			short, usual := expiry(t, "offsets.retention.minutes=60"), expiry(t)
			if short < time.Hour || short > 71*time.Minute || usual < 7*24*time.Hour {
				t.Errorf("offsets expire after %v, by default after %v", short, usual)
			}
		},
		"offsets.retention.check.interval.ms": func(t *testing.T) {
			if d := expiry(t, "offsets.retention.minutes=60", "offsets.retention.check.interval.ms=36000000"); d < 9*time.Hour || d > 10*time.Hour {
				t.Errorf("offsets expire after %v, want it at a multiple of ten hours", d)
			}
		},
	}
}

// expiry is how long after its commit a group's offset goes, by the timers of
// the machine that a broker with these settings has. The commit is two minutes
// after a multiple of ten hours.
func expiry(t *testing.T, set ...string) time.Duration {
	t.Helper()
	cfg, _, err := config.Load(config.Options{Set: set})
	if err != nil {
		t.Fatal(err)
	}
	w := metatest.New()
	w.Register(1, "")
	m := group.New(groupConfig(cfg.Groups()), w.Img)
	began := time.Unix(47222*36000+120, 0)
	out := m.Step(began, 1, &group.CommitOffsets{Group: "g", Generation: -1, RetentionMs: -1,
		Partitions: []group.CommitPartition{{Topic: "t", TopicID: kafka.TopicID{15: 1}, Offset: 5, LeaderEpoch: -1}}})
	for range 10 {
		if len(out.Timers) == 0 {
			t.Fatal("no timer is set")
		}
		now := out.Timers[len(out.Timers)-1].At
		out = m.Fire(now, out.Timers[len(out.Timers)-1].Key)
		for _, r := range out.Records {
			if r.Value == nil {
				return now.Sub(began)
			}
		}
	}
	t.Fatal("the offset does not go")
	return 0
}

// givesUpCommits: the disk does not come back from its syncs.
func givesUpCommits(t *testing.T) {
	var stuck atomic.Bool
	free := make(chan struct{})
	release := sync.OnceFunc(func() { close(free) })
	files := vfs.Wrap(vfs.Real, vfs.Hooks{Before: func(op vfs.Op) error {
		if stuck.Load() && op.Kind == vfs.OpSync && strings.Contains(op.Name, api.OffsetsTopic) {
			<-free
		}
		return nil
	}})
	p := startBroker(t, files, "log.dirs="+t.TempDir(), "offsets.topic.num.partitions=1", "offsets.commit.timeout.ms=300")
	t.Cleanup(release) // before the broker's end
	p.groups()
	p.mustCommit("g", "")
	stuck.Store(true)
	began := time.Now()
	err := p.commitNote("g", "")
	if d := time.Since(began); !errors.Is(err, kerr.CoordinatorNotAvailable) || d < 300*time.Millisecond || d >= 5*time.Second {
		t.Errorf("%v after %v", err, d)
	}
}

// loadsInParts: no read of the load is as large as the log.
func loadsInParts(t *testing.T) {
	set := []string{"log.dirs=" + t.TempDir(), "offsets.topic.num.partitions=1", "barnabas.durable.acks=false"}
	p := startBroker(t, nil, set...)
	l := &logUnderTest{name: api.OffsetsTopic}
	p.groups()
	for p.log(l, 0).Size() < 30_000 {
		p.mustCommit("g", strings.Repeat("n", 1000))
	}
	p.end()
	var largest atomic.Int64
	files := vfs.Wrap(vfs.Real, vfs.Hooks{After: func(op vfs.Op, _ error) {
		if op.Kind == vfs.OpRead && strings.Contains(op.Name, api.OffsetsTopic) && strings.HasSuffix(op.Name, ".log") {
			for n := largest.Load(); int64(op.N) > n && !largest.CompareAndSwap(n, int64(op.N)); n = largest.Load() {
			}
		}
	}})
	p = startBroker(t, files, append(set, "offsets.load.buffer.size=4000")...)
	p.groups()
	if n := largest.Load(); n == 0 || n > 8000 {
		t.Errorf("the largest read is of %d bytes", n)
	}
}
