//go:build interop

package interop

import (
	"context"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// TestKafkaOffsetsTopic has Apache Kafka keep groups of every kind, brings its
// __consumer_offsets here, and finds the same groups, members and offsets.
func TestKafkaOffsetsTopic(t *testing.T) {
	needProcess(t)
	settings := append([]string{"offsets.topic.num.partitions=1"}, consumerTimes...)
	kafka := startKafka(t, settings...)
	there := admin(t, kafka.addr)
	const topic = "moved"
	if _, err := there.CreateTopic(t.Context(), 2, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	awaken(t, kafka.addr, "classic-static", topic, context.Background())
	awaken(t, kafka.addr, "consumer-static", topic, context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true))
	commitTo(t, there, "offsets-alone", topic, 3, 4)
	want := groupsOf(t, there, topic)
	kafka.stop()

	dir := filepath.Join(workDir(t), "here")
	b := startBroker(t, dir, settings...)
	here := admin(t, b.Addr)
	await(t, "the topic of offsets is there", func() bool { // asking for a coordinator makes it
		got, err := here.FetchOffsets(t.Context(), "first")
		return err == nil && got.Error() == nil
	})
	if _, err := here.CreateTopic(t.Context(), 2, 1, nil, topic); err != nil {
		t.Fatal(err)
	}
	b.stop()
	replacePartition(t, filepath.Join(kafka.logs, "__consumer_offsets-0"), partitionDir(t, dir, "__consumer_offsets", 0))
	b = startBroker(t, dir, settings...)
	got := groupsOf(t, admin(t, b.Addr), topic)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("groups here:\n%+v\nwant:\n%+v", got, want)
	}
	t.Logf("%+v", got)
	b.stop()
}

// awaken has a static member join a group, commit, and go without leaving.
func awaken(t *testing.T, addr, group, topic string, ctx context.Context) {
	t.Helper()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.WithContext(ctx), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic),
		kgo.InstanceID("instance"), kgo.ClientID("mover"), kgo.DisableAutoCommit())
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	poll, cancel := context.WithCancel(t.Context())
	go cl.PollFetches(poll)
	defer cancel()
	adm := admin(t, addr)
	await(t, group+" is stable", func() bool {
		groups, err := adm.ListGroups(t.Context())
		return err == nil && groups[group].State == "Stable"
	})
	// As the member: nobody else may commit for a group that has one.
	commit, cancelCommit := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancelCommit()
	cl.CommitOffsetsSync(commit, map[string]map[int32]kgo.EpochOffset{topic: {0: {Epoch: -1, Offset: 7}, 1: {Epoch: -1, Offset: 8}}},
		func(_ *kgo.Client, _ *kmsg.OffsetCommitRequest, r *kmsg.OffsetCommitResponse, err error) {
			if err != nil || kerr.ErrorForCode(r.Topics[0].Partitions[0].ErrorCode) != nil {
				t.Errorf("%s: commit: %v %v", group, err, r)
			}
		})
}

// movedGroup is what has to stay of a group.
type movedGroup struct {
	Group, Type, State string
	Members            []string
	Offsets            [2]int64
}

func groupsOf(t *testing.T, adm *kadm.Client, topic string) (all []movedGroup) {
	t.Helper()
	groups, err := adm.ListGroups(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range groups.Sorted() {
		m := movedGroup{Group: g.Group, Type: g.GroupType, State: g.State, Offsets: committed(t, adm, g.Group, topic)}
		if g.GroupType == "consumer" {
			m.State = "" // its topics have other ids here
		}
		described, err := adm.DescribeGroups(t.Context(), g.Group)
		if err != nil {
			t.Fatal(err)
		}
		for _, member := range described[g.Group].Members {
			m.Members = append(m.Members, member.MemberID+" "+member.ClientID+" "+*member.InstanceID)
		}
		slices.Sort(m.Members)
		all = append(all, m)
	}
	return all
}
