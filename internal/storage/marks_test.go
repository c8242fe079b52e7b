package storage

import (
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// The file of high watermarks follows every mark that moves, logs that come and
// logs that go, also after a write of it has failed; where nothing has moved it is
// not looked at.
func TestHighWatermarksAreStored(t *testing.T) {
	const file = "/d/replication-offset-checkpoint"
	fsys := vfs.NewMem()
	b := openBox(t, fsys, managerConfig("/d"), false)
	d := b.m.dirs[0]
	expect := func(want string) {
		t.Helper()
		if err := d.writeHighWatermarks(); err != nil {
			t.Fatal(err)
		}
		if got, err := vfs.ReadFile(fsys, file, 1<<20); string(got) != want {
			t.Fatalf("%q %v, want %q", got, err, want)
		}
	}
	l := b.log(testConfig())
	b.append(l, values(5, "v")...)
	expect("0\n1\nt 0 0\n")
	l.SetHighWatermark(2)
	expect("0\n1\nt 0 2\n")

	if err := fsys.Remove(file); err != nil {
		t.Fatal(err)
	}
	l.SetHighWatermark(2)
	if err := d.writeHighWatermarks(); err != nil {
		t.Fatal(err)
	}
	if got, err := vfs.ReadFile(fsys, file, 1<<20); err == nil {
		t.Fatalf("nothing has moved, and %q was written", got)
	}

	fsys.SetCapacity(fsys.Used())
	l.SetHighWatermark(3)
	if err := d.writeHighWatermarks(); err == nil {
		t.Fatal("written to a full disk")
	}
	fsys.SetCapacity(-1)
	expect("0\n1\nt 0 3\n")

	other, err := b.m.Create(kafka.TopicPartition{Topic: "u", Partition: 1}, kafka.TopicID{9}, testConfig())
	if err != nil {
		t.Fatal(err)
	}
	expect("0\n2\nt 0 3\nu 1 0\n")
	if err := b.m.Delete(other.tp, kafka.TopicID{9}); err != nil {
		t.Fatal(err)
	}
	expect("0\n1\nt 0 3\n")
	if err := l.Truncate(1); err != nil { // which is within the one batch
		t.Fatal(err)
	}
	expect("0\n1\nt 0 0\n")
	b.close()
}
