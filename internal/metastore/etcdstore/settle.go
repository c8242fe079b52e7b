package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// settle brings a member of several to where the configuration wants it: its own
// address known to the others, and a voter. Each of it is tried until it is done.
func (s *Store) settle(ctx context.Context, m *member) {
	if !s.cfg.shared() {
		return
	}
	said := ""
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	for {
		done, err := s.settleOnce(ctx, m)
		if done || ctx.Err() != nil {
			break
		}
		if err != nil && err.Error() != said {
			said = err.Error()
			s.logger.Info("metadata member is not settled yet", "cause", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
	s.reportVoters(m)
}

func (s *Store) settleOnce(ctx context.Context, m *member) (done bool, err error) {
	srv := m.etcd.Server
	self := srv.Cluster().Member(srv.MemberID())
	if self == nil {
		return false, nil // the log that says so is not applied yet
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.RequestTimeout)
	defer cancel()
	mine := s.cfg.peerURL(s.cfg.self())
	if !slices.Equal(self.PeerURLs, []string{mine}) {
		if _, err := s.client.MemberUpdate(ctx, uint64(self.ID), []string{mine}); err != nil {
			return false, fmt.Errorf("tell the members the address of this one: %w", err)
		}
		s.logger.Info("address of this metadata member changed", "before", self.PeerURLs, "now", mine)
		return false, nil
	}
	if !self.IsLearner {
		return true, nil
	}
	if _, err := s.client.MemberPromote(ctx, uint64(self.ID)); err != nil && !errors.Is(err, rpctypes.ErrMemberNotLearner) {
		return false, fmt.Errorf("become a voter: %w", err)
	}
	s.logger.Info("this node votes on the metadata now")
	return false, nil // until it is seen
}

// reportVoters says where the configuration and the members differ: the members are what counts.
func (s *Store) reportVoters(m *member) {
	var members, voters []string
	for _, o := range m.etcd.Server.Cluster().Members() {
		members = append(members, o.PeerURLs...)
	}
	for _, v := range s.cfg.Voters {
		voters = append(voters, s.cfg.peerURL(v))
	}
	slices.Sort(members)
	slices.Sort(voters)
	if !slices.Equal(members, voters) {
		s.logger.Info("the members of the metadata are not those of controller.quorum.voters", "members", members, "voters", voters)
	}
}
