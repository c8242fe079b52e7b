//go:build unix

package brokertest_test

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// Without a quorum of the metadata the leaders go on while their sessions hold;
// then what they cannot answer for is refused, with errors after which clients
// come again. Nothing hangs beyond its time-out, and everything returns by
// itself, whether those who carry the metadata stood still or were killed.
func TestQuorumAway(t *testing.T) {
	onBoth(t, func(t *testing.T, f *fleet) {
		f.set = append(f.set, "broker.session.timeout.ms=5000", "min.insync.replicas=2", "default.replication.factor=3")
		if !f.external {
			for id := 1; id <= 3; id++ { // these carry the metadata, and nothing else
				f.launch(id, f.voting(id, []int{1, 2, 3}, "cordoned.log.dirs=*")...)
			}
			for id := 1; id <= 3; id++ {
				f.nodes[id].proc.ready()
			}
		}
		for id := 4; id <= 6; id++ {
			f.joins(id, 1)
		}
		f.tool("topic create t -p 1 -r 3")
		f.tool("topic create history -p 2 -r 3")
		h := f.history("history", 2)
		a := f.away("t")
		a.works("with a quorum")

		f.pauseMetadata()
		a.works("in the session")
		a.refusesChanges("in the session")
		a.fences()
		a.refusesChanges("after the session")
		f.resumeMetadata()
		a.returns()
		h.grows()

		f.killMetadata()
		a.fences()
		a.refusesChanges("after the session")
		f.restartMetadata()
		a.returns()
		h.grows()
		h.judge()
	})
}

// majority are the processes without which the metadata do not change.
func (f *fleet) majority() []*os.Process {
	if f.external {
		return []*os.Process{f.etcd.Process}
	}
	return []*os.Process{f.nodes[1].proc.cmd.Process, f.nodes[2].proc.cmd.Process}
}

func (f *fleet) signal(s syscall.Signal) {
	f.t.Helper()
	for _, p := range f.majority() {
		if err := p.Signal(s); err != nil {
			f.t.Fatal(err)
		}
	}
}

// pauseMetadata comes back when they stand still.
func (f *fleet) pauseMetadata() {
	f.t.Helper()
	f.signal(syscall.SIGSTOP)
	for _, p := range f.majority() {
		var s syscall.WaitStatus
		if _, err := syscall.Wait4(p.Pid, &s, syscall.WUNTRACED, nil); err != nil || !s.Stopped() {
			f.t.Fatalf("%v, %v", s, err)
		}
	}
}

func (f *fleet) resumeMetadata() { f.t.Helper(); f.signal(syscall.SIGCONT) }

func (f *fleet) killMetadata() {
	f.t.Helper()
	if f.external {
		_ = f.etcd.Process.Kill()
		_ = f.etcd.Wait()
		return
	}
	f.nodes[1].proc.kill()
	f.nodes[2].proc.kill()
}

func (f *fleet) restartMetadata() {
	f.t.Helper()
	if f.external {
		f.etcd = spawnEtcd(f.t, f.etcdDir, f.etcdAt)
		return
	}
	for id := 1; id <= 2; id++ {
		f.launch(id, f.voting(id, []int{1, 2, 3}, "cordoned.log.dirs=*")...)
	}
	f.nodes[1].proc.ready()
	f.nodes[2].proc.ready()
}

// away asks the leader of a partition and the coordinator of a group, each
// request within a bound.
type away struct {
	t              *testing.T
	f              *fleet
	topic          string
	id             [16]byte
	leader, groups *peer
	member         string
	generation     int32
	made           int
	committed      int64
}

// bound is how long an answer may take: the time-out of the request, and some.
const (
	changeTimeout = 1500 * time.Millisecond
	bound         = changeTimeout + 3*time.Second
)

func (f *fleet) away(topic string) *away {
	f.t.Helper()
	a := &away{t: f.t, f: f, topic: topic}
	a.find()
	return a
}

// find finds who leads now.
func (a *away) find() {
	a.t.Helper()
	a.f.until("leader and coordinator", func(ctx context.Context) error {
		d, err := a.f.adm.ListTopicsWithInternal(ctx, a.topic)
		if err != nil {
			return err
		}
		p := d[a.topic].Partitions[0]
		if p.Leader < 4 || len(p.ISR) < 3 {
			return fmt.Errorf("%+v", p)
		}
		a.id, a.leader = d[a.topic].ID, a.f.dial(int(p.Leader))
		c := a.leader.coordinator(4, 0, "g")[0]
		if c.ErrorCode != 0 || c.NodeID < 4 {
			return fmt.Errorf("coordinator: %s, %d", name(c.ErrorCode), c.NodeID)
		}
		a.groups = a.f.dial(int(c.NodeID))
		if a.member != "" {
			err := kerr.ErrorForCode(a.groups.heartbeat("g", a.member, a.generation))
			if err == nil || kerr.IsRetriable(err) {
				return err
			}
		}
		j := a.groups.join("g", func(r *kmsg.JoinGroupRequest) {
			r.SessionTimeoutMillis, r.RebalanceTimeoutMillis = 20_000, 1000 // the member before does not come back
		})
		if j.ErrorCode != 0 {
			return kerr.ErrorForCode(j.ErrorCode)
		}
		req := kmsg.NewPtrSyncGroupRequest()
		req.Version, req.Group, req.Generation, req.MemberID = 5, "g", j.Generation, j.MemberID
		req.ProtocolType, req.Protocol = j.ProtocolType, j.Protocol
		a.member, a.generation = j.MemberID, j.Generation
		return kerr.ErrorForCode(ask[*kmsg.SyncGroupResponse](a.groups, req).ErrorCode)
	})
}

func (f *fleet) dial(id int) *peer {
	f.t.Helper()
	c, err := wire.Dial(f.t.Context(), f.nodes[id].addr, wire.ClientOptions{ClientID: "case"})
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = c.Close() })
	return &peer{f.t, c}
}

// within asks, and wants the answer in the bound.
func (a *away) within(what string, ask func() int16) error {
	a.t.Helper()
	began := time.Now()
	code := ask()
	if took := time.Since(began); took > bound {
		a.t.Errorf("%s: answered after %v", what, took)
	}
	return kerr.ErrorForCode(code)
}

func (a *away) write(acks int16) int16 {
	req := produceTo(9, acks, a.topic, records("v"))
	req.TimeoutMillis = int32(changeTimeout.Milliseconds())
	return a.leader.produce(req)[0].ErrorCode
}

func (a *away) read() int16 {
	req := kmsg.NewPtrFetchRequest()
	req.Version, req.MaxWaitMillis, req.MinBytes = 12, 500, 1
	t := kmsg.NewFetchRequestTopic()
	t.Topic = a.topic
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	t.Partitions = append(t.Partitions, p)
	req.Topics = append(req.Topics, t)
	return ask[*kmsg.FetchResponse](a.leader, req).Topics[0].Partitions[0].ErrorCode
}

func (a *away) commit() int16 {
	a.committed++
	return a.groups.commit("g", a.member, a.generation, a.topic, a.committed)[0]
}

// fencedBy are the requests that a session has to stand behind.
func (a *away) fencedBy() map[string]func() int16 {
	return map[string]func() int16{
		"acks=1":    func() int16 { return a.write(1) },
		"fetch":     a.read,
		"heartbeat": func() int16 { return a.groups.heartbeat("g", a.member, a.generation) },
		"commit":    a.commit,
	}
}

// works: all is answered well.
func (a *away) works(when string) {
	a.t.Helper()
	if err := a.within("acks=all", func() int16 { return a.write(-1) }); err != nil {
		a.t.Errorf("acks=all, %s: %v", when, err)
	}
	for what, do := range a.fencedBy() {
		if err := a.within(what, do); err != nil {
			a.t.Errorf("%s, %s: %v", what, when, err)
		}
	}
}

// refusesChanges: what needs the quorum is refused in its time, so that clients
// come again; what the image tells is told.
func (a *away) refusesChanges(when string) {
	a.t.Helper()
	a.made++
	err := a.within("create", func() int16 {
		req := kmsg.NewPtrCreateTopicsRequest()
		req.Version, req.TimeoutMillis = 7, int32(changeTimeout.Milliseconds())
		t := kmsg.NewCreateTopicsRequestTopic()
		t.Topic, t.NumPartitions, t.ReplicationFactor = fmt.Sprintf("made%d", a.made), 1, 1
		req.Topics = append(req.Topics, t)
		return ask[*kmsg.CreateTopicsResponse](a.leader, req).Topics[0].ErrorCode
	})
	if !kerr.IsRetriable(err) {
		a.t.Errorf("create, %s: %v", when, err)
	}
	if err := a.within("metadata", func() int16 {
		m, _ := a.leader.topic(a.topic)
		return m.ErrorCode
	}); err != nil {
		a.t.Errorf("metadata, %s: %v", when, err)
	}
	if err := a.within("coordinator", func() int16 { return a.leader.coordinator(4, 0, "g")[0].ErrorCode }); err != nil && !kerr.IsRetriable(err) {
		a.t.Errorf("coordinator, %s: %v", when, err)
	}
}

// fences: once the session is over, what needs it is refused, retriably, and what
// the in-sync replicas stand for goes on.
func (a *away) fences() {
	a.t.Helper()
	for what, do := range a.fencedBy() {
		a.f.until(what+" is refused", func(context.Context) error {
			switch err := a.within(what, do); {
			case err == nil:
				return errNone
			case !kerr.IsRetriable(err):
				a.t.Fatalf("%s: %v", what, err)
			}
			return nil
		})
	}
	if err := a.within("acks=all", func() int16 { return a.write(-1) }); err != nil {
		a.t.Errorf("acks=all, without sessions: %v", err)
	}
}

// returns: all is as before, by itself.
func (a *away) returns() {
	a.t.Helper()
	if a.f.external {
		a.f.brokers(4, 5, 6)
	} else {
		a.f.brokers(1, 2, 3, 4, 5, 6)
	}
	a.find()
	a.f.until("all works", func(context.Context) error {
		for what, do := range a.fencedBy() {
			if err := a.within(what, do); err != nil {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		return nil
	})
	a.works("with a quorum again")
	a.made++
	a.f.tool(fmt.Sprintf("topic create made%d -p 1 -r 3", a.made))
}
