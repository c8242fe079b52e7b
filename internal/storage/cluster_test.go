package storage

import (
	"strings"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// Empty directories are of no cluster until somebody joins them to one, also
// when the process dies in between; then they are of that one for good.
func TestJoin(t *testing.T) {
	disk := vfs.NewMem()
	claimed := func(id string) (*Manager, error) {
		m := New(ManagerConfig{Dirs: []string{"/a", "/b"}, NodeID: 1, ClusterID: id}, disk, nil, nil)
		err := m.Claim()
		m.Release()
		return m, err
	}
	for range 2 {
		if m, err := claimed(""); err != nil || m.ClusterID() != "" {
			t.Fatalf("%q: %v", m.ClusterID(), err)
		}
	}
	m, err := claimed("")
	if err == nil {
		err = m.Join("red")
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Join("blue"); err == nil {
		t.Error("directories change their cluster")
	}
	if m, err = claimed(""); err != nil || m.ClusterID() != "red" {
		t.Errorf("%q: %v", m.ClusterID(), err)
	}
	if _, err := claimed("blue"); err == nil || !strings.Contains(err.Error(), "belongs to cluster red, not blue") {
		t.Errorf("%v", err)
	}
}
