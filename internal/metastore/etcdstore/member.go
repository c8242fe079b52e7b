package etcdstore

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"expvar"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// noPeerURL names the only member of a cluster without peers. Nobody listens
// there; etcd wants one to derive ids from, and resolves it, hence an address.
const noPeerURL = "http://127.0.0.1:1"

var segmentOnce sync.Once

func setSegment() { wal.SegmentSizeBytes = walSegment }

// member is a running embedded etcd.
type member struct {
	cfg    Member
	etcd   *embed.Etcd
	lock   io.Closer
	logger *slog.Logger
}

var errLocked = errors.New("in use by another process: stop that one, or set metadata.log.dir to another directory")

// lockDir keeps a second process out: etcd itself would wait for the first in silence.
func lockDir(path string) (io.Closer, error) {
	l, err := vfs.Real.Lock(path)
	if errors.Is(err, vfs.ErrLocked) {
		return nil, errLocked
	}
	return l, err
}

// startMember starts an etcd and waits until it leads. What etcd calls fatal
// goes to fatal; when that happens in here, failed is closed.
func startMember(ctx context.Context, cfg Member, logger *slog.Logger, fatal func(error), failed <-chan struct{}) (*member, error) {
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("metadata store: %w", err)
	}
	lock, err := lockDir(filepath.Join(cfg.Dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("metadata store %s: %w", cfg.Dir, err)
	}
	newBallast(cfg, logger).ease(4 * walSegment)
	ecfg, err := embedConfig(cfg)
	if err != nil {
		_ = lock.Close()
		return nil, err
	}
	ecfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newZap(logger, fatal))
	segmentOnce.Do(setSegment)

	startMu.Lock()
	defer startMu.Unlock()
	type started struct {
		etcd *embed.Etcd
		err  error
	}
	ch := make(chan started, 1)
	go func() { // of its own, because a fatal error parks it
		e, err := embed.StartEtcd(ecfg)
		ch <- started{e, err}
	}()
	select {
	case <-failed: // the lock stays with what is parked
		return nil, errFatal
	case st := <-ch:
		if st.err != nil {
			_ = lock.Close()
			return nil, fmt.Errorf("metadata store: %w", st.err)
		}
		m := &member{cfg: cfg, etcd: st.etcd, lock: lock, logger: logger}
		if err := m.elect(ctx, failed); err != nil {
			m.stop(failed)
			return nil, err
		}
		return m, nil
	}
}

func embedConfig(cfg Member) (*embed.Config, error) {
	peer, err := url.Parse(noPeerURL)
	if err != nil {
		return nil, err
	}
	// Counts only when the member is born: two single nodes never share a cluster id.
	var token [16]byte
	if _, err := rand.Read(token[:]); err != nil {
		return nil, err
	}
	c := embed.NewConfig()
	c.Name = cfg.Name
	c.Dir = cfg.Dir
	c.ListenPeerUrls = nil
	c.ListenClientUrls = nil
	c.ListenClientHttpUrls = nil
	c.AdvertiseClientUrls = nil
	c.AdvertisePeerUrls = []url.URL{*peer}
	c.InitialCluster = cfg.Name + "=" + noPeerURL
	c.InitialClusterToken = hex.EncodeToString(token[:])
	c.ClusterState = embed.ClusterStateFlagNew
	c.TickMs = uint(cfg.Tick.Milliseconds())
	c.ElectionMs = uint(cfg.Election.Milliseconds())
	c.QuotaBackendBytes = cfg.Quota
	// How long bbolt gathers changes before it commits them. The WAL has them, so
	// this costs replay after a crash, and saves wake-ups and syncs: etcd's 100 ms
	// is for a server that has the machine to itself.
	c.BackendBatchInterval = 500 * time.Millisecond
	c.AutoCompactionMode = embed.CompactorModePeriodic
	c.AutoCompactionRetention = cfg.Keep.String()
	c.EnableGRPCGateway = false
	return c, nil
}

// elect waits for a leader; a member that is its whole cluster campaigns now
// instead of after an election time-out: MsgTimeoutNow is what a leader sends to
// the one that it hands over to.
//
// It must come when raft has applied all that it knows to be committed. Before
// that raft looks through the rest for membership changes, in a log that etcd
// may just be compacting at its own pace, and ends the process when it misses
// an entry: a restart after a hundred entries met that.
func (m *member) elect(ctx context.Context, failed <-chan struct{}) error {
	srv := m.etcd.Server
	self := uint64(srv.MemberID())
	alone := len(srv.Cluster().Members()) == 1
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; srv.Leader() == 0; n++ {
		if alone && n%resendTicks == 0 {
			if !raftIdle(self) {
				n-- // look again at the next tick
			} else {
				msg := &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: &self, To: &self}
				if err := srv.Process(ctx, msg); err != nil && ctx.Err() == nil {
					return fmt.Errorf("metadata store: election: %w", err)
				}
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-failed:
			return errFatal
		case <-srv.StopNotify():
			return errors.New("metadata store: etcd stopped while starting")
		case <-tick.C:
		}
	}
	return m.awaitTerm(ctx, failed)
}

// awaitTerm waits until the member's own announcement, which it proposes at each
// start, is applied: then everything that earlier terms acknowledged is, too. A
// single voter answers linearizable reads before that, from the commit index
// that was on disk, which may lack the last transaction acknowledged before a kill.
func (m *member) awaitTerm(ctx context.Context, failed <-chan struct{}) error {
	select {
	case <-m.etcd.Server.ReadyNotify():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-failed:
		return errFatal
	case <-m.etcd.Server.StopNotify():
		return errors.New("metadata store: etcd stopped while starting")
	}
}

// resendTicks is after how many milliseconds without a leader the member is told again.
const resendTicks = 50

// startMu keeps starts apart: raftIdle sees the node that started last.
var startMu sync.Mutex

// raftIdle says whether the raft node of this id is known to have nothing left
// to apply. etcd publishes the status of the last node of the process, and
// nothing else that tells; should another have come in between, the member
// elects itself by time-out.
func raftIdle(id uint64) bool {
	f, ok := expvar.Get("raft.status").(expvar.Func)
	if !ok {
		return false
	}
	st, ok := f.Value().(raft.Status)
	return ok && st.ID == id && st.Applied > 0 && st.Applied == st.GetCommit()
}

func (m *member) client() *clientv3.Client { return v3client.New(m.etcd.Server) }

// stop ends the member and waits for its goroutines, after a fatal error only for a while.
func (m *member) stop(failed <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.etcd.Close()
		_ = m.lock.Close()
	}()
	select {
	case <-done:
	case <-failed:
		select {
		case <-done:
		case <-time.After(stopTimeout):
			m.logger.Warn("metadata store left as it is after a fatal error", "dir", m.cfg.Dir)
		}
	}
}
