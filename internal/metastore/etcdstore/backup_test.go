package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/metastore"
)

func everything(t testing.TB, s *Store) (string, int64) {
	t.Helper()
	kvs, rev, err := metastore.ListAll(context.Background(), s, "", 10)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, kv := range kvs {
		out = append(out, fmt.Sprintf("%s=%s %d %d %d", kv.Key, kv.Value, kv.CreateRev, kv.ModRev, kv.Version))
	}
	return strings.Join(out, "\n"), rev
}

// A backup of any member becomes a new cluster with the same keys, at a higher
// revision, that members of the old one do not disturb.
func TestBackupRestore(t *testing.T) {
	voters := someVoters(t, 3)
	nodes := startNodes(t, voters, nil)
	for i := range 25 {
		mustTxn(t, nodes[0].store, putTxn(fmt.Sprintf("k%d", i%20), fmt.Sprint(i)))
	}
	want, rev := everything(t, nodes[0].store)
	dir := t.TempDir()
	var paths []string
	for i, s := range []*Store{nodes[0].store, nodes[1].store, nodes[2].store, outsider(t, nodes[0])} {
		path := filepath.Join(dir, fmt.Sprint(i))
		b, err := s.Save(context.Background(), path)
		if err != nil || b.Revision != rev || b.Keys != 20 || b.Bytes == 0 {
			t.Fatalf("backup %d: %+v, %v, at %d", i, b, err, rev)
		}
		paths = append(paths, path)
	}
	if _, err := nodes[0].store.Save(context.Background(), paths[0]); err == nil {
		t.Error("a backup is overwritten")
	}
	later := mustTxn(t, nodes[0].store, putTxn("later", "1")).Rev
	old := nodes[0].store.member.Load().etcd.Server.Cluster().ID()
	for _, n := range nodes {
		n.close()
	}

	restored := make([]*node, 3)
	for i, v := range voters {
		restored[i] = newNode(t, voters, v.ID)
		restore(t, paths[1], restored[i].cfg)
	}
	nodes[2].start() // where the third of the new ones will be
	restored[0].start()
	restored[1].start().ready()
	checkRestored(t, restored[1].store, want, later)
	term := restored[1].store.member.Load().etcd.Server.Term()
	if err := nodes[2].wait(t); err == nil || !strings.Contains(err.Error(), "carries other metadata") {
		t.Errorf("a member of the old cluster: %v", err)
	}
	if now := restored[1].store.member.Load().etcd.Server.Term(); now != term {
		t.Errorf("a member of the old cluster disturbed the new one: term %d, then %d", term, now)
	}
	restored[2].start().ready()
	checkRestored(t, restored[2].store, want, later)
	if id := restored[2].store.member.Load().etcd.Server.Cluster().ID(); id == old {
		t.Error("the new cluster has the id of the old one")
	}

	one := newNode(t, nil, 1)
	restore(t, paths[3], one.cfg)
	checkRestored(t, one.start().ready().store, want, later)
}

func restore(t *testing.T, path string, to Config) {
	t.Helper()
	// What attempts that were cut short have left.
	if err := os.MkdirAll(filepath.Join(to.Member.Dir, "restoring", "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(to.Member.Dir, joiningFile), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := Restore{From: path, To: to}
	if err := r.Run(testLogger(t)); err != nil {
		t.Fatal(err)
	}
	if err := r.Run(testLogger(t)); err == nil {
		t.Error("metadata are restored over others")
	}
}

// checkRestored: the same keys, above what the old cluster wrote, and whoever
// watched it has to list again.
func checkRestored(t *testing.T, s *Store, want string, later int64) {
	t.Helper()
	got, rev := everything(t, s)
	if got != want {
		t.Errorf("restored:\n%s\nwant:\n%s", got, want)
	}
	if rev <= later {
		t.Errorf("restored at revision %d, the old cluster was at %d", rev, later)
	}
	w, err := s.Watch(context.Background(), "", later+1)
	if err == nil {
		for range w.C() {
		}
		err = w.Err()
	}
	if !errors.Is(err, metastore.ErrCompacted) {
		t.Errorf("a watch from the old cluster: %v", err)
	}
}

// A damaged or cut backup is refused, and leaves no metadata behind.
func TestDamagedBackup(t *testing.T) {
	s := run(t, Config{Member: testMember(t)})
	mustTxn(t, s, putTxn("a", "1"))
	path := filepath.Join(t.TempDir(), "backup")
	if _, err := s.Save(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte(nil), whole...)
	flipped[len(flipped)/2] ^= 1
	for want, data := range map[string][]byte{"damaged": flipped, "not whole": whole[:len(whole)-100]} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Inspect(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		dir := t.TempDir()
		if err := (Restore{From: path, To: Config{Member: Member{Dir: dir}}}).Run(testLogger(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if _, err := os.Stat(filepath.Join(dir, "member")); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: metadata are there: %v", want, err)
		}
	}
}
