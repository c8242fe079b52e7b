package etcdstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Backup is what a backup holds.
type Backup struct {
	Revision int64
	Keys     int
	Bytes    int64
}

// Save writes all of the metadata, as this member has it, into a new file that
// etcdutl reads as well. The file is there whole or not at all.
func (s *Store) Save(ctx context.Context, path string) (Backup, error) {
	ctx, done, err := s.attach(ctx)
	if err != nil {
		return Backup{}, err
	}
	defer done()
	if _, err := os.Lstat(path); !errors.Is(err, os.ErrNotExist) {
		return Backup{}, fmt.Errorf("backup of the metadata: %s is there already", path)
	}
	// The member may be behind what others acknowledged: not behind what was when this began.
	if _, err := s.Rev(ctx); err != nil {
		return Backup{}, err
	}
	src, err := s.client.Snapshot(ctx)
	if err != nil {
		return Backup{}, readError("backup of the metadata", err)
	}
	defer func() { _ = src.Close() }()
	part := path + ".part"
	if err := writeSynced(part, src); err != nil {
		_ = os.Remove(part)
		return Backup{}, fmt.Errorf("backup of the metadata: %w", err)
	}
	b, err := Inspect(part)
	if err != nil {
		_ = os.Remove(part)
		return Backup{}, err
	}
	if err := os.Rename(part, path); err != nil {
		return Backup{}, fmt.Errorf("backup of the metadata: %w", err)
	}
	if err := vfs.Real.SyncDir(filepath.Dir(path)); err != nil {
		return Backup{}, fmt.Errorf("backup of the metadata: %w", err)
	}
	return b, nil
}

func writeSynced(path string, src io.Reader) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, src)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Inspect reads a backup through, its checksum included.
func Inspect(path string) (Backup, error) {
	if _, err := checksum(path); err != nil {
		return Backup{}, err
	}
	st, err := snapshot.NewV3(newZap(slog.New(slog.DiscardHandler), func(error) {})).Status(path)
	if err != nil {
		return Backup{}, fmt.Errorf("backup of the metadata %s: %w", path, err)
	}
	return Backup{Revision: st.Revision, Keys: st.TotalKey, Bytes: st.TotalSize}, nil
}

// checksum of a backup, which etcd put at its end.
func checksum(path string) ([]byte, error) {
	damaged := func(why error) error { return fmt.Errorf("backup of the metadata %s: %w", path, why) }
	f, err := os.Open(path)
	if err != nil {
		return nil, damaged(err)
	}
	defer func() { _ = f.Close() }()
	st, err := f.Stat()
	if err != nil {
		return nil, damaged(err)
	}
	if st.Size() < sha256.Size || st.Size()%512 != sha256.Size {
		return nil, damaged(errors.New("it is not whole: it has no checksum at its end"))
	}
	h := sha256.New()
	if _, err := io.CopyN(h, f, st.Size()-sha256.Size); err != nil {
		return nil, damaged(err)
	}
	sum := make([]byte, sha256.Size)
	if _, err := io.ReadFull(f, sum); err != nil {
		return nil, damaged(err)
	}
	if string(sum) != string(h.Sum(nil)) {
		return nil, damaged(errors.New("its checksum does not fit: it is damaged"))
	}
	return sum, nil
}

// DefaultBump is how far a restored cluster's revisions begin above the backup's:
// more than a cluster can have written since.
const DefaultBump = 1_000_000_000

// Restore makes the directory of one voter of a new cluster.
type Restore struct {
	From string // the backup
	// To has the voters of the new cluster, this node's number and its directory,
	// which must be empty; nothing else of it counts but Files and Member.Token.
	To Config
	// Bump of the revision: DefaultBump. Brokers refuse metadata that are older than
	// what they have seen (safety 15), and whoever watched lists again.
	Bump uint64
}

// Run restores. It is done once for each voter, from the same file, with the same
// voters and bump: they are one cluster then, and not that of the backup, whose
// members it does not answer. A restore that was cut short left nothing.
func (r Restore) Run(logger *slog.Logger) error {
	cfg, err := r.To.withDefaults()
	if err != nil {
		return err
	}
	def(&r.Bump, DefaultBump)
	sum, err := checksum(r.From)
	if err != nil {
		return err
	}
	dir := cfg.Member.Dir
	if _, err := os.Lstat(filepath.Join(dir, "member")); dir == "" || !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("restore of the metadata: %q is not a directory without metadata", dir)
	}
	cluster, urls := cfg.Member.Name+"="+noPeerURL, []string{noPeerURL}
	if cfg.shared() {
		cluster, urls = cfg.initialCluster(), []string{cfg.peerURL(cfg.self())}
	}
	token := cfg.Member.Token
	if token == "" {
		// Another cluster than the one before, whose members may come back.
		token = fmt.Sprintf("restored %s %d %s", hex.EncodeToString(sum), r.Bump, cluster)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("restore of the metadata: %w", err)
	}
	lock, err := lockDir(filepath.Join(dir, "lock"))
	if err != nil {
		return fmt.Errorf("restore of the metadata %s: %w", dir, err)
	}
	defer func() { _ = lock.Close() }()
	part := filepath.Join(dir, "restoring")
	if err := os.RemoveAll(part); err != nil {
		return fmt.Errorf("restore of the metadata: %w", err)
	}
	segmentOnce.Do(setSegment)
	err = snapshot.NewV3(newZap(logger, func(error) {})).Restore(snapshot.RestoreConfig{
		SnapshotPath:        r.From,
		Name:                cfg.Member.Name,
		OutputDataDir:       part,
		PeerURLs:            urls,
		InitialCluster:      cluster,
		InitialClusterToken: token,
		RevisionBump:        r.Bump,
		MarkCompacted:       true,
	})
	if err != nil {
		return fmt.Errorf("restore of the metadata: %w", err)
	}
	return placeRestored(dir, part)
}

// placeRestored makes what was restored the member, all at once.
func placeRestored(dir, part string) error {
	err := filepath.WalkDir(part, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return vfs.Real.SyncDir(path)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return errors.Join(f.Sync(), f.Close())
	})
	// An attempt to join that was cut short would throw away what is restored.
	if rerr := os.Remove(filepath.Join(dir, joiningFile)); err == nil && !errors.Is(rerr, os.ErrNotExist) {
		err = rerr
	}
	if err == nil {
		err = vfs.Real.SyncDir(dir)
	}
	if err == nil {
		err = os.Rename(filepath.Join(part, "member"), filepath.Join(dir, "member"))
	}
	if err == nil {
		err = os.RemoveAll(part)
	}
	if err == nil {
		err = vfs.Real.SyncDir(dir)
	}
	if err != nil {
		return fmt.Errorf("restore of the metadata: %w", err)
	}
	return nil
}
