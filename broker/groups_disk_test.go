package broker

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/api"
	"github.com/barnabas-mq/barnabas/internal/group"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// groupClient asks the coordinator, one request at a time.
type groupClient struct{ *process }

// another is a client with a connection of its own.
func (p groupClient) another() groupClient {
	p.t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(p.b.Addr("PLAINTEXT")))
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(cl.Close)
	return groupClient{&process{t: p.t, b: p.b, cl: cl}}
}

// ask sends a request to the broker.
func ask[R kmsg.Response](p groupClient, req kmsg.Request) R {
	p.t.Helper()
	resp, err := p.cl.Broker(1).Request(p.ctx(), req)
	if err != nil {
		p.t.Fatalf("%s: %v", kmsg.NameForKey(req.Key()), err)
	}
	return resp.(R)
}

// groups makes the offsets topic, and waits until all of it serves.
func (p *process) groups() groupClient {
	p.t.Helper()
	g := groupClient{p}
	g.until("the coordinator serves", func() error {
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.CoordinatorKeys = []string{"any"}
		if err := kerr.ErrorForCode(ask[*kmsg.FindCoordinatorResponse](g, req).Coordinators[0].ErrorCode); err != nil {
			return err
		}
		return kerr.ErrorForCode(ask[*kmsg.ListGroupsResponse](g, kmsg.NewPtrListGroupsRequest()).ErrorCode)
	})
	return g
}

// until asks again and again until there is no error.
func (p groupClient) until(what string, try func() error) {
	p.t.Helper()
	end := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for err := try(); err != nil; err = try() {
		if time.Now().After(end) {
			p.t.Fatalf("%s: not within %v: %v", what, patience, err)
		}
		<-tick.C
	}
}

// commit stores an offset of t-0.
func (p groupClient) commit(group string, offset int64) error {
	p.t.Helper()
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group, req.Generation = group, -1
	req.Version = 9
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = "t", p.topicID("t")
	in := kmsg.NewOffsetCommitRequestTopicPartition()
	in.Offset, in.LeaderEpoch = offset, -1
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	return kerr.ErrorForCode(ask[*kmsg.OffsetCommitResponse](p, req).Topics[0].Partitions[0].ErrorCode)
}

func (p groupClient) topicID(name string) [16]byte {
	t, ok := p.b.parts.keeper.Image().Topic(name)
	if !ok {
		p.t.Fatalf("no topic %s", name)
	}
	return t.ID
}

// committed is the offset of t-0; -1: none.
func (p groupClient) committed(group string) (int64, error) {
	p.t.Helper()
	req := kmsg.NewPtrOffsetFetchRequest()
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	t := kmsg.NewOffsetFetchRequestGroupTopic()
	t.Topic, t.TopicID, t.Partitions = "t", p.topicID("t"), []int32{0}
	g.Topics = append(g.Topics, t)
	req.Groups = append(req.Groups, g)
	out := ask[*kmsg.OffsetFetchResponse](p, req).Groups[0]
	if err := kerr.ErrorForCode(out.ErrorCode); err != nil {
		return 0, err
	}
	return out.Topics[0].Partitions[0].Offset, kerr.ErrorForCode(out.Topics[0].Partitions[0].ErrorCode)
}

func (p groupClient) wantCommitted(group string, want int64) {
	p.t.Helper()
	if got, err := p.committed(group); err != nil || got != want {
		p.t.Errorf("%s has committed %d, %v, want %d", group, got, err, want)
	}
}

// stable makes a classic group of one static member, or takes its place.
func (p groupClient) stable(group string, session time.Duration) (member string, generation int32, err error) {
	p.t.Helper()
	req := kmsg.NewPtrJoinGroupRequest()
	instance := "i"
	req.Group, req.InstanceID, req.ProtocolType = group, &instance, "consumer"
	req.SessionTimeoutMillis, req.RebalanceTimeoutMillis = int32(session/time.Millisecond), 10_000
	proto := kmsg.NewJoinGroupRequestProtocol()
	proto.Name = "range"
	sub := kmsg.NewConsumerMemberMetadata()
	sub.Topics = []string{"t"}
	proto.Metadata = sub.AppendTo(nil)
	req.Protocols = append(req.Protocols, proto)
	joined := ask[*kmsg.JoinGroupResponse](p, req)
	if err := kerr.ErrorForCode(joined.ErrorCode); err != nil {
		return "", 0, err
	}
	sync := kmsg.NewPtrSyncGroupRequest()
	sync.Group, sync.MemberID, sync.InstanceID, sync.Generation = group, joined.MemberID, &instance, joined.Generation
	sync.ProtocolType, sync.Protocol = joined.ProtocolType, joined.Protocol
	a := kmsg.NewSyncGroupRequestGroupAssignment()
	a.MemberID = joined.MemberID
	sync.GroupAssignment = append(sync.GroupAssignment, a)
	return joined.MemberID, joined.Generation, kerr.ErrorForCode(ask[*kmsg.SyncGroupResponse](p, sync).ErrorCode)
}

func (p groupClient) heartbeat(group, member string, generation int32) error {
	p.t.Helper()
	req := kmsg.NewPtrHeartbeatRequest()
	instance := "i"
	req.Group, req.MemberID, req.InstanceID, req.Generation = group, member, &instance, generation
	return kerr.ErrorForCode(ask[*kmsg.HeartbeatResponse](p, req).ErrorCode)
}

// beat is a heartbeat of the consumer protocol.
func (p groupClient) beat(group string, epoch int32) (int32, error) {
	p.t.Helper()
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Group, req.MemberID, req.MemberEpoch, req.RebalanceTimeoutMillis = group, "modern", epoch, -1
	if epoch == 0 {
		req.RebalanceTimeoutMillis, req.SubscribedTopicNames = 10_000, []string{"t"}
		req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	}
	resp := ask[*kmsg.ConsumerGroupHeartbeatResponse](p, req)
	return resp.MemberEpoch, kerr.ErrorForCode(resp.ErrorCode)
}

// disk is a file system that can be full: below the low-water mark, or so that
// writes of the coordinator find no room although there is some.
type disk struct {
	vfs.FS
	low, dry atomic.Bool
}

func newDisk() *disk {
	d := &disk{}
	d.FS = vfs.Faulty(vfs.Real, func(op vfs.Op) error {
		if d.dry.Load() && op.Kind == vfs.OpWrite && strings.Contains(op.Name, api.OffsetsTopic) {
			return &vfs.ShortWrite{N: op.N / 2, Err: vfs.ErrNoSpace}
		}
		return nil
	})
	return d
}

func (d *disk) Usage(name string) (vfs.Usage, error) {
	u, err := d.FS.Usage(name)
	if d.low.Load() {
		u.FreeBytes = 0
	}
	return u, err
}

// retriable says that a client that is told so tries again.
func retriable(err error) bool {
	return errors.Is(err, kerr.CoordinatorNotAvailable) || errors.Is(err, kerr.NotCoordinator) || errors.Is(err, kerr.CoordinatorLoadInProgress)
}

// sessionOnFullDisk is the time-out of the members; disks stay full for longer.
const sessionOnFullDisk = time.Second

// fullDisk is a broker with three groups, on a disk that has no room at times.
type fullDisk struct {
	groupClient
	member            string
	generation, epoch int32
}

func (f *fullDisk) refused(what string, err error) {
	f.t.Helper()
	if !retriable(err) {
		f.t.Errorf("%s: %v", what, err)
	}
}

// answers: what only asks is answered as ever.
func (f *fullDisk) answers() {
	f.t.Helper()
	f.wantCommitted("offsets", 5)
	listed, err := kadm.NewClient(f.cl).ListGroups(f.ctx())
	if err != nil || len(listed) != 3 {
		f.t.Errorf("listed: %v, %v", listed, err)
	}
	described, err := kadm.NewClient(f.cl).DescribeGroups(f.ctx(), "classic")
	if err != nil || described["classic"].State != "Stable" {
		f.t.Errorf("described: %v, %v", described["classic"].State, err)
	}
	modern := kmsg.NewPtrConsumerGroupDescribeRequest()
	modern.Groups = []string{"modern"}
	if out := ask[*kmsg.ConsumerGroupDescribeResponse](f.groupClient, modern).Groups[0]; out.ErrorCode != 0 || len(out.Members) != 1 {
		f.t.Errorf("described: %+v", out)
	}
	if families, err := f.b.reg.Gather(); err != nil || !strings.Contains(fmt.Sprint(families), "barnabas_group_members") {
		f.t.Errorf("metrics: %v", err)
	}
	if err := f.heartbeat("classic", f.member, f.generation); err != nil {
		f.t.Errorf("heartbeat: %v", err)
	}
}

// full: what would be written is to be tried again.
func (f *fullDisk) full() {
	f.t.Helper()
	f.refused("commit", f.commit("offsets", 6))
	_, _, err := f.stable("other", sessionOnFullDisk)
	f.refused("join", err)
	_, err = f.beat("modern", f.epoch)
	f.refused("heartbeat of the consumer protocol", err)
	f.answers()
}

// goesOn: there is room again, and nobody was thrown out.
func (f *fullDisk) goesOn() {
	f.t.Helper()
	f.until("a commit with room again", func() error { return f.commit("offsets", 5) })
	if err := f.heartbeat("classic", f.member, f.generation); err != nil {
		f.t.Errorf("heartbeat: %v", err)
	}
	var err error
	if f.epoch, err = f.beat("modern", f.epoch); err != nil {
		f.t.Errorf("heartbeat of the consumer protocol: %v", err)
	}
	if _, err := kadm.NewClient(f.cl).DeleteGroups(f.ctx(), "other"); err != nil {
		f.t.Errorf("delete: %v", err)
	}
}

// noticed waits until writes are refused: free space is looked at every second.
func (f *fullDisk) noticed() {
	f.t.Helper()
	f.until("writes are refused", func() error {
		if err := f.commit("offsets", 5); err == nil {
			return errors.New("a commit was taken")
		}
		return nil
	})
}

// stays goes on for longer than the sessions.
func (f *fullDisk) stays(during func()) {
	for end := time.Now().Add(2 * sessionOnFullDisk); time.Now().Before(end); {
		during()
	}
}

// On a full disk groups keep what they have and say it, commits and joins are to
// be tried again, nobody is thrown out, and all goes on once there is room (R8, DISK-03).
func TestGroupsOnFullDisk(t *testing.T) {
	d := newDisk()
	set := []string{
		"log.dirs=" + t.TempDir(), "offsets.topic.num.partitions=3", "group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000",
		"group.consumer.session.timeout.ms=1000", "group.consumer.min.session.timeout.ms=1000", "group.consumer.heartbeat.interval.ms=100", "group.consumer.min.heartbeat.interval.ms=100",
	}
	process := startBroker(t, d, set...)
	process.createTopic("t", 1)
	f := &fullDisk{groupClient: process.groups()}
	if err := f.commit("offsets", 5); err != nil {
		t.Fatal(err)
	}
	var err error
	if f.member, f.generation, err = f.stable("classic", sessionOnFullDisk); err != nil {
		t.Fatal(err)
	}
	if f.epoch, err = f.beat("modern", 0); err != nil {
		t.Fatal(err)
	}
	readable := func() error { _, err := f.committed("offsets"); return err }

	d.low.Store(true)
	f.noticed()
	f.stays(f.full)
	d.low.Store(false)
	f.goesOn()

	// A broker that starts on a full disk has what it had.
	f.end()
	d.low.Store(true)
	f.groupClient = groupClient{startBroker(t, d, set...)}
	f.until("reads are served", readable)
	f.noticed()
	f.stays(f.full)
	d.low.Store(false)
	f.goesOn()

	// Writes fail although there seems to be room, by a quota for instance.
	d.dry.Store(true)
	f.stays(func() {
		f.refused("commit", f.commit("offsets", 6))
		f.until("reads are served", readable)
		f.wantCommitted("offsets", 5)
	})
	d.dry.Store(false)
	f.goesOn()
}

// One of two log directories fails: its shards have no coordinator, the others
// go on; after a restart all that was acknowledged is there (R5, R7).
func TestGroupsOnFailedDirectory(t *testing.T) {
	const shards = 8
	base := t.TempDir()
	good, bad := filepath.Join(base, "good"), filepath.Join(base, "bad")
	set := []string{"log.dirs=" + good + "," + bad, "metadata.log.dir=" + filepath.Join(base, "metadata"), fmt.Sprintf("offsets.topic.num.partitions=%d", shards)}
	var s sick
	files := vfs.Faulty(vfs.Real, s.before)
	process := startBroker(t, files, set...)
	process.createTopic("t", 1)
	if vfsExists(t, filepath.Join(bad, "t-0")) { // commits are for a partition that stays
		good, bad = bad, good
	}
	p := process.groups()
	acked := map[string]int64{}
	onBad := map[string]bool{}
	for n := range 2 * shards {
		g := fmt.Sprint("group-", n)
		onBad[g] = vfsExists(t, filepath.Join(bad, fmt.Sprintf("%s-%d", api.OffsetsTopic, group.ShardOf(g, shards))))
		if err := p.commit(g, 1); err != nil {
			t.Fatal(err)
		}
		acked[g] = 1
	}
	s.strike(bad, vfs.OpSync)
	for g := range acked {
		err := p.commit(g, 2)
		switch {
		case err == nil && onBad[g]:
			t.Errorf("%s: acknowledged although its sync failed", g)
		case err == nil:
			acked[g] = 2
		case !onBad[g]:
			t.Errorf("%s on the good directory: %v", g, err)
		case !retriable(err):
			t.Errorf("%s: %v", g, err)
		}
	}
	s.heal()
	for g, bad := range onBad {
		if !bad {
			p.wantCommitted(g, acked[g])
			continue
		}
		p.until(g+" has no coordinator", func() error {
			req := kmsg.NewPtrFindCoordinatorRequest()
			req.CoordinatorKeys = []string{g}
			if code := ask[*kmsg.FindCoordinatorResponse](p, req).Coordinators[0].ErrorCode; code != kerr.CoordinatorNotAvailable.Code {
				return fmt.Errorf("find coordinator: %v", kerr.ErrorForCode(code))
			}
			return nil
		})
		if _, err := p.committed(g); !retriable(err) {
			t.Errorf("%s is fetched: %v", g, err)
		}
		if err := p.commit(g, 3); !retriable(err) {
			t.Errorf("%s is committed: %v", g, err)
		}
	}
	p.end()

	p = startBroker(t, files, set...).groups()
	for g, least := range acked {
		if got, err := p.committed(g); err != nil || got < least {
			t.Errorf("%s: %d, %v after the restart, %d was acknowledged", g, got, err, least)
		}
	}
}

// A group's id may be any bytes, and a label of a metric may not.
func TestMetricsOfOddGroups(t *testing.T) {
	process := startBroker(t, vfs.Real, "log.dirs="+t.TempDir(), "offsets.topic.num.partitions=1")
	process.createTopic("t", 1)
	p := process.groups()
	for _, g := range []string{"\xff", "\xfe", "\xff\xfd", "\ufffd", "", "a\nb\"c\\", "sound"} {
		if err := p.commit(g, 1); err != nil {
			t.Fatal(err)
		}
	}
	families, err := p.b.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(fmt.Sprint(families), "sound") {
		t.Error("nothing is told of a group with a sound name")
	}
}
