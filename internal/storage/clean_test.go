package storage

import (
	"testing"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// A clean mark counts in the directory that it was written for, and says in
// which life of the broker that was (safety 11). One that was copied from another
// directory says nothing of this one's logs.
func TestCleanMarkOfADirectory(t *testing.T) {
	fsys := vfs.NewMem()
	a := openBox(t, fsys, managerConfig("/a"), false)
	a.append(a.log(testConfig()), values(1, "v")...)
	a.close()
	mark, err := vfs.ReadFile(fsys, "/a/"+cleanName, maxMetaBytes)
	if err != nil {
		t.Fatal(err)
	}
	b := openBox(t, fsys, managerConfig("/b"), false)
	b.append(b.log(testConfig()), values(1, "v")...)
	b.crash()
	write(t, fsys, "/b/"+cleanName, string(mark))
	for dir, want := range map[string]bool{"/a": true, "/b": false} {
		again := openBox(t, fsys, managerConfig(dir), false)
		if d := again.m.Dirs()[0]; d.Clean != want || want && d.CleanEpoch != 7 {
			t.Errorf("%s: clean %t of epoch %d", dir, d.Clean, d.CleanEpoch)
		}
		again.crash()
	}
}
