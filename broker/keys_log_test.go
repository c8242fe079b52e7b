package broker

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// logKey is a setting of logs: what it does to a topic is seen with the
// broker's key for all, and with the topic's own.
type logKey struct {
	broker, topic, value string
	also                 []string // the topic's other settings
	prove                func(p *process, l *logUnderTest)
}

var logKeyTable = []logKey{
	{"log.segment.bytes", "segment.bytes", "1048576", nil, rollsBySize},
	{"log.roll.ms", "segment.ms", "1000", nil, rollsAfter(5 * time.Second)},
	{"log.roll.hours", "", "1", nil, rollsAfter(2 * time.Hour)},
	{"log.roll.jitter.ms", "segment.jitter.ms", "3600000", []string{"segment.ms=3600000"}, rollsEarly},
	{"log.roll.jitter.hours", "", "1", []string{"segment.ms=3600000"}, rollsEarly},
	{"log.index.size.max.bytes", "segment.index.bytes", "16", nil, rollsByIndex},
	{"log.index.interval.bytes", "index.interval.bytes", "1000000", nil, hasFewEntries},
	{"log.flush.interval.messages", "flush.messages", "2", nil, syncs},
	{"log.flush.interval.ms", "flush.ms", "50", nil, syncs},
	{"log.flush.scheduler.interval.ms", "", "50", nil, syncs},
	{"log.retention.bytes", "retention.bytes", "1000", []string{"segment.bytes=1048576"}, deletesAged(0)},
	{"log.retention.ms", "retention.ms", "60000", []string{"segment.bytes=1048576"}, deletesAged(5 * time.Minute)},
	{"log.retention.minutes", "", "1", []string{"segment.bytes=1048576"}, deletesAged(5 * time.Minute)},
	{"log.retention.hours", "", "1", []string{"segment.bytes=1048576"}, deletesAged(2 * time.Hour)},
	{"log.segment.delete.delay.ms", "file.delete.delay.ms", "100", []string{"segment.bytes=1048576", "retention.bytes=1000"}, removesFiles},
	{"log.preallocate", "preallocate", "true", []string{"segment.bytes=1048576"}, reserves},
	{"log.message.timestamp.type", "message.timestamp.type", "LogAppendTime", nil, stamps},
	{"log.message.timestamp.before.max.ms", "message.timestamp.before.max.ms", "60000", nil, refusesAt(-time.Hour)},
	{"log.message.timestamp.after.max.ms", "message.timestamp.after.max.ms", "1000", nil, refusesAt(time.Minute)},
	{"message.max.bytes", "max.message.bytes", "1000", nil, refusesLarge},
	{"max.decompressed.message.bytes", "max.decompressed.message.bytes", "10000", []string{"compression.type=lz4"}, refusesBombs},
	{"compression.type", "compression.type", "zstd", nil, storesZstd},
	{"compression.gzip.level", "compression.gzip.level", "9", []string{"compression.type=gzip"}, compressesAs("compression.gzip.level", "9", "1")},
	{"compression.lz4.level", "compression.lz4.level", "1", []string{"compression.type=lz4"}, compressesAs("compression.lz4.level", "1", "9")},
	{"compression.zstd.level", "compression.zstd.level", "19", []string{"compression.type=zstd"}, compressesAs("compression.zstd.level", "19", "1")},
	{"log.cleanup.policy", "cleanup.policy", "compact", nil, wantsKeys},
	{"min.insync.replicas", "min.insync.replicas", "2", nil, wantsReplicas},
	{"barnabas.durable.acks", "barnabas.durable.acks", "false", nil, answersBeforeSync},
}

// logUnderTest is a topic of eight partitions whose settings are proven.
type logUnderTest struct {
	name     string
	id       [16]byte
	settings []string
}

// logBeds give each of the broker's keys a broker of its own.
func logBeds() (out []bed) {
	for _, k := range logKeyTable {
		out = append(out, bed{
			name: k.broker, files: counted, set: append(k.durability(), k.broker+"="+k.value, "log.retention.check.interval.ms=50"),
			broker: map[string]func(*process){
				k.broker: func(p *process) { k.prove(p, p.logUnderTest(k.also...)) },
			},
		})
	}
	return append(out, bed{
		name: "log.retention.check.interval.ms", set: []string{"log.retention.check.interval.ms=50"},
		broker: map[string]func(*process){"log.retention.check.interval.ms": func(p *process) {
			deletesAged(0)(p, p.logUnderTest("segment.bytes=1048576", "retention.bytes=1000"))
		}},
	})
}

// durability: syncs of durable acks hide others.
func (k *logKey) durability() []string {
	if k.broker == "barnabas.durable.acks" {
		return nil
	}
	return []string{"barnabas.durable.acks=false"}
}

// topicBed gives each of the topic's keys a topic of its own.
func topicBed() bed {
	b := bed{name: "topics", files: counted, set: []string{"log.retention.check.interval.ms=50"}, topic: map[string]func(*process){}}
	for _, k := range logKeyTable {
		if k.topic != "" {
			b.topic[k.topic] = func(p *process) {
				k.prove(p, p.logUnderTest(append(append(k.durability(), k.topic+"="+k.value), k.also...)...))
			}
		}
	}
	b.topic["internal.segment.bytes"] = func(p *process) {
		l := p.logUnderTest("internal.segment.bytes=1000")
		p.fill(l, 0, 3, 600, time.Now())
		p.wantSegments(l, 3)
	}
	b.topic["unclean.leader.election.enable"] = func(p *process) {
		one, led := lastMemberGone(p.t)
		if led().Leader != kafka.NoNode {
			p.t.Errorf("broker %d leads, and may lack records", led().Leader)
		}
		yes := "true"
		alter := []kadm.AlterConfig{{Name: "unclean.leader.election.enable", Value: &yes}}
		if r, err := kadm.NewClient(one.cl).AlterTopicConfigs(one.ctx(), alter, "t"); err != nil || r[0].Err != nil {
			p.t.Fatal(r, err)
		}
		one.awaitImage(func() bool { return led().Leader == 1 })
	}
	for _, side := range []string{"leader", "follower"} { // it takes three brokers
		b.topic[side+".replication.throttled.replicas"] = func(p *process) { throttles(p.t, side) }
	}
	return b
}

var topicsMade atomic.Int64

func (p *process) logUnderTest(settings ...string) *logUnderTest {
	p.t.Helper()
	l := &logUnderTest{name: fmt.Sprintf("t%d", topicsMade.Add(1)), settings: settings}
	out := p.make(l.name, 8, 1, settings...)
	if err := kerr.ErrorForCode(out.ErrorCode); err != nil {
		p.t.Fatalf("create %v: %v", settings, err)
	}
	l.id = out.TopicID
	return l
}

// make creates a topic.
func (p *process) make(name string, partitions int32, replicas int16, settings ...string) kmsg.CreateTopicsResponseTopic {
	p.t.Helper()
	req := kmsg.NewPtrCreateTopicsRequest()
	req.TimeoutMillis = 20_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, replicas
	for _, s := range settings {
		k, v, _ := strings.Cut(s, "=")
		c := kmsg.NewCreateTopicsRequestTopicConfig()
		c.Name, c.Value = k, &v
		t.Configs = append(t.Configs, c)
	}
	req.Topics = append(req.Topics, t)
	return ask[*kmsg.CreateTopicsResponse](groupClient{p}, req).Topics[0]
}

// oneRecord is a batch of one record.
func oneRecord(at time.Time, key, value []byte, o batch.Options) []byte {
	var b batch.Builder
	b.Reset(o)
	b.Append(at.UnixMilli(), key, value)
	out, _, err := b.Build(nil)
	if err != nil {
		panic(err)
	}
	return out
}

// put stores a batch in a partition and gives the answer.
func (p *process) put(l *logUnderTest, partition int32, records []byte) kmsg.ProduceResponseTopicPartition {
	p.t.Helper()
	req := kmsg.NewPtrProduceRequest()
	req.Acks, req.TimeoutMillis = -1, 10_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = l.name, l.id
	in := kmsg.NewProduceRequestTopicPartition()
	in.Partition, in.Records = partition, records
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	return ask[*kmsg.ProduceResponse](groupClient{p}, req).Topics[0].Partitions[0]
}

func (p *process) mustPut(l *logUnderTest, partition int32, records []byte) {
	p.t.Helper()
	if err := kerr.ErrorForCode(p.put(l, partition, records).ErrorCode); err != nil {
		p.t.Fatal(err)
	}
}

func (p *process) refused(l *logUnderTest, records []byte, want *kerr.Error) {
	p.t.Helper()
	if got := kerr.ErrorForCode(p.put(l, 0, records).ErrorCode); !errors.Is(got, want) {
		p.t.Errorf("%v, want %v", got, want)
	}
}

func (p *process) log(l *logUnderTest, partition int32) *storage.Log {
	p.t.Helper()
	log, ok := p.b.parts.logs.Get(kafka.TopicPartition{Topic: l.name, Partition: partition})
	if !ok {
		p.t.Fatalf("%s-%d has no log", l.name, partition)
	}
	return log
}

// until waits for what a part does in its own time.
func (p *process) until(what string, holds func() bool) {
	p.t.Helper()
	groupClient{p}.until(what, func() error {
		if !holds() {
			return errors.New("not yet")
		}
		return nil
	})
}

func noise(n int) []byte {
	r, b := rand.New(rand.NewPCG(1, 2)), make([]byte, n)
	for i := range b {
		b[i] = byte(r.IntN(256))
	}
	return b
}

func (p *process) fill(l *logUnderTest, partition int32, batches, size int, at time.Time) {
	p.t.Helper()
	for range batches {
		p.mustPut(l, partition, oneRecord(at, nil, noise(size), batch.Options{}))
	}
}

func (p *process) wantSegments(l *logUnderTest, least int) {
	p.t.Helper()
	if n := p.log(l, 0).Segments(); n < least {
		p.t.Errorf("%d segments, want %d", n, least)
	}
}

func rollsBySize(p *process, l *logUnderTest) {
	p.fill(l, 0, 3, 600_000, time.Now())
	p.wantSegments(l, 3)
}

func rollsAfter(d time.Duration) func(*process, *logUnderTest) {
	return func(p *process, l *logUnderTest) {
		p.fill(l, 0, 1, 10, time.Now().Add(-d))
		p.fill(l, 0, 1, 10, time.Now())
		p.wantSegments(l, 2)
	}
}

// rollsEarly: with a jitter of the whole hour, that none of eight partitions
// rolls after 59 minutes is one chance in 60 to the 8th.
func rollsEarly(p *process, l *logUnderTest) {
	rolled := 0
	for i := range int32(8) {
		p.fill(l, i, 1, 10, time.Now().Add(-59*time.Minute)) // the first segment draws when it is opened
		p.fill(l, i, 1, 10, time.Now())
		rolled += p.log(l, i).Segments() - 1
	}
	if rolled == 0 {
		p.t.Error("no segment rolls before its hour")
	}
}

func rollsByIndex(p *process, l *logUnderTest) {
	p.fill(l, 0, 6, 5000, time.Now())
	p.wantSegments(l, 2)
}

func hasFewEntries(p *process, l *logUnderTest) {
	p.fill(l, 0, 10, 5000, time.Now())
	if err := p.b.parts.logs.Checkpoint(p.ctx()); err != nil {
		p.t.Fatal(err)
	}
	fi, err := os.Stat(filepath.Join(p.log(l, 0).Path(), "00000000000000000000.index"))
	if err != nil || fi.Size() > 8 {
		p.t.Errorf("the index has %d bytes (%v), want none or one entry of 8", fi.Size(), err)
	}
}

func syncs(p *process, l *logUnderTest) {
	p.fill(l, 0, 1+2, 10, time.Now()) // the first is synced to mark the log, whatever is set
	log := p.log(l, 0)
	p.until("a sync", func() bool { return log.FlushedEnd() == log.End() })
}

func deletesAged(d time.Duration) func(*process, *logUnderTest) {
	return func(p *process, l *logUnderTest) {
		p.fill(l, 0, 4, 600_000, time.Now().Add(-d))
		log := p.log(l, 0)
		p.until("a deletion", func() bool { return log.Start() > 0 })
	}
}

// removesFiles: by default they stay for a minute.
func removesFiles(p *process, l *logUnderTest) {
	deletesAged(0)(p, l)
	began := time.Now()
	p.until("the files' end", func() bool {
		left, err := filepath.Glob(filepath.Join(p.log(l, 0).Path(), "*.deleted"))
		_, first := os.Stat(filepath.Join(p.log(l, 0).Path(), "00000000000000000000.log"))
		return err == nil && len(left) == 0 && first != nil
	})
	if d := time.Since(began); d > 20*time.Second {
		p.t.Errorf("the files stayed for %v", d)
	}
}

// counted counts what is reserved for files of 1 MiB.
var (
	reserved atomic.Int64
	counted  = vfs.Wrap(vfs.Real, vfs.Hooks{After: func(op vfs.Op, err error) {
		if op.Kind == vfs.OpReserve && op.Off == 1<<20 && err == nil {
			reserved.Add(1)
		}
	}})
)

func reserves(p *process, l *logUnderTest) {
	had := reserved.Load()
	p.fill(l, 0, 3, 600_000, time.Now())
	if n := reserved.Load() - had; n < 2 {
		p.t.Errorf("room was reserved for %d segments", n)
	}
}

func stamps(p *process, l *logUnderTest) {
	if out := p.put(l, 0, oneRecord(time.Now().Add(-time.Hour), nil, []byte("v"), batch.Options{})); out.LogAppendTime < time.Now().Add(-time.Minute).UnixMilli() {
		p.t.Errorf("stamped %d (%v)", out.LogAppendTime, kerr.ErrorForCode(out.ErrorCode))
	}
}

func refusesAt(d time.Duration) func(*process, *logUnderTest) {
	return func(p *process, l *logUnderTest) {
		p.mustPut(l, 0, oneRecord(time.Now(), nil, []byte("v"), batch.Options{}))
		p.refused(l, oneRecord(time.Now().Add(d), nil, []byte("v"), batch.Options{}), kerr.InvalidTimestamp)
	}
}

func refusesLarge(p *process, l *logUnderTest) {
	p.mustPut(l, 0, oneRecord(time.Now(), nil, noise(500), batch.Options{}))
	p.refused(l, oneRecord(time.Now(), nil, noise(2000), batch.Options{}), kerr.MessageTooLarge)
}

func refusesBombs(p *process, l *logUnderTest) {
	gz := batch.Options{Encoding: batch.Encoding{Codec: batch.Gzip, Level: -1}}
	p.mustPut(l, 0, oneRecord(time.Now(), nil, bytes.Repeat([]byte("a"), 5_000), gz))
	if code := p.put(l, 0, oneRecord(time.Now(), nil, bytes.Repeat([]byte("a"), 20_000), gz)).ErrorCode; code == 0 {
		p.t.Error("a batch that opens to too much was taken")
	}
}

// stored is the size on disk, and the codec, of one batch of text.
func (p *process) stored(l *logUnderTest) (int64, batch.Codec) {
	p.t.Helper()
	r, words := rand.New(rand.NewPCG(3, 4)), []string{}
	for range 20_000 {
		words = append(words, fmt.Sprint(r.IntN(3000)*r.IntN(7)))
	}
	p.mustPut(l, 0, oneRecord(time.Now(), nil, []byte(strings.Join(words, " ")), batch.Options{})) // retention is not to take it
	b, err := os.ReadFile(filepath.Join(p.log(l, 0).Path(), "00000000000000000000.log"))
	if err != nil {
		p.t.Fatal(err)
	}
	return int64(len(b)), batch.Batch(b).Codec()
}

func storesZstd(p *process, l *logUnderTest) {
	if _, codec := p.stored(l); codec != batch.Zstd {
		p.t.Errorf("stored as %v", codec)
	}
}

// compressesAs: what the settings under test store is as large as with the
// level, and not as with the other one.
func compressesAs(key, level, other string) func(*process, *logUnderTest) {
	return func(p *process, l *logUnderTest) {
		kind := "compression.type=" + strings.Split(key, ".")[1]
		got, _ := p.stored(l)
		same, _ := p.stored(p.logUnderTest(kind, key+"="+level))
		differs, _ := p.stored(p.logUnderTest(kind, key+"="+other))
		if got != same || got == differs {
			p.t.Errorf("%d bytes, with level %s %d and with %s %d", got, level, same, other, differs)
		}
	}
}

func wantsKeys(p *process, l *logUnderTest) {
	p.mustPut(l, 0, oneRecord(time.Now(), []byte("k"), []byte("v"), batch.Options{}))
	p.refused(l, oneRecord(time.Now(), nil, []byte("v"), batch.Options{}), kerr.InvalidRecord)
}

// joined registers another broker, which does nothing, until it leaves.
func (p *process) joined() (leaves func()) {
	p.t.Helper()
	store, keeper := p.b.parts.store, p.b.parts.keeper
	other := &meta.Broker{ID: 2, StartID: "other", Dirs: []kafka.DirID{{15: 1}}, Features: supportedFeatures(),
		Listeners: []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: 1}}}
	reg, err := plan.Register(keeper.Image().Keys(), nil, other, 0)
	if err == nil {
		_, err = txn(p.ctx(), store, reg.Put)
	}
	if err != nil {
		p.t.Fatal(err)
	}
	p.awaitImage(func() bool { _, ok := keeper.Image().Broker(2); return ok })
	return func() {
		gone, _ := keeper.Image().Broker(2)
		if _, err := txn(p.ctx(), store, plan.Unregister(keeper.Image().Keys(), 2, gone.Epoch)); err != nil {
			p.t.Fatal(err)
		}
	}
}

// wantsReplicas: of two replicas the other one is with a broker that comes, so
// that the topic can be made, and goes.
func wantsReplicas(p *process, l *logUnderTest) {
	keeper := p.b.parts.keeper
	leaves := p.joined()
	two := &logUnderTest{name: l.name + "-two"}
	out := p.make(two.name, 1, 2, l.settings...)
	if out.ErrorCode != 0 {
		p.t.Fatal(kerr.ErrorForCode(out.ErrorCode))
	}
	two.id = out.TopicID
	leaves()
	p.awaitImage(func() bool {
		t, ok := keeper.Image().Topic(two.name)
		return ok && len(t.Partitions[0].ISR) == 1 && t.Partitions[0].Leader == 1
	})
	p.refused(two, oneRecord(time.Now(), nil, []byte("v"), batch.Options{}), kerr.NotEnoughReplicas)
}

func answersBeforeSync(p *process, l *logUnderTest) {
	for range 2 { // the first is synced to mark the log
		p.mustPut(l, 0, oneRecord(time.Now(), nil, []byte("v"), batch.Options{}))
	}
	if log := p.log(l, 0); log.FlushedEnd() == log.End() {
		p.t.Error("synced before the answer")
	}
}
