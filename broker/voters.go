package broker

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
	"github.com/barnabas-mq/barnabas/internal/metastore"
	"github.com/barnabas-mq/barnabas/internal/metastore/etcdstore"
)

// members is a metadata store that has some.
type members interface {
	Members(ctx context.Context) ([]etcdstore.MemberInfo, error)
	AddLearner(ctx context.Context, v etcdstore.Voter) error
	RemoveMember(ctx context.Context, id uint64) error
	MoveLeader(ctx context.Context, node int32) error
}

// voters changes who votes on the metadata.
type voters struct{ b *Broker }

const (
	// voterEvery is how often a change that has to wait is looked at.
	voterEvery = 200 * time.Millisecond
	// takeBackIn bounds what is done once a request's time is over.
	takeBackIn = 5 * time.Second
)

// members of this broker's metadata; one that is alone has none that could change.
func (v voters) members() (members, error) {
	text := "This node carries the metadata alone, where nobody reaches them: restart it with controller.quorum.voters."
	if len(v.b.node.Metadata.Endpoints) > 0 {
		text = errNoQuorum.Message
	}
	if m, ok := v.b.parts.store.(members); ok && !v.b.node.Metadata.Alone() && len(v.b.node.Metadata.Endpoints) == 0 {
		return m, nil
	}
	return nil, &plan.Refusal{Code: kerr.UnsupportedVersion, Message: text}
}

// directoryOf is how Kafka's protocol tells a member: one that lost its disk and
// came back is another, with another id of etcd's.
func directoryOf(member uint64) kafka.DirID {
	var d kafka.DirID
	binary.BigEndian.PutUint64(d[8:], member)
	return d
}

// Listener is the name of the listener at which voters are reached.
func (v voters) Listener() string {
	if names := v.b.cfg.List("controller.listener.names"); len(names) > 0 {
		return strings.ToUpper(names[0])
	}
	return "CONTROLLER"
}

// Add makes a node an observer of the metadata, which becomes a voter by itself
// once it runs and has caught up, and waits for that. One that never came up in
// the time is taken back.
func (v voters) Add(ctx context.Context, node kafka.NodeID, host string, port uint16, wait bool) error {
	m, err := v.members()
	if err != nil {
		return err
	}
	address := net.JoinHostPort(host, strconv.Itoa(int(port)))
	added := false
	for {
		infos, err := m.Members(ctx)
		i, there := memberOf(infos, node, address)
		switch {
		case err != nil:
		case there && !i.Learner && !added:
			return &plan.Refusal{Code: kerr.DuplicateVoter, Message: fmt.Sprintf("The voter id for %s is already part of the set of voters %s.", keyOf(i), keysOf(infos))}
		case there && !i.Learner:
			return nil
		case there || added:
			added = true
		default:
			if err = m.AddLearner(ctx, etcdstore.Voter{ID: int32(node), Address: address}); err == nil {
				added = true
			}
		}
		if added && !wait {
			return nil
		}
		if !pause(ctx) {
			return v.late(ctx, m, node, address, err)
		}
	}
}

// late says why a voter was not added in time.
func (v voters) late(ctx context.Context, m members, node kafka.NodeID, address string, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackIn)
	defer cancel()
	infos, err := m.Members(ctx)
	i, there := memberOf(infos, node, address)
	text := fmt.Sprintf("Node %d was not added: %v.", node, errors.Join(cause, err))
	switch {
	case there && !i.Learner:
		return nil
	case there && i.Started:
		text = fmt.Sprintf("Node %d has not caught up yet. It observes the metadata, and becomes a voter by itself.", node)
	case there:
		if err = m.RemoveMember(ctx, i.ID); err == nil {
			text = fmt.Sprintf("Node %d did not come up at %s, and was not added: it has to run as a controller whose address in controller.quorum.voters is that one.", node, address)
		}
	}
	return &plan.Refusal{Code: kerr.RequestTimedOut, Message: text}
}

// Remove takes a voter or an observer out, for good: leadership goes to another
// one before.
func (v voters) Remove(ctx context.Context, node kafka.NodeID, dir kafka.DirID) error {
	m, err := v.members()
	if err != nil {
		return err
	}
	asked := false
	for {
		infos, err := m.Members(ctx)
		n := slices.IndexFunc(infos, func(i etcdstore.MemberInfo) bool {
			return directoryOf(i.ID) == dir && (kafka.NodeID(i.Node) == node || i.Node < 0)
		})
		switch {
		case err != nil:
		case n < 0 && asked:
			return nil
		case n < 0:
			return &plan.Refusal{Code: kerr.VoterNotFound, Message: fmt.Sprintf("Cannot remove voter ReplicaKey(id=%d, directoryId=%s) from the set of voters %s", node, dir, keysOf(infos))}
		case len(infos) == 1:
			return &plan.Refusal{Code: kerr.InvalidRequest, Message: fmt.Sprintf("Voter %d is the last one.", node)}
		default:
			asked = true
			handOver(ctx, m, infos, n)
			if err = m.RemoveMember(ctx, infos[n].ID); err == nil {
				return nil
			}
		}
		if errors.Is(err, metastore.ErrStopped) { // this broker may be the one that was removed
			return fmt.Errorf("%w: this broker stops", kerr.NotController)
		}
		if !pause(ctx) {
			return &plan.Refusal{Code: kerr.RequestTimedOut, Message: fmt.Sprintf("Voter %d was not removed: without it there have to be enough others that are up. %v", node, err)}
		}
	}
}

// handOver makes another voter the leader, where the n-th is. Where nobody takes
// it, the others elect one once this one is gone.
func handOver(ctx context.Context, m members, infos []etcdstore.MemberInfo, n int) {
	if !infos[n].Leader {
		return
	}
	for _, o := range infos {
		if o.ID == infos[n].ID || o.Learner || o.Err != nil {
			continue
		}
		one, cancel := context.WithTimeout(ctx, takeBackIn)
		err := m.MoveLeader(one, o.Node)
		cancel()
		if err == nil {
			return
		}
	}
}

// pause waits before the next look; false: the time is over.
func pause(ctx context.Context) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(voterEvery):
		return true
	}
}

// memberOf finds a node by its number, or by the address of one that has not started yet.
func memberOf(infos []etcdstore.MemberInfo, node kafka.NodeID, address string) (etcdstore.MemberInfo, bool) {
	for _, i := range infos {
		if kafka.NodeID(i.Node) == node || !i.Started && strings.TrimPrefix(strings.TrimPrefix(i.Peer, "http://"), "https://") == address {
			return i, true
		}
	}
	return etcdstore.MemberInfo{}, false
}

// keyOf and keysOf name voters as Apache Kafka does.
func keyOf(i etcdstore.MemberInfo) string {
	return fmt.Sprintf("ReplicaKey(id=%d, directoryId=%s)", i.Node, directoryOf(i.ID))
}

func keysOf(infos []etcdstore.MemberInfo) string {
	var out []string
	for _, i := range infos {
		if !i.Learner {
			out = append(out, keyOf(i))
		}
	}
	return "[" + strings.Join(out, ", ") + "]"
}
