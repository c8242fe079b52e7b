package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

// MemberInfo is a member of the cluster that carries the metadata.
type MemberInfo struct {
	ID   uint64
	Node int32 // -1: not known, of a member that never started
	// Peer and Client are the URLs that it is known by; "" where there is none.
	Peer, Client    string
	Learner, Leader bool
	Started         bool // it has been up once

	// Err is why it did not say what follows.
	Err                error
	DBBytes, UsedBytes int64
	// Index is the last entry of the log that is committed, Applied the last carried out.
	Index, Applied, Term uint64
}

// ErrNoMember: no member of the metadata is on that node.
var ErrNoMember = errors.New("no member of the metadata")

// statusTimeout bounds the wait for what each member says of itself.
const statusTimeout = 2 * time.Second

// Members lists who carries the metadata, by node. It is read through the quorum;
// what each says of itself is asked of it.
func (s *Store) Members(ctx context.Context) ([]MemberInfo, error) {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	list, err := s.client.MemberList(ctx)
	if err != nil {
		return nil, readError("list members", err)
	}
	out := make([]MemberInfo, len(list.Members))
	leaders := make([]uint64, len(out))
	var wg sync.WaitGroup
	for i, m := range list.Members {
		out[i] = MemberInfo{ID: m.ID, Node: nodeOf(m.Name), Peer: first(m.PeerURLs), Client: first(m.ClientURLs), Learner: m.IsLearner, Started: m.Name != ""}
		if out[i].Node < 0 {
			out[i].Node = s.cfg.nodeAt(out[i].Peer)
		}
		wg.Go(func() { leaders[i] = s.status(ctx, &out[i]) })
	}
	wg.Wait()
	for i, m := range out {
		// The leader is whom the members of the latest term follow.
		if latest := slices.MaxFunc(out, func(a, b MemberInfo) int { return cmp.Compare(a.Term, b.Term) }).Term; m.Err == nil && m.Term == latest && leaders[i] != 0 {
			for j := range out {
				out[j].Leader = out[j].ID == leaders[i]
			}
		}
	}
	slices.SortFunc(out, func(a, b MemberInfo) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.ID, b.ID))
	})
	return out, nil
}

func first(urls []string) string {
	if len(urls) == 0 {
		return ""
	}
	return urls[0]
}

// nodeAt is the voter that the configuration has at a peer URL, or -1.
func (c Config) nodeAt(peer string) int32 {
	for _, v := range c.Voters {
		if c.peerURL(v) == peer {
			return v.ID
		}
	}
	return -1
}

// status asks a member of itself, and returns whom it follows.
func (s *Store) status(ctx context.Context, info *MemberInfo) (leader uint64) {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	var r *clientv3.StatusResponse
	info.Err = s.at(info.ID, info.Client, func(c *clientv3.Client) (err error) {
		r, err = c.Status(ctx, info.Client)
		return err
	})
	if info.Err != nil {
		return 0
	}
	info.DBBytes, info.UsedBytes = r.DbSize, r.DbSizeInUse
	info.Index, info.Applied, info.Term = r.RaftIndex, r.RaftAppliedIndex, r.RaftTerm
	return r.Leader
}

// at calls f with a client of one member alone: in process, where it is this one.
func (s *Store) at(id uint64, client string, f func(*clientv3.Client) error) error {
	if m := s.member.Load(); m != nil && uint64(m.etcd.Server.MemberID()) == id {
		return f(s.client)
	}
	if client == "" {
		return fmt.Errorf("member %x has no client listener: %w", id, metastore.ErrUnavailable)
	}
	c, err := s.cfg.dial([]string{client}, s.logger)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	return f(c)
}

// find looks a node's member up.
func (s *Store) find(ctx context.Context, node int32) (*etcdserverpb.Member, error) {
	list, err := s.client.MemberList(ctx)
	if err != nil {
		return nil, readError("list members", err)
	}
	for _, m := range list.Members {
		if nodeOf(m.Name) == node || m.Name == "" && s.cfg.nodeAt(first(m.PeerURLs)) == node {
			return m, nil
		}
	}
	return nil, fmt.Errorf("node %d: %w", node, ErrNoMember)
}

// AddLearner adds a node that does not vote and does not count: it gets the
// metadata, and is promoted once it has caught up. It is no error when it is one
// already. A node that joins by itself (Member.Join) needs no call.
func (s *Store) AddLearner(ctx context.Context, v Voter) error {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	_, err = s.client.MemberAddAsLearner(ctx, []string{s.cfg.peerURL(v)})
	if errors.Is(err, rpctypes.ErrPeerURLExist) || errors.Is(err, rpctypes.ErrMemberExist) { // twice within a second is the same id
		m, ferr := s.find(ctx, v.ID)
		if ferr == nil && m.IsLearner {
			return nil
		}
	}
	if err != nil {
		return writeError(fmt.Sprintf("add node %d", v.ID), hinted(err))
	}
	return nil
}

// hinted says what etcd's refusal to add a member asks for.
func hinted(err error) error {
	if errors.Is(err, rpctypes.ErrUnhealthy) {
		return fmt.Errorf("%w: one of the members is away, or was a moment ago; one that does not come back is to be removed first", err)
	}
	return err
}

// Promote makes a learner a voter; one that is behind is refused. It is no error when it votes already.
func (s *Store) Promote(ctx context.Context, node int32) error {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	m, err := s.find(ctx, node)
	if err != nil || !m.IsLearner {
		return err
	}
	if _, err := s.client.MemberPromote(ctx, m.ID); err != nil && !errors.Is(err, rpctypes.ErrMemberNotLearner) {
		return writeError(fmt.Sprintf("promote node %d", node), err)
	}
	return nil
}

// Remove takes a node out. It stops by itself, and cannot come back with its
// directory. It is no error when it is not there. The last voter is not removed,
// nor one without whom the others are no majority.
func (s *Store) Remove(ctx context.Context, node int32) error {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	m, err := s.find(ctx, node)
	if errors.Is(err, ErrNoMember) {
		return nil
	}
	if err != nil {
		return err
	}
	return s.remove(ctx, m.ID, fmt.Sprintf("remove node %d", node))
}

// RemoveMember is Remove by what etcd calls the member.
func (s *Store) RemoveMember(ctx context.Context, id uint64) error {
	ctx, done, err := s.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	return s.remove(ctx, id, fmt.Sprintf("remove member %x", id))
}

func (s *Store) remove(ctx context.Context, id uint64, what string) error {
	if _, err := s.client.MemberRemove(ctx, id); err != nil && !errors.Is(err, rpctypes.ErrMemberNotFound) {
		return writeError(what, err)
	}
	return nil
}

// MoveLeader makes a voter the leader. It is no error when it leads already.
func (s *Store) MoveLeader(ctx context.Context, node int32) error {
	members, err := s.Members(ctx)
	if err != nil {
		return err
	}
	ctx, done, err := s.call(ctx)
	if err != nil {
		return err
	}
	defer done()
	to := slices.IndexFunc(members, func(m MemberInfo) bool { return m.Node == node && !m.Learner })
	from := slices.IndexFunc(members, func(m MemberInfo) bool { return m.Leader })
	switch {
	case to < 0:
		return fmt.Errorf("node %d: %w", node, ErrNoMember)
	case from < 0:
		return fmt.Errorf("nobody leads: %w", metastore.ErrUnavailable)
	case from == to:
		return nil
	}
	err = s.at(members[from].ID, members[from].Client, func(c *clientv3.Client) error {
		_, err := c.MoveLeader(ctx, members[to].ID)
		return err
	})
	if err != nil {
		return readError(fmt.Sprintf("move leadership to node %d", node), err)
	}
	return nil
}
