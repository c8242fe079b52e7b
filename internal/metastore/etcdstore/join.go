package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// How a node with an empty directory joins a cluster, so that it can be killed
// between any two steps and started again:
//
//  0. unless it may join by itself, somebody has added it;
//  1. the file "joining" is synced. As long as it is there, nothing of the
//     directory counts: a start throws it away and begins at 1;
//  2. what the cluster still has under this node's name or address is removed:
//     its member before its disk was lost, or an attempt that was cut short. An id
//     is never used twice: the leader remembers what an id once acknowledged;
//  3. it is added as a learner, which counts in no quorum, and started;
//  4. it has caught up and knows itself: "joining" is removed, and synced;
//  5. it is promoted. Not before 4: a voter's log is never thrown away.
const joiningFile = "joining"

const (
	joinEvery = 300 * time.Millisecond
	joinTries = 30
)

// admit decides how a member of several begins, and says whether it joins.
func (m *member) admit(ctx context.Context, ecfg *embed.Config) (joining bool, err error) {
	if !m.cfg.shared() {
		return false, nil
	}
	marker := filepath.Join(m.cfg.Member.Dir, joiningFile)
	_, err = os.Stat(marker)
	cut := err == nil
	switch {
	case !cut && hasLog(m.cfg.Member.Dir):
		return false, nil
	case !cut && len(m.cfg.Voters) == 1:
		return false, nil
	case !cut && !m.cfg.Member.Join:
		if joins, err := m.checkNew(ctx); err != nil || !joins {
			return false, err
		}
	case cut:
		m.logger.Info("metadata store begins to join again", "dir", m.cfg.Member.Dir)
	}
	j := &joiner{cfg: m.cfg, logger: m.logger}
	if err := j.mark(marker); err != nil {
		return false, fmt.Errorf("metadata store: %w", err)
	}
	if ecfg.InitialCluster, err = j.run(ctx); err != nil {
		return false, err
	}
	ecfg.ClusterState = embed.ClusterStateFlagExisting
	return true, nil
}

// joined ends step 4.
func (m *member) joined() error {
	if err := m.cfg.step("started"); err != nil {
		return err
	}
	m.etcd.Server.Backend().ForceCommit() // or the next start would not know itself before its log is replayed
	dir := m.cfg.Member.Dir
	if err := os.Remove(filepath.Join(dir, joiningFile)); err != nil {
		return fmt.Errorf("metadata store: %w", err)
	}
	if err := vfs.Real.SyncDir(dir); err != nil {
		return fmt.Errorf("metadata store: %w", err)
	}
	return m.cfg.step("joined")
}

func (c Config) step(name string) error {
	if c.Member.interrupt == nil {
		return nil
	}
	return c.Member.interrupt(name)
}

// joiner makes this node a learner.
type joiner struct {
	cfg    Config
	logger *slog.Logger
	said   string
}

// mark is step 1.
func (j *joiner) mark(marker string) error {
	f, err := os.OpenFile(marker, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Sync(), f.Close(), vfs.Real.SyncDir(j.cfg.Member.Dir)); err != nil {
		return err
	}
	if err := os.RemoveAll(filepath.Join(j.cfg.Member.Dir, "member")); err != nil {
		return err
	}
	return j.cfg.step("marked")
}

// errStay marks what does not pass by itself.
type errStay struct{ error }

func (e errStay) Unwrap() error { return e.error }

// run tries steps 2 and 3 until they are done, and returns the cluster as etcd wants it told.
func (j *joiner) run(ctx context.Context) (string, error) {
	tick := time.NewTicker(joinEvery)
	defer tick.Stop()
	for {
		cluster, err := j.try(ctx)
		if err == nil {
			return cluster, nil
		}
		if stay := (errStay{}); errors.As(err, &stay) {
			return "", fmt.Errorf("metadata store: %w", stay.error)
		}
		if s := err.Error(); s != j.said {
			j.said = s
			j.logger.Info("metadata store waits to join", "cause", err)
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-tick.C:
		}
	}
}

// try asks the other voters once.
func (j *joiner) try(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	var endpoints []string
	for _, v := range j.cfg.askOthers(ctx) {
		for _, m := range v.members {
			if len(m.ClientURLs) > 0 && !m.IsLearner && j.other(m.Name, m.PeerURLs) {
				endpoints = append(endpoints, m.ClientURLs...)
			}
		}
	}
	if len(endpoints) == 0 {
		return "", errors.New("no other voter carries the metadata yet")
	}
	slices.Sort(endpoints)
	c, err := j.cfg.dial(slices.Compact(endpoints), j.logger)
	if err != nil {
		return "", err
	}
	defer func() { _ = c.Close() }()
	ctx = clientv3.WithRequireLeader(ctx)
	list, err := c.MemberList(ctx)
	if err != nil {
		return "", fmt.Errorf("list members: %w", err)
	}
	for _, m := range list.Members {
		if slices.Contains(m.PeerURLs, noPeerURL) {
			return "", fmt.Errorf("member %x has no address yet", m.ID)
		}
	}
	for _, m := range list.Members {
		if err := j.clear(ctx, c, m); err != nil {
			return "", err
		}
	}
	return j.add(ctx, c)
}

// other says that a member is not this node.
func (j *joiner) other(name string, urls []string) bool {
	return name != j.cfg.Member.Name && !slices.Contains(urls, j.cfg.peerURL(j.cfg.self()))
}

// clear is step 2 for one member.
func (j *joiner) clear(ctx context.Context, c *clientv3.Client, m *etcdserverpb.Member) error {
	if j.other(m.Name, m.PeerURLs) {
		return nil
	}
	for _, u := range m.PeerURLs {
		if u == j.cfg.peerURL(j.cfg.self()) {
			continue // this node's own address: nobody else serves it
		}
		if _, err := j.cfg.ask(ctx, u); err == nil {
			return errStay{fmt.Errorf("node.id %d is in use: a voter of that number is running at %s", j.cfg.Member.ID, u)}
		}
	}
	if _, err := c.MemberRemove(ctx, m.ID); err != nil {
		return fmt.Errorf("remove the former member of this node: %w", err)
	}
	j.logger.Warn("former member of this node removed", "member", fmt.Sprintf("%x", m.ID), "learner", m.IsLearner)
	return j.cut("removed")
}

// cut is a step whose interruption is not tried again.
func (j *joiner) cut(step string) error {
	if err := j.cfg.step(step); err != nil {
		return errStay{err}
	}
	return nil
}

// add is step 3.
func (j *joiner) add(ctx context.Context, c *clientv3.Client) (string, error) {
	mine := j.cfg.peerURL(j.cfg.self())
	r, err := c.MemberAddAsLearner(ctx, []string{mine})
	if err != nil {
		return "", fmt.Errorf("add this node: %w", hinted(err))
	}
	j.logger.Info("added to the metadata as a learner", "member", fmt.Sprintf("%x", r.Member.ID))
	if err := j.cut("added"); err != nil {
		return "", err
	}
	var cluster []string
	for _, m := range r.Members {
		name := j.cfg.Member.Name
		if m.ID != r.Member.ID {
			name = fmt.Sprintf("member-%x", m.ID) // any: etcd goes by the addresses
		}
		for _, u := range m.PeerURLs {
			cluster = append(cluster, name+"="+u)
		}
	}
	return strings.Join(cluster, ","), nil
}
