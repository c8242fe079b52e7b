package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// large is a settled group of n members that read one topic of n partitions.
func large(t testing.TB, n int) (*rig, []*ConsumerHeartbeat) {
	r := newRig(nil)
	r.cfg.ConsumerDefaults.AssignmentInterval = time.Second
	r.m.cfg = r.cfg
	if err := r.w.CreateTopic("t", int32(n)); err != nil {
		t.Fatal(err)
	}
	r.m.Step(r.now, 0, &NewImage{Image: r.w.Img, Delta: &r.w.Delta})
	beats := make([]*ConsumerHeartbeat, n)
	for i := range beats {
		req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
		req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, "g", fmt.Sprintf("member-%04d", i), 60000
		req.SubscribedTopicNames, req.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		beats[i] = &ConsumerHeartbeat{Req: req, Client: Client{ID: "c", Host: "/h"}}
	}
	round := func() {
		r.now = r.now.Add(time.Second)
		for _, b := range beats {
			resp := r.m.Step(r.now, 1, b).Replies[0].Body.(*kmsg.ConsumerGroupHeartbeatResponse)
			if resp.ErrorCode != 0 {
				t.Fatal(brief(resp))
			}
			b.Req.MemberEpoch, b.Req.RebalanceTimeoutMillis, b.Req.SubscribedTopicNames = resp.MemberEpoch, -1, nil
			if resp.Assignment != nil {
				b.Req.Topics = []kmsg.ConsumerGroupHeartbeatRequestTopic{}
				for _, at := range resp.Assignment.Topics {
					b.Req.Topics = append(b.Req.Topics, kmsg.ConsumerGroupHeartbeatRequestTopic{TopicID: at.TopicID, Partitions: at.Partitions})
				}
			}
		}
	}
	for range 6 {
		round()
	}
	if got := r.m.lookup("g").members.state(); got != "Stable" {
		t.Fatal(got)
	}
	for _, b := range beats {
		b.Req.Topics = nil
	}
	return r, beats
}

// A heartbeat of a settled group costs the same whatever the group's size.
func TestSteadyHeartbeat(t *testing.T) {
	costs := func(n int) float64 {
		r, beats := large(t, n)
		return testing.AllocsPerRun(100, func() { r.m.Step(r.now, 1, beats[n/2]) })
	}
	if small, big := costs(4), costs(1000); big > small || big > 12 {
		t.Errorf("%v allocations in a group of 4, %v in one of 1000", small, big)
	}
}

func BenchmarkSteadyHeartbeat(b *testing.B) {
	r, beats := large(b, 1000)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.m.Step(r.now, 1, beats[i%len(beats)])
	}
}

// A member that comes and goes: two new group epochs, one assignment.
func BenchmarkJoinAndLeave(b *testing.B) {
	r, beats := large(b, 1000)
	join := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	join.Version, join.Group, join.MemberID, join.RebalanceTimeoutMillis = 1, "g", "new", 60000
	join.SubscribedTopicNames, join.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	leave := *join
	leave.MemberEpoch = -1
	b.ReportAllocs()
	for b.Loop() {
		r.now = r.now.Add(2 * time.Second)
		r.m.Step(r.now, 1, &ConsumerHeartbeat{Req: join, Client: beats[0].Client})
		r.m.Step(r.now, 1, &ConsumerHeartbeat{Req: &leave})
	}
}
