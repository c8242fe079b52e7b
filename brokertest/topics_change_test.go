package brokertest_test

import (
	"fmt"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/brokertest"
)

// doomed is a topic of a DeleteTopics request, by name, by id, or by both.
type doomed struct {
	name string
	id   [16]byte
}

func (p *peer) deleteTopics(version int16, topics ...doomed) []kmsg.DeleteTopicsResponseTopic {
	p.t.Helper()
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.Version, req.TimeoutMillis = version, 20_000
	for _, d := range topics {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.TopicID = d.id
		if d.name != "" {
			t.Topic = kmsg.StringPtr(d.name)
			req.TopicNames = append(req.TopicNames, d.name)
		}
		req.Topics = append(req.Topics, t)
	}
	return ask[*kmsg.DeleteTopicsResponse](p, req).Topics
}

// row is an answer to DeleteTopics as "name id code".
func row(r kmsg.DeleteTopicsResponseTopic) string {
	topic := "null"
	if r.Topic != nil {
		topic = *r.Topic
	}
	return fmt.Sprintf("%s %x %s", topic, r.TopicID[:1], name(r.ErrorCode))
}

func TestADM04CreatedTwice(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	out := p.createTopics(7, false, wish("twice", 1, 1), wish("once", 1, 1), wish("twice", 2, 1), wish("twice", 3, 1))
	if len(out) != 2 {
		t.Fatalf("%d results, want 2", len(out))
	}
	wantCode(t, "named three times", out[0].ErrorCode, kerr.InvalidRequest)
	wantCode(t, "the other", out[1].ErrorCode, nil)
	wantList(t, "topics", p.topics(), "once")
}

func TestADM04DeletedTwice(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	a, b, c := p.create("a", 1), p.create("b", 1), p.create("c", 1)
	p.create("d", 1)
	p.create("e", 1)
	var got []string
	for _, r := range p.deleteTopics(6, doomed{name: "a"}, doomed{name: "a"}, doomed{id: b}, doomed{id: b},
		doomed{id: c}, doomed{name: "c"}, doomed{name: "d"}) {
		if r.TopicID == a {
			t.Error("a name that is given twice is answered with its id")
		}
		got = append(got, fmt.Sprint(row(r)))
	}
	d, _ := p.topic("d")
	wantCode(t, "the one named once", d.ErrorCode, kerr.UnknownTopicOrPartition)
	wantList(t, "topics", p.topics(), "a", "b", "c", "e")
	if len(got) != 4 {
		t.Fatalf("answered %q, want a row for each topic", got)
	}
	for n, want := range []string{"a 00 INVALID_REQUEST", fmt.Sprintf("null %x INVALID_REQUEST", b[:1]), fmt.Sprintf("c %x INVALID_REQUEST", c[:1])} {
		if got[n] != want {
			t.Errorf("%q, want %q", got[n], want)
		}
	}
	if out := p.deleteTopics(5, doomed{name: "e"}, doomed{name: "e"}); len(out) != 1 || out[0].ErrorCode != kerr.InvalidRequest.Code {
		t.Errorf("v5: %+v", out)
	}
}

func TestADM10CreatePartitions(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	for version := int16(0); version <= 3; version++ {
		topic := fmt.Sprintf("grow%d", version)
		p.create(topic, 2)
		add := func(dry bool, count int32, replicas ...[]int32) int16 {
			req := kmsg.NewPtrCreatePartitionsRequest()
			req.Version, req.TimeoutMillis, req.ValidateOnly = version, 20_000, dry
			in := kmsg.NewCreatePartitionsRequestTopic()
			in.Topic, in.Count = topic, count
			for _, r := range replicas {
				a := kmsg.NewCreatePartitionsRequestTopicAssignment()
				a.Replicas = r
				in.Assignment = append(in.Assignment, a)
			}
			req.Topics = append(req.Topics, in)
			return ask[*kmsg.CreatePartitionsResponse](p, req).Topics[0].ErrorCode
		}
		for _, c := range []struct {
			what     string
			dry      bool
			count    int32
			replicas [][]int32
			want     *kerr.Error
			after    int
		}{
			{"validate only", true, 5, nil, nil, 2},
			{"two assignments for three", false, 5, [][]int32{{1}, {1}}, kerr.InvalidReplicaAssignment, 2},
			{"another number of replicas", false, 3, [][]int32{{1, 2}}, kerr.InvalidReplicaAssignment, 2},
			{"2 to 5", false, 5, nil, nil, 5},
			{"5 to 5", false, 5, nil, kerr.InvalidPartitions, 5},
			{"5 to 3", false, 3, nil, kerr.InvalidPartitions, 5},
			{"too many", false, 10_006, nil, kerr.PolicyViolation, 5},
			{"by hand", false, 6, [][]int32{{1}}, nil, 6},
		} {
			wantCode(t, c.what, add(c.dry, c.count, c.replicas...), c.want)
			m, _ := p.topic(topic)
			if len(m.Partitions) != c.after {
				t.Fatalf("%s: %d partitions, want %d", c.what, len(m.Partitions), c.after)
			}
			for n, x := range m.Partitions {
				if x.Partition != int32(n) || x.Leader != 1 {
					t.Errorf("%s: partition %d in place %d, leader %d", c.what, x.Partition, n, x.Leader)
				}
			}
		}
		p.write(topic, records("0"), records("1"), records("2"), records("3"), records("4"), records("5"))
	}
}

func TestADM10SeveralTopics(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	p.create("x", 1)
	p.create("y", 1)
	add := func(counts ...int32) []int16 {
		req := kmsg.NewPtrCreatePartitionsRequest()
		req.Version, req.TimeoutMillis = 3, 20_000
		for n, topic := range []string{"x", "y", "ghost", "x"}[:len(counts)] {
			in := kmsg.NewCreatePartitionsRequestTopic()
			in.Topic, in.Count = topic, counts[n]
			req.Topics = append(req.Topics, in)
		}
		var out []int16
		for _, r := range ask[*kmsg.CreatePartitionsResponse](p, req).Topics {
			out = append(out, r.ErrorCode)
		}
		return out
	}
	if got := fmt.Sprint(add(2, 3, 4, 2)); got != fmt.Sprint([]int16{kerr.InvalidRequest.Code, 0, kerr.UnknownTopicOrPartition.Code}) {
		t.Errorf("x twice, y and an unknown one: %s", got)
	}
	if got := fmt.Sprint(add(6000, 6000)); got != fmt.Sprint([]int16{kerr.PolicyViolation.Code, kerr.PolicyViolation.Code}) {
		t.Errorf("too many in all: %s", got)
	}
	for topic, want := range map[string]int{"x": 1, "y": 3} {
		if m, _ := p.topic(topic); len(m.Partitions) != want {
			t.Errorf("%s has %d partitions, want %d", topic, len(m.Partitions), want)
		}
	}
}

func TestADM11DeleteTopics(t *testing.T) {
	p := dial(t, brokertest.Start(t))
	for version := int16(1); version <= 5; version++ {
		p.create("gone", 1)
		out := p.deleteTopics(version, doomed{name: "gone"}, doomed{name: "ghost"})
		if len(out) != 2 {
			t.Fatalf("v%d: %d rows, want 2", version, len(out))
		}
		wantCode(t, fmt.Sprintf("v%d one there", version), out[0].ErrorCode, nil)
		wantCode(t, fmt.Sprintf("v%d unknown", version), out[1].ErrorCode, kerr.UnknownTopicOrPartition)
	}
	name, id := p.create("name", 1), p.create("id", 1)
	both := p.create("both", 1)
	unknown := [16]byte{9, 9}
	var got []string
	for _, r := range p.deleteTopics(6, doomed{name: "name"}, doomed{id: id}, doomed{name: "ghost"}, doomed{id: unknown}, doomed{name: "both", id: both}) {
		got = append(got, row(r))
	}
	wantList(t, "v6", got, fmt.Sprintf("name %x NONE", name[:1]), fmt.Sprintf("id %x NONE", id[:1]),
		"ghost 00 UNKNOWN_TOPIC_OR_PARTITION", "null 09 UNKNOWN_TOPIC_ID", fmt.Sprintf("both %x INVALID_REQUEST", both[:1]))
	wantList(t, "topics", p.topics(), "both")
}

func TestADM11Disabled(t *testing.T) {
	p := dial(t, brokertest.Start(t, brokertest.Set("delete.topic.enable", "false")))
	id := p.create("stays", 1)
	for version := int16(1); version <= 6; version++ {
		want := kerr.TopicDeletionDisabled
		if version < 3 {
			want = kerr.InvalidRequest
		}
		wantCode(t, fmt.Sprintf("v%d", version), p.deleteTopics(version, doomed{name: "stays"})[0].ErrorCode, want)
	}
	wantCode(t, "by id", p.deleteTopics(6, doomed{id: id})[0].ErrorCode, kerr.TopicDeletionDisabled)
	wantList(t, "topics", p.topics(), "stays")
}
