package storage

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// A kill between the new name of a moved log and the end of the old one, and
// then a start without the new directory: the old log goes on, and what it takes
// is not given up for the copy when that directory comes back.
func TestOldLogGoesOnWithoutTheNewDirectory(t *testing.T) {
	mem := vfs.NewMem()
	var between *vfs.Mem
	from := ""
	b := openBox(t, vfs.Faulty(mem, func(op vfs.Op) error {
		if between == nil && from != "" && op.Kind == vfs.OpRename && op.Name == from+"/"+testTP.String() {
			between = mem.CrashClone(nil, vfs.ProcessKill)
		}
		return nil
	}), managerConfig("/a", "/b"), true)
	o := own(b.log(testConfig()))
	o.append(t, values(3, "before")...)
	from = o.log.d.path
	to := "/b"
	if from == to {
		to = "/a"
	}
	if err := b.m.Move(testTP, to); err != nil {
		t.Fatal(err)
	}
	<-o.moved
	if err := o.log.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	b.close()
	if between == nil {
		t.Fatal("the old directory was not renamed")
	}

	b = openBox(t, between, managerConfig(from), false)
	l, ok := b.m.Get(testTP)
	if !ok {
		t.Fatalf("the log in %s is not served without %s", from, to)
	}
	b.appendEpoch(l, 7, values(2, "alone")...)
	if err := l.Sync(context.Background()); err != nil {
		t.Fatal(err)
	}
	end := l.End()
	after := between.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.PowerLoss)
	b.crash()

	for range 2 {
		b = openBox(t, after, managerConfig("/a", "/b"), false)
		l, ok = b.m.Get(testTP)
		if !ok || l.d.path != from || l.End() != end {
			t.Fatalf("with both directories: %v, log in %s to %d, want %s to %d", ok, l.d.path, l.End(), from, end)
		}
		b.crash()
	}
}
