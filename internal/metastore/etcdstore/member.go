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
	"slices"
	"sync"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// noPeerURL names the only member of a cluster without peers. Nobody listens
// there; etcd wants one to derive ids from, and resolves it, hence an address.
const noPeerURL = "http://127.0.0.1:1"

var segmentOnce sync.Once

func setSegment() { wal.SegmentSizeBytes = walSegment }

// member is a running embedded etcd.
type member struct {
	cfg     Config
	etcd    *embed.Etcd
	door    *door // nil: nobody reaches it
	lock    io.Closer
	logger  *slog.Logger
	removed *atomic.Bool       // etcd said that the cluster did
	ending  context.Context    // over once the streams of clients have to end
	end     context.CancelFunc // of ending
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

// startMember starts an etcd and waits until it leads, or knows who does. What
// etcd calls fatal goes to fatal; when that happens in here, failed is closed.
func startMember(ctx context.Context, cfg Config, logger *slog.Logger, fatal func(error), failed <-chan struct{}) (*member, error) {
	dir := cfg.Member.Dir
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("metadata store: %w", err)
	}
	lock, err := lockDir(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("metadata store %s: %w", dir, err)
	}
	newBallast(cfg.Member, logger).ease(4 * walSegment)
	m := &member{cfg: cfg, lock: lock, logger: logger, removed: new(atomic.Bool)}
	m.ending, m.end = context.WithCancel(context.Background())
	if err := m.begin(ctx, fatal, failed); err != nil {
		switch {
		case errors.Is(err, errFatal): // the lock stays with what is parked
		case m.etcd != nil:
			m.stop(failed)
		default:
			m.end()
			if m.door != nil {
				m.door.close()
			}
			_ = lock.Close()
		}
		return nil, err
	}
	return m, nil
}

// begin starts etcd in the way that the directory asks for, and waits for a leader.
func (m *member) begin(ctx context.Context, fatal func(error), failed <-chan struct{}) error {
	ecfg, err := embedConfig(m.cfg)
	if err != nil {
		return err
	}
	ecfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(newZapWatch(m.logger, fatal, m.removed))
	segmentOnce.Do(setSegment)
	if m.cfg.shared() {
		// Before anything else: whoever had this address would be this member.
		if m.door, err = m.cfg.openDoor(ctx); err != nil {
			return err
		}
	}
	joining, err := m.admit(ctx, ecfg)
	if err != nil {
		return err
	}
	startMu.Lock()
	unlock := sync.OnceFunc(startMu.Unlock)
	defer unlock()
	if err := m.launch(ctx, ecfg, joining, failed); err != nil {
		return err
	}
	if !m.alone() {
		unlock() // others may start: they may be whom this one waits for
	}
	if err := m.elect(ctx, failed); err != nil {
		return err
	}
	if joining {
		return m.joined()
	}
	return m.checkAlone(ctx)
}

// launch is StartEtcd. A cluster that has just taken a member in may not know it
// everywhere yet, nor its own version: so joining is tried for a while.
func (m *member) launch(ctx context.Context, ecfg *embed.Config, joining bool, failed <-chan struct{}) error {
	type started struct {
		etcd *embed.Etcd
		err  error
	}
	for n := 0; ; n++ {
		ch := make(chan started, 1)
		go func() { // of its own, because a fatal error parks it
			e, err := embed.StartEtcd(ecfg)
			ch <- started{e, err}
		}()
		var st started
		select {
		case <-failed:
			return errFatal
		case st = <-ch:
		}
		if st.err == nil {
			m.etcd = st.etcd
			if m.door != nil {
				m.door.serve(m.etcd, grpc.ChainStreamInterceptor(m.endStreams))
			}
			return nil
		}
		if !joining || n >= joinTries || hasLog(m.cfg.Member.Dir) {
			return fmt.Errorf("metadata store: %w", st.err)
		}
		m.logger.Info("metadata store does not join yet", "cause", st.err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(joinEvery):
		}
	}
}

// hasLog says whether a member was born in the directory.
func hasLog(dir string) bool { return wal.Exist(filepath.Join(dir, "member", "wal")) }

func embedConfig(cfg Config) (*embed.Config, error) {
	peer, err := url.Parse(noPeerURL)
	if err != nil {
		return nil, err
	}
	// Counts only when the member is born: two single nodes never share a cluster id.
	var token [16]byte
	if _, err := rand.Read(token[:]); err != nil {
		return nil, err
	}
	m := cfg.Member
	c := embed.NewConfig()
	c.Name = m.Name
	c.Dir = m.Dir
	c.ListenPeerUrls = nil
	c.ListenClientUrls = nil
	c.ListenClientHttpUrls = nil
	c.AdvertiseClientUrls = nil
	c.AdvertisePeerUrls = []url.URL{*peer}
	c.InitialCluster = m.Name + "=" + noPeerURL
	c.InitialClusterToken = hex.EncodeToString(token[:])
	c.ClusterState = embed.ClusterStateFlagNew
	c.TickMs = uint(m.Tick.Milliseconds())
	c.ElectionMs = uint(m.Election.Milliseconds())
	c.PreVote = true // who was cut off, or removed, does not disturb the others when it comes back
	c.QuotaBackendBytes = m.Quota
	// How long bbolt gathers changes before it commits them. The WAL has them, so
	// this costs replay after a crash, and saves wake-ups and syncs: etcd's 100 ms
	// is for a server that has the machine to itself.
	c.BackendBatchInterval = 500 * time.Millisecond
	c.AutoCompactionMode = embed.CompactorModePeriodic
	c.AutoCompactionRetention = m.Keep.String()
	c.EnableGRPCGateway = false
	if cfg.shared() {
		cfg.advertise(c)
	}
	return c, nil
}

// alone says whether this member elects itself: it is the only one that votes.
func (m *member) alone() bool {
	srv := m.etcd.Server
	voters, mine := 0, false
	for _, o := range srv.Cluster().Members() {
		if !o.IsLearner {
			voters++
			mine = mine || o.ID == srv.MemberID()
		}
	}
	return voters == 1 && mine
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
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for n := 0; srv.Leader() == 0; n++ {
		if n%resendTicks == 0 && m.alone() {
			if !raftIdle(self) {
				n-- // look again at the next tick
			} else {
				msg := &raftpb.Message{Type: raftpb.MsgTimeoutNow.Enum(), From: &self, To: &self}
				if err := srv.Process(ctx, msg); err != nil && ctx.Err() == nil {
					return fmt.Errorf("metadata store: election: %w", err)
				}
			}
		}
		if n > 0 && n%strangeTicks == 0 {
			if err := m.checkStrange(ctx); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-failed:
			return errFatal
		case <-srv.StopNotify():
			return m.stopped()
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
		return m.stopped()
	}
}

const (
	// resendTicks is after how many milliseconds without a leader the member is told again.
	resendTicks = 50
	// strangeTicks is after how many it asks whether the others have become another cluster.
	strangeTicks = 2000
)

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

// ErrRemoved: the cluster took this node out of its voters while it was away, or
// just now. It says nothing to the others any more.
var ErrRemoved = errors.New("this node was removed from the voters of the metadata")

// stopped says why etcd stopped by itself.
func (m *member) stopped() error {
	if m.removed.Load() {
		return fmt.Errorf("metadata store %s: %w: take it out of controller.quorum.voters, or delete that directory and "+
			"start it with controller.quorum.auto.join.enable=true to take it in anew", m.cfg.Member.Dir, ErrRemoved)
	}
	return errors.New("metadata store: etcd stopped by itself")
}

// refused tells when nobody is let in any more.
func (m *member) refused() <-chan error {
	if m.door == nil {
		return nil
	}
	return m.door.failed
}

// endStreams makes the streams of clients end when the member stops, which else
// would wait for them. They are told to go on elsewhere.
func (m *member) endStreams(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	ctx, cancel := context.WithCancel(ss.Context())
	defer cancel()
	defer context.AfterFunc(m.ending, cancel)()
	err := handler(srv, endingStream{ss, ctx})
	if m.ending.Err() != nil {
		return status.Error(codes.Unavailable, "metadata member is stopping")
	}
	return err
}

type endingStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s endingStream) Context() context.Context { return s.ctx }

func (m *member) client() *clientv3.Client { return v3client.New(m.etcd.Server) }

// handOver makes another voter the leader, so that the others need not miss
// this one first. It gives up after an election's time-out: they would have had
// theirs by then, or stop as well.
func (m *member) handOver() {
	srv := m.etcd.Server
	if srv.Lead() != uint64(srv.MemberID()) {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), m.cfg.Member.Election)
	defer cancel()
	voters := slices.DeleteFunc(srv.Cluster().Members(), func(o *membership.Member) bool { return o.IsLearner || o.ID == srv.MemberID() })
	for n, o := range voters {
		left := m.cfg.Member.Election / time.Duration(len(voters))
		one, end := context.WithTimeout(ctx, left)
		err := srv.MoveLeader(one, srv.Lead(), uint64(o.ID))
		end()
		if err == nil || srv.Lead() != uint64(srv.MemberID()) {
			return
		}
		m.logger.Info("leadership of the metadata was not taken over", "by", o.Name, "tried", n+1)
	}
}

// stop ends the member and waits for its goroutines, after a fatal error only for a while.
func (m *member) stop(failed <-chan struct{}) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.end()
		m.handOver()
		// Close alone would hand over too, and wait for seven seconds for members
		// that stop as well.
		m.etcd.Server.HardStop()
		m.etcd.Close()
		if m.door != nil {
			m.door.close()
		}
		_ = m.lock.Close()
	}()
	select {
	case <-done:
	case <-failed:
		select {
		case <-done:
		case <-time.After(stopTimeout):
			m.logger.Warn("metadata store left as it is after a fatal error", "dir", m.cfg.Member.Dir)
		}
	}
}
