package sim

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/check"
)

// wish draws something that an administrator asks for.
func (p *plan) wish() {
	begin, _ := p.span(time.Second)
	part := int32(p.rng.IntN(partitions))
	use := p.rng.Uint64()
	switch p.rng.IntN(4) {
	case 0:
		order := p.rng.Perm(brokers)
		if p.rng.IntN(2) == 0 {
			order = order[:2]
		}
		p.at(begin, func(w *World) { w.admin(use, func(c *client) error { return c.reassign(w.ctx, part, order) }) }, "reassign %d to %v", part, order)
	case 1:
		p.at(begin, func(w *World) { w.admin(use, func(c *client) error { return c.elect(w.ctx, part) }) }, "preferred leader of %d", part)
	case 2:
		p.at(begin, func(w *World) { w.admin(use, func(c *client) error { return c.deleteRecords(w.ctx, part) }) }, "delete records of %d", part)
	case 3:
		name := fmt.Sprintf("other-%d", p.rng.IntN(100))
		p.at(begin, func(w *World) { w.admin(use, func(c *client) error { return c.create(w.ctx, name, 2) }) }, "create %s", name)
	}
}

// admin asks for something, beside the faults.
func (w *World) admin(use uint64, do func(c *client) error) {
	w.all.Go(func() {
		c := w.newClient(fmt.Sprintf("admin-%x", use), use)
		defer c.close()
		w.count("wish")
		if err := do(c); err != nil {
			w.trace.add("not granted: %v", err)
		}
	})
}

// create makes a topic with replicas everywhere.
func (c *client) create(ctx context.Context, name string, partitions int32) error {
	req := kmsg.NewPtrCreateTopicsRequest()
	req.SetVersion(7)
	req.TimeoutMillis = int32(patience.Milliseconds())
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, partitions, brokers
	for key, v := range map[string]string{"internal.segment.bytes": fmt.Sprint(1500 + c.dice.intn(10000))} {
		o := kmsg.NewCreateTopicsRequestTopicConfig()
		o.Name, o.Value = key, kmsg.StringPtr(v)
		t.Configs = append(t.Configs, o)
	}
	req.Topics = append(req.Topics, t)
	answer, err := c.ask(ctx, c.anybody(), req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
}

// configure sets something for all brokers. In the settings of each it would not
// be known to who elects leaders.
func (c *client) configure(ctx context.Context, key, value string) error {
	req := kmsg.NewPtrIncrementalAlterConfigsRequest()
	req.SetVersion(1)
	r, in := kmsg.NewIncrementalAlterConfigsRequestResource(), kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	r.ResourceType, in.Name, in.Value = kmsg.ConfigResourceTypeBroker, key, &value
	r.Configs = append(r.Configs, in)
	req.Resources = append(req.Resources, r)
	answer, err := c.ask(ctx, c.anybody(), req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode)
}

// reassign has other brokers, or others first, hold a partition.
func (c *client) reassign(ctx context.Context, part int32, order []int) error {
	req := kmsg.NewPtrAlterPartitionAssignmentsRequest()
	req.TimeoutMillis = int32(patience.Milliseconds())
	t, in := kmsg.NewAlterPartitionAssignmentsRequestTopic(), kmsg.NewAlterPartitionAssignmentsRequestTopicPartition()
	t.Topic, in.Partition = theTopic, part
	for _, n := range order {
		in.Replicas = append(in.Replicas, int32(n)+1)
	}
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	answer, err := c.ask(ctx, c.anybody(), req)
	if err != nil {
		return err
	}
	resp := answer.(*kmsg.AlterPartitionAssignmentsResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.Topics[0].Partitions[0].ErrorCode)
}

// elect asks for the preferred leader.
func (c *client) elect(ctx context.Context, part int32) error {
	req := kmsg.NewPtrElectLeadersRequest()
	req.SetVersion(2)
	req.TimeoutMillis = int32(patience.Milliseconds())
	t := kmsg.NewElectLeadersRequestTopic()
	t.Topic, t.Partitions = theTopic, []int32{part}
	req.Topics = append(req.Topics, t)
	answer, err := c.ask(ctx, c.anybody(), req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.(*kmsg.ElectLeadersResponse).ErrorCode)
}

// deleteRecords gives up the older half of a partition.
func (c *client) deleteRecords(ctx context.Context, part int32) error {
	r := &reader{client: c, part: part}
	end, err := r.offset(ctx, -1)
	if err != nil {
		return err
	}
	e := c.event(check.Delete, part)
	e.Offset, e.Out = end/2, check.Maybe
	req := kmsg.NewPtrDeleteRecordsRequest()
	req.SetVersion(2)
	req.TimeoutMillis = int32(patience.Milliseconds())
	t, in := kmsg.NewDeleteRecordsRequestTopic(), kmsg.NewDeleteRecordsRequestTopicPartition()
	t.Topic, in.Partition, in.Offset = theTopic, part, e.Offset
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	answer, err := c.toLeader(ctx, part, req)
	if err == nil {
		a := answer.(*kmsg.DeleteRecordsResponse).Topics[0].Partitions[0]
		if err = kerr.ErrorForCode(a.ErrorCode); err == nil {
			e.Out, e.Start = check.OK, a.LowWatermark
		}
	}
	c.w.history.add(&e)
	return err
}

// begin waits for a cluster with the topic.
func (w *World) begin() bool {
	ctx, cancel := context.WithTimeout(w.ctx, time.Minute)
	defer cancel()
	c := w.newClient("first", 0)
	defer c.close()
	for len(w.image().Brokers()) < brokers {
		if sleep(ctx, 50*time.Millisecond) != nil {
			w.fault("not all brokers came up: %v", w.image().Brokers())
			return false
		}
	}
	for {
		err := c.configure(ctx, "min.insync.replicas", fmt.Sprint(w.plan.min))
		if err == nil {
			err = c.create(ctx, theTopic, partitions)
		}
		if err == nil || errors.Is(err, kerr.TopicAlreadyExists) {
			return true
		}
		if !c.rest(ctx) {
			w.fault("the topic could not be made: %v", err)
			return false
		}
	}
}
