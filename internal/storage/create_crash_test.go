package storage

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// TestCreateEachCrash makes a log and crashes before each change of the file
// system that this takes, and right after it, in each way. The next start opens,
// the log can be made under its id, or under another one, and holds what is
// written to it from then on; and once Create has returned, the log is there
// with its id: the metadata names its directory then.
func TestCreateEachCrash(t *testing.T) {
	for _, opts := range []vfs.CrashOptions{{}, vfs.PowerLoss, vfs.ProcessKill} {
		for at := 0; ; at++ {
			done := true
			for seed := range uint64(20) {
				done = createCrash(t, opts, at, seed) && done
			}
			if done {
				if at < 8 {
					t.Fatalf("a log is made in %d changes only", at)
				}
				break
			}
		}
	}
}

// createCrash crashes before change number at; true: all was made before.
func createCrash(t *testing.T, opts vfs.CrashOptions, at int, seed uint64) (done bool) {
	t.Helper()
	mem, rng := vfs.NewMem(), rand.New(rand.NewPCG(seed, uint64(at)))
	var after *vfs.Mem
	n := -1
	fsys := vfs.Wrap(mem, vfs.Hooks{Before: func(op vfs.Op) error {
		if !op.Kind.Changes() || n < 0 {
			return nil
		}
		if n++; n == at+1 {
			after = mem.CrashClone(rng, opts)
		}
		return nil
	}})
	b := openBox(t, fsys, managerConfig("/d"), false)
	n = 0
	b.log(testConfig())
	if done = after == nil; done {
		after = mem.CrashClone(rng, opts)
	}
	n = -1
	b.close()

	b = openBox(t, after, managerConfig("/d"), false)
	l, there := b.m.Get(testTP)
	if done && (!there || l.TopicID() != testID || l.End() != 0) {
		t.Fatalf("%+v: of a log that was made there is %v", opts, l)
	}
	if there && l.TopicID() != testID { // nobody's: what Sweep does with it
		if !l.TopicID().IsZero() {
			t.Fatalf("%+v before change %d: topic id %v", opts, at, l.TopicID())
		}
		if err := b.m.Stray(testTP); err != nil {
			t.Fatal(err)
		}
	}
	id := testID
	if seed%2 == 1 {
		id = kafka.TopicID{9}
	}
	l, err := b.m.Create(testTP, id, testConfig())
	if err != nil || l.TopicID() != id || l.End() != 0 {
		t.Fatalf("%+v before change %d: made again: %v, %v", opts, at, l, err)
	}
	b.append(l, values(1, "v")...)
	b.close()
	b = openBox(t, after, managerConfig("/d"), false)
	if l, ok := b.m.Get(testTP); !ok || l.TopicID() != id || l.End() != 1 {
		t.Fatalf("%+v before change %d: after a stop: %v", opts, at, l)
	}
	names, err := after.List("/d/" + testTP.String())
	if err != nil || slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".tmp") }) {
		t.Fatalf("%+v before change %d: files %v, %v", opts, at, names, err)
	}
	b.close()
	return done
}

// A log that is made while its indexes find no room is there after a power loss all the same.
func TestCreateWithoutRoomForIndexes(t *testing.T) {
	full := errors.Join(errors.New("no room"), vfs.ErrNoSpace)
	mem := vfs.NewMem()
	b := openBox(t, vfs.Faulty(mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpCreate && strings.HasSuffix(op.Name, "index") {
			return full
		}
		return nil
	}), managerConfig("/d"), false)
	b.log(testConfig())
	power := mem.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{})
	b.crash()
	b = openBox(t, power, managerConfig("/d"), false)
	if l, ok := b.m.Get(testTP); !ok || l.TopicID() != testID {
		t.Error("the log is gone")
	}
	b.crash()
}

// What a kill left of a new log is taken over by the next start, and named in the
// metadata: a power loss after it must not take it, though the disk was full then.
func TestHalfMadeLogOnFullDisk(t *testing.T) {
	full := errors.Join(errors.New("no room"), vfs.ErrNoSpace)
	there := 0
	for at := 0; ; at++ {
		mem, rng := vfs.NewMem(), rand.New(rand.NewPCG(1, uint64(at)))
		var killed *vfs.Mem
		n := -1
		b := openBox(t, vfs.Wrap(mem, vfs.Hooks{Before: func(op vfs.Op) error {
			if !op.Kind.Changes() || n < 0 {
				return nil
			}
			if n++; n == at+1 {
				killed = mem.CrashClone(rng, vfs.ProcessKill)
			}
			return nil
		}}), managerConfig("/d"), false)
		n = 0
		b.log(testConfig())
		n = -1
		b.close()
		if killed == nil {
			break
		}
		b = openBox(t, vfs.Faulty(killed, func(op vfs.Op) error {
			if op.Kind == vfs.OpCreate && !strings.HasSuffix(op.Name, ".log") {
				return full
			}
			return nil
		}), managerConfig("/d"), false)
		if l, ok := b.m.Get(testTP); !ok || l.TopicID() != testID {
			b.crash()
			continue
		}
		there++
		lost := killed.CrashClone(rng, vfs.CrashOptions{})
		b.crash()
		b = openBox(t, lost, managerConfig("/d"), false)
		if _, ok := b.m.Get(testTP); !ok {
			t.Errorf("killed before change %d, started on a full disk, then without power: the log is gone", at)
		}
		b.crash()
	}
	if there == 0 {
		t.Error("no kill left a log")
	}
}
