//go:build interop

package main

import (
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func topicCases() []testCase {
	return []testCase{
		{"CreateTopics-errors", createErrors},
		{"CreateTopics-assignments", createAssignments},
		{"CreateTopics-versions", createVersions},
		{"DeleteTopics", deleteTopics},
	}
}

func createReq(version int16, topics ...kmsg.CreateTopicsRequestTopic) *kmsg.CreateTopicsRequest {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis, r.Topics = version, 10000, topics
	return r
}

// create1 asks and leaves the list of configurations out of the transcript.
func (s *session) askCreate(label string, req *kmsg.CreateTopicsRequest) {
	s.note("%s", label)
	s.out.WriteString("> " + s.dump(req))
	resp, err := s.c().Do(req)
	if err != nil {
		s.hangUp()
		s.out.WriteString("< " + answerError(err) + "\n")
		return
	}
	s.learn(resp)
	r := resp.(*kmsg.CreateTopicsResponse)
	slices.SortFunc(r.Topics, func(a, b kmsg.CreateTopicsResponseTopic) int { return strings.Compare(a.Topic, b.Topic) })
	for i := range r.Topics {
		n := len(r.Topics[i].Configs)
		if n > 0 {
			r.Topics[i].Configs = []kmsg.CreateTopicsResponseTopicConfig{}
		}
		s.note("configurations listed for %s: %t, null: %t", s.plain(r.Topics[i].Topic), n > 0, r.Topics[i].Configs == nil)
	}
	s.out.WriteString("< " + s.dumpAnswer(r))
}

func createErrors(s *session) {
	s.create("ct", 1)
	n := s.topic
	for _, c := range []struct {
		label string
		t     kmsg.CreateTopicsRequestTopic
	}{
		{"exists", newTopic(n("ct"), 1, 1)}, {"empty name", newTopic("", 1, 1)}, {"dot", newTopic(".", 1, 1)}, {"dots", newTopic("..", 1, 1)},
		{"space", newTopic("a b", 1, 1)}, {"slash", newTopic("a/b", 1, 1)}, {"249 characters", newTopic(strings.Repeat("k", 249-len(s.suffix))+s.suffix, 1, 1)},
		{"250 characters", newTopic(strings.Repeat("k", 250), 1, 1)}, {"name of an internal topic", newTopic("__cluster_metadata", 1, 1)},
		{"replication 2", newTopic(n("ct2"), 1, 2)}, {"replication 0", newTopic(n("ct3"), 1, 0)}, {"replication -2", newTopic(n("ct4"), 1, -2)}, {"replication -1", newTopic(n("ct5"), 1, -1)},
		{"partitions 0", newTopic(n("ct6"), 0, 1)}, {"partitions -1", newTopic(n("ct7"), -1, 1)}, {"partitions -2", newTopic(n("ct8"), -2, 1)},
		{"unknown configuration", newTopic(n("ct9"), 1, 1, "no.such.key", "1")}, {"bad value", newTopic(n("ct10"), 1, 1, "retention.ms", "soon")},
		{"value out of range", newTopic(n("ct11"), 1, 1, "max.message.bytes", "-5")}, {"segment.bytes too small", newTopic(n("ct12"), 1, 1, "segment.bytes", "1000")},
		{"bad cleanup policy", newTopic(n("ct13"), 1, 1, "cleanup.policy", "shred")}, {"configuration twice", newTopic(n("ct14"), 1, 1, "retention.ms", "5", "retention.ms", "6")},
		{"broker key", newTopic(n("ct15"), 1, 1, "num.partitions", "5")}, {"cleanup policy empty", newTopic(n("ct16"), 1, 1, "cleanup.policy", "")},
		{"min.insync 5", newTopic(n("ct17"), 1, 1, "min.insync.replicas", "5")}, {"message.format.version", newTopic(n("ct18"), 1, 1, "message.format.version", "2.8")},
		{"spaces around a value", newTopic(n("ct19"), 1, 1, "retention.ms", " 5 ")}, {"upper case policy", newTopic(n("ct20"), 1, 1, "cleanup.policy", "COMPACT")},
		{"remote storage", newTopic(n("ct21"), 1, 1, "remote.storage.enable", "true")}, {"bool as yes", newTopic(n("ct22"), 1, 1, "preallocate", "yes")},
		{"name and config bad", newTopic("a b", 0, 5, "no.such.key", "1")},
		{"partitions and config bad", newTopic(n("ct24"), 0, 5, "no.such.key", "1")},
		{"dot after underscore", newTopic("c_d"+s.suffix, 1, 1)}, {"collides", newTopic("c.d"+s.suffix, 1, 1)},
	} {
		s.askCreate(c.label, createReq(7, c.t))
		dry := createReq(7, c.t)
		dry.ValidateOnly = true
		s.askCreate(c.label+", validate only", dry)
	}
	null := newTopic(n("ct30"), 1, 1, "retention.ms", "5")
	null.Configs[0].Value = nil
	s.askCreate("null value", createReq(7, null))
	s.askCreate("in the request twice by collision", createReq(7, newTopic("e.f"+s.suffix, 1, 1), newTopic("e_f"+s.suffix, 1, 1)))
	s.askCreate("good and bad", createReq(7, newTopic(n("ct31"), 1, 1), newTopic("a b", 1, 1), newTopic(n("ct32"), 0, 1)))
	dry := createReq(7, newTopic(n("dry"), 2, 1))
	dry.ValidateOnly = true
	s.askCreate("validate only", dry)
	s.ask("not made by validate only", metadata(12, false, n("dry")))
	s.askCreate("nothing", createReq(7))
	zero := createReq(7, newTopic(n("t0"), 1, 1))
	zero.TimeoutMillis = 0
	s.askCreate("timeout 0", zero)
	neg := createReq(7, newTopic(n("t1"), 1, 1))
	neg.TimeoutMillis = -1
	s.askCreate("timeout -1", neg)
	s.askCreate("too many partitions", createReq(7, newTopic(n("many"), 10001, 1)))
}

func assignment(p int32, replicas ...int32) kmsg.CreateTopicsRequestTopicReplicaAssignment {
	a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
	a.Partition, a.Replicas = p, replicas
	return a
}

func createAssignments(s *session) {
	node := s.do(metadata(9, false)).(*kmsg.MetadataResponse).Brokers[0].NodeID
	try := func(label string, partitions int32, rf int16, as ...kmsg.CreateTopicsRequestTopicReplicaAssignment) {
		t := newTopic(s.topic("as-"+strings.ReplaceAll(label, " ", "-")), partitions, rf)
		t.ReplicaAssignment = as
		s.askCreate(label, createReq(7, t))
	}
	try("good", -1, -1, assignment(0, node), assignment(1, node))
	try("with counts", 2, 1, assignment(0, node), assignment(1, node))
	try("with partitions", 1, -1, assignment(0, node))
	try("unknown broker", -1, -1, assignment(0, 77))
	try("gap", -1, -1, assignment(0, node), assignment(2, node))
	try("not from 0", -1, -1, assignment(1, node))
	try("same partition twice", -1, -1, assignment(0, node), assignment(0, node))
	try("broker twice", -1, -1, assignment(0, node, node))
	try("no replicas", -1, -1, assignment(0))
	try("negative broker", -1, -1, assignment(0, -1))
	try("uneven", -1, -1, assignment(0, node), assignment(1, node, 77))
}

func createVersions(s *session) {
	for v := int16(2); v <= 7; v++ {
		s.ask("with two configurations", createReq(v, newTopic(s.topic("cv"+string(rune('0'+v))), 2, 1, "retention.ms", "100000", "cleanup.policy", "compact")))
		s.ask("bad name", createReq(v, newTopic("a b", 2, 1)))
		s.ask("defaults", createReq(v, newTopic(s.topic("cvd"+string(rune('0'+v))), -1, -1)))
	}
}

func deleteTopics(s *session) {
	named := func(version int16, names ...string) *kmsg.DeleteTopicsRequest {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.Version, r.TimeoutMillis = version, 10000
		for _, n := range names {
			t := kmsg.NewDeleteTopicsRequestTopic()
			t.Topic = kmsg.StringPtr(n)
			r.Topics = append(r.Topics, t)
			r.TopicNames = append(r.TopicNames, n)
		}
		return r
	}
	withID := func(id [16]byte) *kmsg.DeleteTopicsRequest {
		r := named(6, "x")
		r.TopicNames = nil
		r.Topics[0].Topic, r.Topics[0].TopicID = nil, id
		return r
	}
	for v := int16(1); v <= 6; v++ {
		s.create("d1", 1)
		s.ask("one there, one unknown, one bad", named(v, s.topic("nosuch"), s.topic("d1"), "a b", ""))
		s.awaitGone("d1")
	}
	id := s.create("d2", 1)
	both := named(6, s.topic("d2"))
	both.Topics[0].TopicID = id
	s.ask("name and id", both)
	s.ask("unknown id", withID([16]byte{5, 5}))
	s.ask("zero id, null name", withID([16]byte{}))
	twice := withID(id)
	twice.Topics = append(twice.Topics, twice.Topics[0])
	s.ask("id twice", twice)
	nameID := withID(id)
	nameID.Topics = append(nameID.Topics, named(6, s.topic("d2")).Topics...)
	s.ask("same topic by id and by name", nameID)
	nameID.Topics = append(nameID.Topics, twice.Topics[0])
	s.ask("same topic by id twice, and by name", nameID)
	s.ask("name twice", named(6, s.topic("d2"), s.topic("d2")))
	s.ask("unknown name twice", named(6, s.topic("nosuch"), s.topic("nosuch")))
	s.ask("by id", withID(id))
	s.awaitGone("d2")
	s.ask("by id again", withID(id))
	s.ask("nothing", named(6))
	s.create("d3", 1)
	zero := named(6, s.topic("d3"))
	zero.TimeoutMillis = 0
	s.ask("timeout 0", zero)
}

func (s *session) awaitGone(base string) {
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if s.do(metadata(9, false, s.topic(base))).(*kmsg.MetadataResponse).Topics[0].ErrorCode == 3 {
			return
		}
	}
	s.fail("topic %s is still there", base)
}
