//go:build interop

package main

import "github.com/twmb/franz-go/pkg/kmsg"

// electLeaders never asks about every topic: each broker has others.
func (g *gen) electLeaders() kmsg.Request {
	r := kmsg.NewPtrElectLeadersRequest()
	r.Version, r.TimeoutMillis, r.ElectionType = g.version(0, 2), g.timeout(), pick[int8](g, 0, 0, 1, 1, 2, -1)
	r.Topics = []kmsg.ElectLeadersRequestTopic{}
	g.fragile = true
	for range g.few() {
		t := kmsg.NewElectLeadersRequestTopic()
		t.Topic, t.Partitions = g.ownTopic(), g.partitions()
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (g *gen) alterReassignments() kmsg.Request {
	r := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	r.Version, r.TimeoutMillis, r.AllowReplicationFactorChange = g.version(0, 1), g.timeout(), g.chance(60)
	for range g.few() {
		t := kmsg.NewAlterPartitionAssignmentsRequestTopic()
		t.Topic = g.ownTopic()
		for range g.few() {
			p := kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
			p.Partition = g.partition()
			if g.chance(75) {
				p.Replicas = g.replicas()
			}
			t.Partitions = append(t.Partitions, p)
		}
		r.Topics = append(r.Topics, t)
	}
	return r
}

func (g *gen) listReassignments() kmsg.Request {
	g.reads = true
	r := kmsg.NewPtrListPartitionReassignmentsRequest()
	r.TimeoutMillis = g.timeout()
	if g.chance(40) {
		return r
	}
	r.Topics = []kmsg.ListPartitionReassignmentsRequestTopic{}
	for range g.few() {
		t := kmsg.NewListPartitionReassignmentsRequestTopic()
		t.Topic, t.Partitions = g.topic(), g.partitions()
		r.Topics = append(r.Topics, t)
	}
	return r
}
