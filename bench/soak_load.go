package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	soakTopics     = 3
	soakPartitions = 6
	soakRate       = 300 // records a second and topic
)

func soakTopic(i int) string { return fmt.Sprintf("soak-%d", i) }

// soak is the load of a run and what it has seen.
type soak struct {
	addr                                      string
	admin                                     *kadm.Client
	produced, consumed, changes, knocks, lost atomic.Int64
	mu                                        sync.Mutex
	errs                                      map[string]int64
	churned                                   []string // topics that may be changed and deleted
	made                                      int
}

func (s *soak) failed(what string, err error) {
	s.mu.Lock()
	s.errs[what+": "+err.Error()]++
	s.mu.Unlock()
}

func (s *soak) errCount() (n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, k := range s.errs {
		n += k
	}
	return n
}

func (s *soak) line() string {
	return fmt.Sprintf("produced %d, consumed %d, changes %d, errors %d, lost %d", s.produced.Load(), s.consumed.Load(), s.changes.Load(), s.errCount(), s.lost.Load())
}

// setup makes the steady topics: small enough that retention keeps them flat.
func (s *soak) setup(ctx context.Context) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr))
	if err != nil {
		log.Fatal(err)
	}
	s.admin = kadm.NewClient(cl)
	for i := range soakTopics {
		set := map[string]*string{"retention.bytes": new("4194304"), "segment.bytes": new("1048576"), "file.delete.delay.ms": new("1000")}
		if _, err := s.admin.CreateTopic(ctx, soakPartitions, 1, set, soakTopic(i)); err != nil {
			log.Fatal(err)
		}
	}
}

// produce writes numbered records to each partition in turn.
func (s *soak) produce(ctx context.Context, topic string) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RecordDeliveryTimeout(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	defer cl.Close()
	tick := time.NewTicker(time.Second / soakRate)
	defer tick.Stop()
	for n := uint64(0); ; n++ {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		v := make([]byte, 512)
		binary.BigEndian.PutUint64(v, n/soakPartitions)
		cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: int32(n % soakPartitions), Value: v}, func(_ *kgo.Record, err error) {
			switch {
			case err == nil:
				s.produced.Add(1)
			case ctx.Err() == nil:
				s.failed("produce", err)
			}
		})
	}
}

// consume is one member that leaves after a minute or two and comes back. In a
// partition the numbers must follow each other, from where it begins.
func (s *soak) consume(ctx context.Context, group, topic, protocol string, rnd *rand.Rand) {
	for ctx.Err() == nil {
		life, cancel := context.WithTimeout(ctx, time.Duration(30+rnd.IntN(90))*time.Second)
		s.member(life, group, topic, protocol)
		cancel()
	}
}

func (s *soak) member(ctx context.Context, group, topic, protocol string) {
	next := map[int32]uint64{}
	forget := func(_ context.Context, _ *kgo.Client, gone map[string][]int32) {
		for _, p := range gone[topic] {
			delete(next, p)
		}
	}
	opts := []kgo.Opt{kgo.SeedBrokers(s.addr), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.BlockRebalanceOnPoll(),
		kgo.OnPartitionsRevoked(forget), kgo.OnPartitionsLost(forget), kgo.AutoCommitInterval(5 * time.Second), kgo.FetchMaxWait(500 * time.Millisecond)}
	if protocol == "consumer" {
		opts = append(opts, kgo.WithContext(context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)))
	}
	cl, err := kgo.NewClient(opts...)
	if err != nil {
		log.Fatal(err)
	}
	defer cl.CloseAllowingRebalance()
	for ctx.Err() == nil {
		fs := cl.PollRecords(ctx, 1000)
		fs.EachError(func(t string, p int32, err error) {
			if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
				s.failed(fmt.Sprintf("consume as %s", protocol), err)
			}
		})
		fs.EachRecord(func(r *kgo.Record) {
			k := binary.BigEndian.Uint64(r.Value)
			if want, ok := next[r.Partition]; ok && k != want {
				s.lost.Add(1)
				s.failed("order", fmt.Errorf("%s-%d offset %d: record %d in the place of %d", r.Topic, r.Partition, r.Offset, k, want))
			}
			next[r.Partition] = k + 1
			s.consumed.Add(1)
		})
		cl.AllowRebalance()
	}
}

// churn changes something five times a second.
func (s *soak) churn(ctx context.Context, rnd *rand.Rand) {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		what, err := s.change(ctx, rnd)
		if ctx.Err() != nil {
			return
		}
		if err != nil {
			s.failed(what, err)
		}
		s.changes.Add(1)
	}
}

// soakSettings are overrides that are drawn for a topic; none shortens what the
// steady consumers read. preallocate is none of them: with segments of the
// default size it reserves a gigabyte for each partition.
var soakSettings = map[string][]string{
	"compression.type":                {"producer", "lz4", "zstd", "gzip", "snappy", "uncompressed"},
	"max.message.bytes":               {"1048588", "2000000"},
	"segment.bytes":                   {"1048576", "2097152"},
	"segment.ms":                      {"60000", "604800000"},
	"retention.ms":                    {"600000", "604800000"},
	"message.timestamp.type":          {"CreateTime", "LogAppendTime"},
	"flush.messages":                  {"1000", "9223372036854775807"},
	"barnabas.durable.acks":           {"true", "false"},
	"index.interval.bytes":            {"1024", "4096"},
	"min.insync.replicas":             {"1"},
	"delete.retention.ms":             {"1000", "86400000"},
	"max.compaction.lag.ms":           {"9223372036854775807"},
	"compression.zstd.level":          {"1", "3"},
	"message.timestamp.before.max.ms": {"9223372036854775807", "86400000"},
}

// change does one thing at random.
func (s *soak) change(ctx context.Context, rnd *rand.Rand) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	pick := func() string { return s.churned[rnd.IntN(len(s.churned))] }
	switch k := rnd.IntN(10); {
	case k < 3 && len(s.churned) < 20 || len(s.churned) == 0:
		s.made++
		name := fmt.Sprintf("soak-churn-%d", s.made)
		_, err := s.admin.CreateTopic(ctx, int32(1+rnd.IntN(8)), 1, map[string]*string{"file.delete.delay.ms": new("1000")}, name)
		s.churned = append(s.churned, name)
		return "create topic", err
	case k < 3:
		at := rnd.IntN(len(s.churned))
		name := s.churned[at]
		s.churned = append(s.churned[:at], s.churned[at+1:]...)
		r, err := s.admin.DeleteTopics(ctx, name)
		return "delete topic", errors.Join(err, r.Error())
	case k < 6:
		return "topic settings", s.configure(ctx, rnd, pick())
	case k < 7:
		return "topic settings", s.configure(ctx, rnd, soakTopic(rnd.IntN(soakTopics)))
	case k < 8:
		return "broker settings", s.configureBroker(ctx, rnd)
	case k < 9:
		return "records", s.fill(ctx, rnd, pick())
	default:
		return "questions", s.ask(ctx)
	}
}

func (s *soak) configure(ctx context.Context, rnd *rand.Rand, topic string) error {
	return s.alter(rnd, soakSettings, func(c kadm.AlterConfig) (kadm.AlterConfigsResponses, error) {
		return s.admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{c}, topic)
	})
}

// configureBroker changes the defaults of all brokers.
func (s *soak) configureBroker(ctx context.Context, rnd *rand.Rand) error {
	return s.alter(rnd, map[string][]string{
		"log.retention.ms": {"600000", "604800000"}, "compression.type": {"producer", "zstd"}, "message.max.bytes": {"1048588", "3000000"},
		"log.segment.bytes": {"1073741824", "10485760"}, "max.connections.per.ip": {"100000", "200000"}, "log.index.interval.bytes": {"4096", "8192"},
	}, func(c kadm.AlterConfig) (kadm.AlterConfigsResponses, error) {
		return s.admin.AlterBrokerConfigs(ctx, []kadm.AlterConfig{c})
	})
}

// alter sets one drawn setting, or takes it away.
func (s *soak) alter(rnd *rand.Rand, from map[string][]string, do func(kadm.AlterConfig) (kadm.AlterConfigsResponses, error)) error {
	skip := rnd.IntN(len(from))
	for name, values := range from {
		if skip--; skip >= 0 {
			continue
		}
		c := kadm.AlterConfig{Op: kadm.DeleteConfig, Name: name}
		if rnd.IntN(3) > 0 {
			c.Op, c.Value = kadm.SetConfig, new(values[rnd.IntN(len(values))])
		}
		rs, err := do(c)
		for _, r := range rs {
			if r.Err != nil {
				err = errors.Join(err, fmt.Errorf("%s: %w: %s", name, r.Err, r.ErrMessage))
			}
		}
		return err
	}
	return nil
}

// fill writes to a topic that comes and goes, deletes records, or adds partitions.
func (s *soak) fill(ctx context.Context, rnd *rand.Rand, topic string) error {
	switch rnd.IntN(3) {
	case 0:
		cl, err := kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.DefaultProduceTopic(topic))
		if err != nil {
			return err
		}
		defer cl.Close()
		var all []*kgo.Record
		for i := range 200 {
			all = append(all, &kgo.Record{Key: strconv.AppendInt(nil, int64(i), 10), Value: make([]byte, 1000)})
		}
		return cl.ProduceSync(ctx, all...).FirstErr()
	case 1:
		ends, err := s.admin.ListEndOffsets(ctx, topic)
		if err != nil {
			return err
		}
		r, err := s.admin.DeleteRecords(ctx, ends.Offsets())
		return errors.Join(err, r.Error())
	}
	r, err := s.admin.CreatePartitions(ctx, 1, topic)
	if err = errors.Join(err, r.Error()); errors.Is(err, kerr.InvalidPartitions) {
		err = nil
	}
	return err
}

// ask reads what tools read.
func (s *soak) ask(ctx context.Context) error {
	_, err := s.admin.Metadata(ctx)
	_, err2 := s.admin.DescribeAllLogDirs(ctx, nil)
	_, err3 := s.admin.DescribeBrokerConfigs(ctx, 1)
	_, err4 := s.admin.Lag(ctx)
	return errors.Join(err, err2, err3, err4)
}
