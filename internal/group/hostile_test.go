package group

import (
	"math"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A string that does not fit a record is refused before one is written, or no
// coordinator could load it.
func TestStringsFitRecords(t *testing.T) {
	long := strings.Repeat("x", math.MaxInt16+1)
	for what, set := range map[string]func(*kmsg.ConsumerGroupHeartbeatRequest){
		"group":    func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.Group = long },
		"member":   func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.MemberID = long },
		"instance": func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.InstanceID = &long },
		"rack":     func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.RackID = &long },
		"regex":    func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicRegex = &long },
		"topic":    func(r *kmsg.ConsumerGroupHeartbeatRequest) { r.SubscribedTopicNames = []string{"t", long} },
	} {
		r := newRig(t)
		got := r.do(what, &ConsumerHeartbeat{Req: joins("g", "m", set)})
		if !strings.Contains(got, kerr.InvalidRequest.Message) || len(r.log) > 0 {
			t.Errorf("%s: %.200s", what, got)
		}
		r.check(what)
	}
}

// joins is a first heartbeat.
func joins(group, member string, set func(*kmsg.ConsumerGroupHeartbeatRequest)) *kmsg.ConsumerGroupHeartbeatRequest {
	req := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	req.Version, req.Group, req.MemberID, req.RebalanceTimeoutMillis = 1, group, member, 60_000
	req.SubscribedTopicNames, req.Topics = []string{"t"}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
	if set != nil {
		set(req)
	}
	return req
}

// A member of the classic protocol need not say anything sensible under the
// protocols that are not looked at; it is assigned partitions all the same.
func TestMetadataOfOtherProtocols(t *testing.T) {
	sound := kmsg.NewConsumerMemberMetadata()
	sound.Topics = []string{"t"}
	of := func(first string, rest []byte) []kmsg.JoinGroupRequestProtocol {
		a, b := kmsg.NewJoinGroupRequestProtocol(), kmsg.NewJoinGroupRequestProtocol()
		a.Name, a.Metadata, b.Name, b.Metadata = first, sound.AppendTo(nil), "common", rest
		return []kmsg.JoinGroupRequestProtocol{a, b}
	}
	for _, rest := range [][]byte{nil, {}, {0}, {0xff, 0xff}, {0x7f, 0xff}} {
		r := newRig(t)
		if err := r.w.CreateTopic("t", 2); err != nil {
			t.Fatal(err)
		}
		r.image()
		r.do("modern", &ConsumerHeartbeat{Req: joins("g", "modern", nil)})
		for _, id := range []string{"a", "b"} {
			req := kmsg.NewPtrJoinGroupRequest()
			req.Version, req.Group, req.MemberID, req.ProtocolType, req.SessionTimeoutMillis = 3, "g", id, "consumer", 30_000
			req.Protocols = of("only "+id, rest)
			r.do(id, &JoinGroup{Req: req})
		}
		leave := joins("g", "modern", nil)
		leave.MemberEpoch = -1
		r.do("modern", &ConsumerHeartbeat{Req: leave}) // the group becomes a classic one
		if _, c := (&step{Machine: r.m}).classicOf("g"); c == nil || len(c.members) != 2 {
			t.Fatalf("%v: no classic group of two", rest)
		}
		r.check("downgraded")
	}
}
