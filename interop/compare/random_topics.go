//go:build interop

package main

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

func (g *gen) createTopics() kmsg.Request {
	r := kmsg.NewPtrCreateTopicsRequest()
	r.Version, r.TimeoutMillis, r.ValidateOnly = g.version(2, 7), g.timeout(), g.chance(15)
	n := g.few()
	if g.chance(1) {
		n = 300
	}
	for i := range n {
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic = g.ownTopic()
		if n == 300 {
			t.Topic = fmt.Sprintf("bad name %d", i%250)
		}
		t.NumPartitions = pick[int32](g, 1, 1, 2, 3, 4, -1)
		t.ReplicationFactor = pick[int16](g, 1, 1, 1, -1)
		if g.chance(15) {
			t.NumPartitions = pick[int32](g, 0, -1, -2, 10001, 20000, 2147483647, -2147483648, 1)
			t.ReplicationFactor = pick[int16](g, 1, 0, -1, -2, 2, 3, 32767, -32768)
		}
		if g.chance(18) {
			t.ReplicaAssignment = g.assignment()
			if g.chance(85) {
				t.NumPartitions, t.ReplicationFactor = -1, -1
			}
		}
		if g.chance(45) {
			for range 1 + g.IntN(2) {
				c := kmsg.NewCreateTopicsRequestTopicConfig()
				c.Name, c.Value = g.setting(topicSettings)
				t.Configs = append(t.Configs, c)
			}
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (g *gen) assignment() (out []kmsg.CreateTopicsRequestTopicReplicaAssignment) {
	for i := range 1 + g.IntN(3) {
		a := kmsg.NewCreateTopicsRequestTopicReplicaAssignment()
		a.Partition, a.Replicas = int32(i), []int32{1}
		if g.chance(12) {
			a.Partition = pick[int32](g, 0, 1, 2, 5, -1, 2147483647)
		}
		if g.chance(12) {
			a.Replicas = g.replicas()
		}
		out = append(out, a)
	}
	return out
}

func (g *gen) replicas() []int32 {
	return pick(g, []int32{}, []int32{2}, []int32{1, 1}, []int32{1, 2}, []int32{-1}, []int32{0}, []int32{2147483647}, []int32{1})
}

func (g *gen) deleteTopics() kmsg.Request {
	r := kmsg.NewPtrDeleteTopicsRequest()
	r.Version, r.TimeoutMillis = g.version(1, 6), g.timeout()
	for range g.few() {
		if r.Version < 6 {
			r.TopicNames = append(r.TopicNames, g.ownTopic())
			continue
		}
		t := kmsg.NewDeleteTopicsRequestTopic()
		switch g.IntN(8) {
		case 0:
			t.Topic, t.TopicID = ptr(g.ownTopic()), g.id()
		case 1, 2, 3:
			t.TopicID = g.id()
		case 4:
		default:
			t.Topic = ptr(g.ownTopic())
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (g *gen) createPartitions() kmsg.Request {
	r := kmsg.NewPtrCreatePartitionsRequest()
	r.Version, r.TimeoutMillis, r.ValidateOnly = g.version(0, 3), g.timeout(), g.chance(20)
	for range g.few() {
		t := kmsg.NewCreatePartitionsRequestTopic()
		t.Topic = g.ownTopic()
		t.Count = pick[int32](g, 1, 2, 3, 4, 4, 5, 5, 6)
		if g.chance(10) {
			t.Count = pick[int32](g, 0, -1, 20000, 2147483647, -2147483648)
		}
		if g.chance(25) {
			for range g.IntN(3) {
				a := kmsg.NewCreatePartitionsRequestTopicAssignment()
				a.Replicas = []int32{1}
				if g.chance(15) {
					a.Replicas = g.replicas()
				}
				t.Assignment = append(t.Assignment, a)
			}
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (g *gen) deleteRecords() kmsg.Request {
	r := kmsg.NewPtrDeleteRecordsRequest()
	r.Version, r.TimeoutMillis = g.version(0, 2), g.timeout()
	for range g.few() {
		t := kmsg.NewDeleteRecordsRequestTopic()
		t.Topic = g.topic()
		for range g.few() {
			p := kmsg.NewDeleteRecordsRequestTopicPartition()
			p.Partition = g.partition()
			p.Offset = pick[int64](g, 0, 1, 2, 3, 5, -1, -2, 1000000, 9223372036854775807, -9223372036854775808)
			t.Partitions = append(t.Partitions, p)
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (g *gen) describeTopicPartitions() kmsg.Request {
	g.reads = true
	r := kmsg.NewPtrDescribeTopicPartitionsRequest()
	r.ResponsePartitionLimit = pick[int32](g, 2000, 2000, 1, 2, 3, 0, -1, 2147483647)
	for range g.few() {
		t := kmsg.NewDescribeTopicPartitionsRequestTopic()
		t.Topic = g.topic()
		r.Topics = append(r.Topics, t)
	}
	if g.chance(40) {
		c := kmsg.NewDescribeTopicPartitionsRequestCursor()
		c.Topic, c.Partition = g.topic(), pick[int32](g, 0, 1, 2, 7, -1, 2147483647)
		r.Cursor = &c
	}
	return r
}

func (g *gen) metadata() kmsg.Request {
	r := metadata(g.version(0, 13), g.chance(15))
	g.reads = r.Version >= 4 && !r.AllowAutoTopicCreation
	r.IncludeClusterAuthorizedOperations, r.IncludeTopicAuthorizedOperations = g.chance(30), g.chance(30)
	if g.chance(15) && r.Version > 0 {
		r.Topics = nil
		return r
	}
	byID := r.Version >= 10 && g.chance(30)
	for range g.few() {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = ptr(g.ownTopic())
		if byID {
			t.Topic, t.TopicID = nil, g.id()
			if g.chance(5) {
				t.Topic = ptr(g.topic())
			}
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (g *gen) listOffsets() kmsg.Request {
	g.reads = true
	r := kmsg.NewPtrListOffsetsRequest()
	r.Version = g.version(1, 11)
	r.IsolationLevel = pick[int8](g, 0, 0, 1, 1, 0, 1, 0, 9)
	r.TimeoutMillis = pick[int32](g, 30000, 1, 0, -1)
	r.ReplicaID = pick[int32](g, -1, -1, -1, -1, -2, 1, 0)
	for range g.few() {
		t := kmsg.NewListOffsetsRequestTopic()
		t.Topic = g.topic()
		for range g.few() {
			p := kmsg.NewListOffsetsRequestTopicPartition()
			p.Partition = g.partition()
			p.Timestamp = pick[int64](g, -1, -1, -2, -2, -3, -3, -4, -5, -6, -7, 0, 1000, 5000, 9223372036854775807, -9223372036854775808)
			p.CurrentLeaderEpoch = pick[int32](g, -1, -1, -1, -1, 0, 1, -2)
			t.Partitions = append(t.Partitions, p)
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

// produce adds records, with and without a producer, at times of their own.
func (g *gen) produce() kmsg.Request {
	values := []string{"one", "two", "three"}[:1+g.IntN(3)]
	b := raw.NewBatch(int64(1000*(1+g.IntN(9))), values...)
	if g.chance(50) {
		b.First, b.Max = g.startMs, g.startMs // a producer of long ago is forgotten when its log moves
		b.ProducerID, b.Epoch, b.Sequence = pick[int64](g, 7000001, 7000002, 7000003), pick[int16](g, 0, 0, 1), 0
	}
	g.fragile = true // a batch with a wrong byte is not what this is about
	return produce(9, -1, pick(g, names...), [16]byte{}, part{pick[int32](g, 0, 0, 1, 2), b.MustEncode()})
}

func (g *gen) describeProducers() kmsg.Request {
	g.reads = true
	r := kmsg.NewPtrDescribeProducersRequest()
	for range g.few() {
		t := kmsg.NewDescribeProducersRequestTopic()
		t.Topic, t.Partitions = g.topic(), g.partitions()
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (g *gen) describeLogDirs() kmsg.Request {
	g.reads = true
	r := kmsg.NewPtrDescribeLogDirsRequest()
	r.Version = g.version(1, 5)
	if g.chance(20) {
		return r
	}
	r.Topics = []kmsg.DescribeLogDirsRequestTopic{}
	for range g.few() {
		t := kmsg.NewDescribeLogDirsRequestTopic()
		t.Topic, t.Partitions = g.topic(), g.partitions()
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (g *gen) alterReplicaLogDirs() kmsg.Request {
	r := kmsg.NewPtrAlterReplicaLogDirsRequest()
	g.fragile = true // the directories' names are not equally long
	r.Version = g.version(1, 2)
	for range g.few() {
		d := kmsg.NewAlterReplicaLogDirsRequestDir()
		d.Dir = pick(g, "<dir0>", "<dir1>", "<dir0>", "<dir1>", "", "relative", "/nosuch", "<dir0>/")
		for range g.few() {
			t := kmsg.NewAlterReplicaLogDirsRequestDirTopic()
			t.Topic, t.Partitions = g.ownTopic(), g.partitions()
			d.Topics = append(d.Topics, t)
		}
		r.Dirs = append(r.Dirs, d)
	}
	return r
}
