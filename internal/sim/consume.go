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

// reader reads one partition, without a group.
type reader struct {
	*client
	part      int32
	committed bool
	at        int64
	final     bool
}

// run reads until ctx ends.
func (r *reader) run(ctx context.Context) {
	defer r.close()
	for ctx.Err() == nil {
		if err := r.fetch(ctx); err != nil {
			r.rest(ctx)
		}
	}
}

// fetch reads once, and writes down what it saw.
func (r *reader) fetch(ctx context.Context) error {
	e := r.event(check.Read, r.part)
	req := kmsg.NewPtrFetchRequest()
	req.SetVersion(12)
	req.ReplicaID, req.MaxWaitMillis, req.MinBytes, req.MaxBytes, req.SessionEpoch = -1, 500, 1, 1<<20, -1
	if r.committed {
		req.IsolationLevel = 1
	}
	t, in := kmsg.NewFetchRequestTopic(), kmsg.NewFetchRequestTopicPartition()
	t.Topic, in.Partition, in.FetchOffset, in.PartitionMaxBytes, in.CurrentLeaderEpoch = theTopic, r.part, r.at, 1<<20, -1
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	answer, err := r.toLeader(ctx, r.part, req)
	if err != nil {
		return err
	}
	resp := answer.(*kmsg.FetchResponse)
	if err := r.believe(r.part, resp.ErrorCode); err != nil {
		return err
	}
	a := resp.Topics[0].Partitions[0]
	err = r.believe(r.part, a.ErrorCode)
	if errors.Is(err, kerr.OffsetOutOfRange) {
		start, err := r.offset(ctx, -2)
		if err == nil && start <= r.at {
			r.w.trace.add("%s is out of range at %d, and the log starts at %d", r.name, r.at, start)
			r.w.count("out of range")
		}
		if err == nil {
			r.at = max(start, r.at)
		}
		return errors.Join(err, kerr.OffsetOutOfRange)
	}
	if err != nil {
		return err
	}
	seen, next, err := records(a.RecordBatches, r.at)
	if err != nil {
		r.w.fault("%s: partition %d: %v", r.name, r.part, err)
		return err
	}
	e.From, e.Next, e.Records, e.Committed, e.Final = r.at, next, seen, r.committed, r.final
	e.High, e.Stable, e.Start = a.HighWatermark, a.LastStableOffset, r.w.history.deleted(r.part, a.LogStartOffset)
	r.at = next
	r.w.history.add(&e)
	return nil
}

// offset asks for a position: -2 the start, -1 the end.
func (r *reader) offset(ctx context.Context, which int64) (int64, error) {
	req := kmsg.NewPtrListOffsetsRequest()
	req.SetVersion(6)
	req.ReplicaID = -1
	t, in := kmsg.NewListOffsetsRequestTopic(), kmsg.NewListOffsetsRequestTopicPartition()
	t.Topic, in.Partition, in.Timestamp, in.CurrentLeaderEpoch = theTopic, r.part, which, -1
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	answer, err := r.toLeader(ctx, r.part, req)
	if err != nil {
		return -1, err
	}
	a := answer.(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0]
	return a.Offset, r.believe(r.part, a.ErrorCode)
}

// finally reads the whole partition, once all others have ended.
func (r *reader) finally(ctx context.Context) error {
	defer r.close()
	r.final = true
	start, err := r.certain(ctx, -2)
	if err != nil {
		return err
	}
	end, err := r.certain(ctx, -1)
	if err != nil {
		return err
	}
	for r.at = start; r.at < end; {
		if err := r.fetch(ctx); err != nil && !r.rest(ctx) {
			return fmt.Errorf("read to %d of %d: %w", r.at, end, err)
		}
	}
	e := r.event(check.Read, r.part)
	e.From, e.Next, e.High, e.Final, e.Done, e.Committed = r.at, r.at, r.at, true, true, r.committed
	r.w.history.add(&e)
	return nil
}

func (r *reader) certain(ctx context.Context, which int64) (int64, error) {
	for {
		at, err := r.offset(ctx, which)
		if err == nil || !r.rest(ctx) {
			return at, err
		}
	}
}

// committer commits offsets of a group, and asks for them. It is no member.
type committer struct {
	*client
	group string
	at    string // the coordinator; "": not known
	last  int64
}

func (c *committer) run(ctx context.Context) {
	defer c.close()
	for ctx.Err() == nil {
		var err error
		if c.dice.oneIn(3) {
			err = c.look(ctx, false)
		} else {
			err = c.commit(ctx)
		}
		if err != nil {
			c.at = ""
			c.rest(ctx)
		}
		_ = sleep(ctx, 2*c.w.plan.pace+c.dice.upTo(2*c.w.plan.pace))
	}
}

// coordinator finds the group's.
func (c *committer) coordinator(ctx context.Context) error {
	if c.at != "" {
		return nil
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.SetVersion(4)
	req.CoordinatorKeys = []string{c.group}
	answer, err := c.ask(ctx, c.anybody(), req)
	if err != nil {
		return err
	}
	a := answer.(*kmsg.FindCoordinatorResponse).Coordinators[0]
	if a.ErrorCode == 0 {
		c.at = fmt.Sprintf("%s:%d", a.Host, a.Port)
	}
	return kerr.ErrorForCode(a.ErrorCode)
}

func (c *committer) commit(ctx context.Context) error {
	if err := c.coordinator(ctx); err != nil {
		return err
	}
	c.last++
	e := c.event(check.Commit, 0)
	e.Group, e.Offset, e.Out = c.group, c.last, check.Maybe
	req := kmsg.NewPtrOffsetCommitRequest()
	req.SetVersion(8)
	req.Group, req.Generation = c.group, -1
	t, in := kmsg.NewOffsetCommitRequestTopic(), kmsg.NewOffsetCommitRequestTopicPartition()
	t.Topic, in.Partition, in.Offset = theTopic, 0, c.last
	t.Partitions = append(t.Partitions, in)
	req.Topics = append(req.Topics, t)
	answer, err := c.ask(ctx, c.at, req)
	if err == nil {
		err = kerr.ErrorForCode(answer.(*kmsg.OffsetCommitResponse).Topics[0].Partitions[0].ErrorCode)
	}
	if err == nil {
		e.Out = check.OK
	}
	c.w.history.add(&e)
	return err
}

// look asks for the group's offset.
func (c *committer) look(ctx context.Context, final bool) error {
	if err := c.coordinator(ctx); err != nil {
		return err
	}
	e := c.event(check.Fetch, 0)
	e.Group, e.Final = c.group, final
	req := kmsg.NewPtrOffsetFetchRequest()
	req.SetVersion(7)
	req.Group, req.RequireStable = c.group, true
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic, t.Partitions = theTopic, []int32{0}
	req.Topics = append(req.Topics, t)
	answer, err := c.ask(ctx, c.at, req)
	if err != nil {
		return err
	}
	resp := answer.(*kmsg.OffsetFetchResponse)
	if err := kerr.ErrorForCode(resp.ErrorCode); err != nil {
		return err
	}
	a := resp.Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(a.ErrorCode); err != nil {
		return err
	}
	e.Offset = a.Offset
	c.w.history.add(&e)
	return nil
}

// finally asks for what is committed until it is told.
func (c *committer) finally(ctx context.Context) error {
	defer c.close()
	for {
		err := c.look(ctx, true)
		if err == nil {
			return nil
		}
		c.at = ""
		if sleep(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}
