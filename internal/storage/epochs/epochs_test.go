package epochs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage/epochs"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// world is what a script acts on.
type world struct {
	t     *testing.T
	mem   *vfs.Mem
	trace *vfs.Trace
	fail  error
	c     *epochs.Cache
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, mem: vfs.NewMem()}
	if err := w.mem.MkdirAll("t-0"); err != nil {
		t.Fatal(err)
	}
	if err := w.mem.SyncDir("/"); err != nil {
		t.Fatal(err)
	}
	w.open()
	return w
}

func (w *world) open() {
	w.trace = &vfs.Trace{}
	faulty := vfs.Faulty(w.mem, func(op vfs.Op) error {
		if op.Kind == vfs.OpSync {
			return w.fail
		}
		return nil
	})
	w.c = epochs.New(w.trace.Wrap(faulty), "t-0", nil)
}

func (w *world) show() string {
	var b strings.Builder
	for _, e := range w.c.Entries() {
		fmt.Fprintf(&b, "%d:%d ", e.Epoch, e.Start)
	}
	if b.Len() == 0 {
		b.WriteString("empty ")
	}
	if w.c.Dirty() {
		b.WriteString("dirty ")
	}
	if w.c.Unsynced() {
		b.WriteString("unsynced ")
	}
	return strings.TrimSpace(b.String()) + "\n"
}

// Each verb is a method; the arguments are named in testdata.
var verbs = map[string]func(*world, *datadriven.TestData) string{
	"assign":              (*world).assign,
	"end-for":             (*world).endFor,
	"epoch-at":            (*world).epochAt,
	"latest":              (*world).latest,
	"in-range":            (*world).inRange,
	"truncate-from-end":   (*world).truncateFromEnd,
	"truncate-from-start": (*world).truncateFromStart,
	"clear":               (*world).clear,
	"sync":                (*world).sync,
	"fail-sync":           (*world).failSync,
	"file":                (*world).file,
	"crash":               (*world).crash,
}

func (w *world) int(d *datadriven.TestData, name string) int64 {
	var n int64
	d.ScanArgs(w.t, name, &n)
	return n
}

func (w *world) assign(d *datadriven.TestData) string {
	added, err := w.c.Assign(kafka.LeaderEpoch(w.int(d, "epoch")), w.int(d, "start"))
	if err != nil {
		return err.Error() + "\n"
	}
	if !added {
		return "known: " + w.show()
	}
	return w.show()
}

func (w *world) endFor(d *datadriven.TestData) string {
	var b strings.Builder
	for _, arg := range d.CmdArgs {
		if arg.Key != "epochs" {
			continue
		}
		for _, v := range arg.Vals {
			var asked int32
			if _, err := fmt.Sscan(v, &asked); err != nil {
				w.t.Fatal(err)
			}
			e, end := w.c.EndFor(kafka.LeaderEpoch(asked), w.int(d, "log-end"))
			fmt.Fprintf(&b, "%d -> (%d, %d)\n", asked, e, end)
		}
	}
	return b.String()
}

func (w *world) epochAt(d *datadriven.TestData) string {
	var b strings.Builder
	for _, v := range d.CmdArgs[0].Vals {
		var offset int64
		if _, err := fmt.Sscan(v, &offset); err != nil {
			w.t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d -> %d\n", offset, w.c.EpochAt(offset))
	}
	return b.String()
}

func (w *world) latest(*datadriven.TestData) string {
	e, ok := w.c.LatestEntry()
	p, pok := w.c.Previous(e.Epoch)
	return fmt.Sprintf("latest %d:%d %t, previous %d:%d %t\n", e.Epoch, e.Start, ok, p.Epoch, p.Start, pok)
}

func (w *world) inRange(d *datadriven.TestData) string {
	var b strings.Builder
	for _, e := range w.c.InRange(w.int(d, "start"), w.int(d, "end")) {
		fmt.Fprintf(&b, "%d:%d\n", e.Epoch, e.Start)
	}
	return b.String()
}

func (w *world) truncateFromEnd(d *datadriven.TestData) string {
	w.c.TruncateFromEnd(w.int(d, "end"))
	return w.show()
}

func (w *world) truncateFromStart(d *datadriven.TestData) string {
	w.c.TruncateFromStart(w.int(d, "start"))
	return w.show()
}

func (w *world) clear(*datadriven.TestData) string {
	w.c.Clear()
	return w.show()
}

func (w *world) sync(*datadriven.TestData) string {
	out := ""
	if err := w.c.Sync(); err != nil {
		out = "error: " + err.Error() + "\n"
	}
	return w.trace.Take() + out + w.show()
}

func (w *world) failSync(d *datadriven.TestData) string {
	w.fail = nil
	if d.HasArg("on") {
		w.fail = errors.New("input/output error")
	}
	return ""
}

// file shows the file, or with input sets it and loads it.
func (w *world) file(d *datadriven.TestData) string {
	if d.Input != "" {
		if err := vfs.ReplaceFile(w.mem, "t-0/"+epochs.FileName, []byte(d.Input+"\n")); err != nil {
			w.t.Fatal(err)
		}
		w.open()
		if err := w.c.Load(); err != nil {
			return err.Error() + "\n" + w.show()
		}
		return w.show()
	}
	b, err := vfs.ReadFile(w.mem, "t-0/"+epochs.FileName, 1<<20)
	if err != nil {
		return err.Error() + "\n"
	}
	return string(b)
}

func (w *world) crash(*datadriven.TestData) string {
	w.mem = w.mem.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{})
	w.open()
	if err := w.c.Load(); err != nil {
		return err.Error() + "\n"
	}
	return w.show()
}

func TestScripts(t *testing.T) {
	datadriven.Walk(t, "testdata/scripts", func(t *testing.T, path string) {
		w := newWorld(t)
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.t = t
			verb := verbs[d.Cmd]
			if verb == nil {
				d.Fatalf(t, "unknown verb %s", d.Cmd)
			}
			return verb(w, d)
		})
	})
}

// model is the list as a map of what each record was written under.
type model struct {
	records []kafka.LeaderEpoch // by offset; NoEpoch below start
	start   int
}

func (m *model) epochAt(offset int64) kafka.LeaderEpoch {
	if offset < int64(m.start) || offset >= int64(len(m.records)) {
		return kafka.NoEpoch
	}
	return m.records[offset]
}

// endFor is the definition: the end of the largest epoch at or below the asked one.
func (m *model) endFor(asked kafka.LeaderEpoch) (kafka.LeaderEpoch, int64) {
	records := m.records[m.start:]
	if len(records) == 0 || asked < 0 || asked > records[len(records)-1] {
		return kafka.NoEpoch, epochs.Undefined
	}
	if asked < records[0] {
		return asked, int64(m.start)
	}
	best, end := kafka.NoEpoch, m.start
	for i, e := range records {
		if e <= asked {
			best, end = e, m.start+i+1
		}
	}
	return best, int64(end)
}

func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		mem := vfs.NewMem()
		c := epochs.New(mem, "", nil)
		m := &model{}
		epoch := kafka.LeaderEpoch(0)
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				epoch += kafka.LeaderEpoch(rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(rt, "more"))
				if _, err := c.Assign(epoch, int64(len(m.records))); err != nil {
					rt.Fatal(err)
				}
				for range rapid.IntRange(1, 3).Draw(rt, "n") {
					m.records = append(m.records, epoch)
				}
			},
			"truncate": func(rt *rapid.T) {
				end := rapid.IntRange(m.start, len(m.records)).Draw(rt, "end")
				m.records = m.records[:end]
				c.TruncateFromEnd(int64(end))
				// A follower that cuts goes on under a newer leader.
				epoch++
			},
			"delete": func(rt *rapid.T) {
				if len(m.records) > m.start {
					m.start = rapid.IntRange(m.start, len(m.records)-1).Draw(rt, "start")
					c.TruncateFromStart(int64(m.start))
				}
			},
			"sync": func(rt *rapid.T) {
				if err := c.Sync(); err != nil {
					rt.Fatal(err)
				}
				if c.Dirty() || c.Unsynced() {
					rt.Fatal("dirty after a sync")
				}
				want := c.Entries()
				c = epochs.New(mem.CrashClone(rand.New(rand.NewPCG(1, 1)), vfs.CrashOptions{}), "", nil)
				if err := c.Load(); err != nil {
					rt.Fatal(err)
				}
				if !slices.Equal(c.Entries(), want) {
					rt.Fatalf("after a restart %v, want %v", c.Entries(), want)
				}
				mem = vfs.NewMem()
				c = epochs.New(mem, "", nil)
				for _, e := range want {
					if _, err := c.Assign(e.Epoch, e.Start); err != nil {
						rt.Fatal(err)
					}
				}
			},
			"": func(rt *rapid.T) {
				for offset := int64(m.start); offset < int64(len(m.records)); offset++ {
					if got, want := c.EpochAt(offset), m.epochAt(offset); got != want {
						rt.Fatalf("epoch at %d is %d, want %d", offset, got, want)
					}
				}
				if len(m.records) == m.start {
					return
				}
				for asked := kafka.LeaderEpoch(-1); asked <= epoch+1; asked++ {
					e, end := c.EndFor(asked, int64(len(m.records)))
					if we, wend := m.endFor(asked); e != we || end != wend {
						rt.Fatalf("end for %d is (%d, %d), want (%d, %d)", asked, e, end, we, wend)
					}
				}
			},
		})
	})
}

func TestConcurrentUse(t *testing.T) {
	c := epochs.New(vfs.NewMem(), "", nil)
	var wg sync.WaitGroup
	wg.Go(func() {
		for e := range kafka.LeaderEpoch(200) {
			if _, err := c.Assign(e, int64(e)*10); err != nil {
				t.Error(err)
			}
		}
	})
	for range 2 {
		wg.Go(func() {
			for c.Latest() < 199 {
				latest, ok := c.LatestEntry()
				if ok && c.EpochAt(latest.Start) < latest.Epoch {
					t.Errorf("epoch %d is gone", latest.Epoch)
				}
				if err := c.Sync(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if err := c.Sync(); err != nil || c.Dirty() {
		t.Fatal("dirty at the end", err)
	}
}

func TestMoved(t *testing.T) {
	m := vfs.NewMem()
	if err := m.MkdirAll("t-0"); err != nil {
		t.Fatal(err)
	}
	c := epochs.New(m, "t-0", nil)
	if _, err := c.Assign(0, 0); err != nil {
		t.Fatal(err)
	}
	if err := m.Rename("t-0", "t-0.x-delete"); err != nil {
		t.Fatal(err)
	}
	if err := c.Sync(); err == nil {
		t.Fatal("wrote into a directory that is not there")
	}
	c.Moved("t-0.x-delete")
	if err := c.Sync(); err != nil {
		t.Fatal(err)
	}
}

func BenchmarkAssignKnown(b *testing.B) {
	c := epochs.New(vfs.NewMem(), "", nil)
	_, _ = c.Assign(5, 0)
	b.ReportAllocs()
	for b.Loop() {
		_, _ = c.Assign(5, 100)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("0\n2\n0 0\n3 4711\n"))
	f.Add([]byte("0\n0\n"))
	f.Add([]byte("0\n2\n1 5\n2 5\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := epochs.Parse("f", data)
		if err != nil {
			if !errors.Is(err, vfs.ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		again, err := epochs.Parse("f", epochs.Format(got))
		if err != nil || !slices.Equal(again, got) {
			t.Fatalf("%v, %v, want %v", again, err, got)
		}
	})
}
