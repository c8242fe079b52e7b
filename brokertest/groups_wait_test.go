//go:build unix

package brokertest_test

import (
	"fmt"
	"log/slog"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// Members that wait for others hold nothing of the budget of requests: it would
// keep out whom they wait for, and everybody else (safety 37).
func TestWaitingJoinsHoldNoBudget(t *testing.T) {
	b, p := withGroups(t, brokertest.Set("socket.request.max.bytes", "4194304"), brokertest.Set("queued.max.request.bytes", "4194304"))
	p.create("t", 1)
	member, generation := p.stable("g")
	large := func() *kmsg.JoinGroupRequest { // with its cost, it takes the budget whole
		r := join(3, "g", "", "range")
		r.RebalanceTimeoutMillis = 60_000
		r.Protocols[0].Metadata = append(subscription("t"), make([]byte, 900_000)...)
		return r
	}
	for n := range 4 {
		c, err := wire.Dial(t.Context(), b.Addr(), wire.ClientOptions{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := c.Send(t.Context(), large()); err != nil {
			t.Fatal(err)
		}
		describe := kmsg.NewPtrDescribeGroupsRequest()
		describe.Version, describe.Groups = 5, []string{"g"}
		until(t, fmt.Sprint("member ", n, " waits"), func() bool {
			return len(ask[*kmsg.DescribeGroupsResponse](p, describe).Groups[0].Members) == n+2
		})
	}
	began := time.Now()
	p.write("t", records(strings.Repeat("x", 500_000)))
	// Whom they wait for comes with a large request as well.
	again := large()
	again.MemberID = member
	if resp := ask[*kmsg.JoinGroupResponse](p, again); resp.ErrorCode != 0 || resp.Generation <= generation || len(resp.Members) != 5 {
		t.Errorf("joined again: %s, generation %d, %d members", name(resp.ErrorCode), resp.Generation, len(resp.Members))
	}
	if d := time.Since(began); d > 10*time.Second {
		t.Errorf("it took %v", d)
	}
}

// A broker that was stopped for longer than the sessions of its members does not
// throw them out: it could not hear them. Those that do not come back go in the end.
func TestMembersOutliveAStoppedBroker(t *testing.T) {
	b := spawn(t, t.TempDir(), 0, "group.initial.rebalance.delay.ms=0", "group.min.session.timeout.ms=1000", "offsets.topic.num.partitions=1",
		"group.consumer.session.timeout.ms=1000", "group.consumer.min.session.timeout.ms=1000", "group.consumer.heartbeat.interval.ms=100", "group.consumer.min.heartbeat.interval.ms=100")
	p := b.dial()
	p.awaitGroups()
	p.create("t", 1)
	short := func(r *kmsg.JoinGroupRequest) { r.SessionTimeoutMillis = 1000 }
	stable := func(group string) (string, int32) {
		j := p.join(group, short)
		r := kmsg.NewPtrSyncGroupRequest()
		r.Version, r.Group, r.MemberID, r.Generation = 3, group, j.MemberID, j.Generation
		ask[*kmsg.SyncGroupResponse](p, r)
		return j.MemberID, j.Generation
	}
	modern := p.consumerBeat("modern", "m", 0, func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{"t"} })
	member, generation := stable("classic")
	silent, _ := stable("silent")

	if err := b.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	<-time.After(5 * time.Second) // the sessions, and what counts as a sleep
	if err := b.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	describe := kmsg.NewPtrDescribeGroupsRequest()
	describe.Version, describe.Groups = 5, []string{"silent"}
	if n := len(ask[*kmsg.DescribeGroupsResponse](p, describe).Groups[0].Members); n != 1 {
		t.Errorf("%d members at once after the stop, want 1 (%s)", n, silent)
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); { // sessions go on
		wantCode(t, "classic", p.heartbeat("classic", member, generation), nil)
		next := p.consumerBeat("modern", "m", modern.MemberEpoch, nil)
		wantCode(t, "modern", next.ErrorCode, nil)
		modern = next
	}
	until(t, "who says nothing goes", func() bool {
		return len(ask[*kmsg.DescribeGroupsResponse](p, describe).Groups[0].Members) == 0
	})
}

// What a client sets the offsets topic to is not what a coordinator's writes fail by.
func TestSettingsOfTheOffsetsTopic(t *testing.T) {
	log := &alarms{}
	_, p := withGroups(t, brokertest.Log(slog.New(log)))
	p.create("t", 1)
	for _, setting := range []string{"segment.bytes=1048576", "internal.segment.bytes=1000", "max.message.bytes=10", "message.timestamp.before.max.ms=0", "message.timestamp.after.max.ms=0", "compression.type=gzip", "message.timestamp.type=LogAppendTime"} {
		key, value, _ := strings.Cut(setting, "=")
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.Resources = []kmsg.IncrementalAlterConfigsRequestResource{{ResourceType: kmsg.ConfigResourceTypeTopic, ResourceName: "__consumer_offsets",
			Configs: []kmsg.IncrementalAlterConfigsRequestResourceConfig{{Name: key, Value: &value}}}}
		resp := ask[*kmsg.IncrementalAlterConfigsResponse](p, req)
		t.Logf("%s: %s", setting, name(resp.Resources[0].ErrorCode))
		for n := range 5 {
			group := fmt.Sprint("g", n)
			out := ask[*kmsg.OffsetCommitResponse](p, commits(8, group, "", 250, 4096)) // a full batch
			wantCode(t, setting+": commit", out.Topics[0].Partitions[0].ErrorCode, nil)
			if got := p.committed(group, "t", 0); got != 249 {
				t.Errorf("%s: committed %d, want 249", setting, got)
			}
		}
	}
	log.none(t)
}

// The offsets topic goes like any other: so do the groups, and new ones come.
func TestOffsetsTopicDeleted(t *testing.T) {
	log := &alarms{}
	b, p := withGroups(t, brokertest.Log(slog.New(log)))
	p.create("t", 1)
	for range 3 {
		member, generation := p.stable("g")
		p.mustCommit("offsets", "t", 5)
		p.remove("__consumer_offsets")
		if code := p.heartbeat("g", member, generation); code == 0 {
			t.Error("a group without a topic beats")
		}
		p.awaitGroups()
		wantCode(t, "heartbeat of a member of before", p.heartbeat("g", member, generation), kerr.UnknownMemberID)
		if got := p.committed("offsets", "t", 0); got != -1 {
			t.Errorf("committed %d of before", got)
		}
	}
	b.Restart()
	p = dial(t, b)
	p.awaitGroups()
	p.stable("g")
	log.none(t)
}
