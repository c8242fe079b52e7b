package producers_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/storage/producers"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// world is what a script acts on: a state, and the log's end, to which batches
// are appended.
type world struct {
	t     *testing.T
	s     *producers.State
	end   int64
	now   time.Time
	fs    *vfs.Mem
	guard map[string]*producers.Guard
}

var start = time.UnixMilli(1_000_000)

func newWorld(t *testing.T) *world {
	return &world{t: t, s: producers.New(time.Hour), now: start, fs: vfs.NewMem(), guard: map[string]*producers.Guard{}}
}

// Each verb is a method; a line of input is one batch where a verb takes batches.
var verbs = map[string]func(*world, *datadriven.TestData) string{
	"append":         (*world).append,
	"fail":           (*world).fail,
	"verify":         (*world).verify,
	"show":           (*world).show,
	"unstable":       (*world).unstable,
	"high-watermark": (*world).highWatermark,
	"log-start":      (*world).logStart,
	"wait":           (*world).wait,
	"expire":         (*world).expire,
	"snapshot":       (*world).snapshot,
	"restart":        (*world).restart,
	"reset":          (*world).reset,
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

func (w *world) int(d *datadriven.TestData, name string) int64 {
	var n int64
	d.ScanArgs(w.t, name, &n)
	return n
}

func (w *world) options(d *datadriven.TestData) producers.Options {
	o := producers.Options{Now: w.now}
	for _, arg := range d.CmdArgs {
		switch arg.Key {
		case "coordinator":
			o.Origin = producers.FromCoordinator
		case "replication":
			o.Origin = producers.FromReplication
		case "tv2":
			o.TxnVersion = 2
		case "must-verify":
			o.RequireVerification = true
		case "guard":
			o.RequireVerification = true
			o.Guard = w.guard[arg.Vals[0]]
		}
	}
	return o
}

// batch parses "p1 e0 0..2 [txn] [ts=5]", "p1 e0 commit c3", "p1 e0 emptied" or "plain 3".
func (w *world) batch(line string) producers.Batch {
	f := strings.Fields(line)
	b := producers.Batch{ProducerID: -1, Epoch: -1, FirstSeq: -1, LastSeq: -1, FirstOffset: w.end, LastOffset: w.end, TimestampMs: w.now.UnixMilli()}
	scan := func(s, format string, args ...any) {
		if _, err := fmt.Sscanf(s, format, args...); err != nil {
			w.t.Fatalf("%q: %v", line, err)
		}
	}
	if f[0] == "plain" {
		var n int64
		scan(f[1], "%d", &n)
		b.LastOffset += n - 1
		return b
	}
	scan(f[0], "p%d", &b.ProducerID)
	scan(f[1], "e%d", &b.Epoch)
	switch f[2] {
	case "commit", "abort":
		b.Control, b.Transactional = true, true
		b.Marker.Commit = f[2] == "commit"
		scan(f[3], "c%d", &b.Marker.CoordinatorEpoch)
		return b
	case "emptied":
		b.Control, b.Transactional, b.MarkerMissing = true, true, true
		return b
	}
	scan(f[2], "%d..%d", &b.FirstSeq, &b.LastSeq)
	n := int64(b.LastSeq) - int64(b.FirstSeq)
	if n < 0 {
		n += 1 << 31
	}
	b.LastOffset += n
	for _, opt := range f[3:] {
		if opt == "txn" {
			b.Transactional = true
			continue
		}
		scan(opt, "ts=%d", &b.TimestampMs)
	}
	return b
}

func (w *world) batches(input string) []producers.Batch {
	var out []producers.Batch
	end := w.end
	defer func() { w.end = end }()
	for line := range strings.Lines(input) {
		b := w.batch(line)
		out = append(out, b)
		w.end = b.LastOffset + 1
	}
	return out
}

func (w *world) append(d *datadriven.TestData) string { return w.write(d, true) }

// fail analyzes as append does, and then the write fails.
func (w *world) fail(d *datadriven.TestData) string { return w.write(d, false) }

func (w *world) write(d *datadriven.TestData, works bool) string {
	batches := w.batches(d.Input)
	u, err := w.s.Analyze(batches, w.options(d))
	if err != nil {
		var code *kerr.Error
		if !errors.As(err, &code) {
			w.t.Fatalf("no protocol error in %v", err)
		}
		return strings.TrimSuffix(err.Error(), code.Error()) + code.Message + "\n"
	}
	if u.Duplicate && u.First < 0 {
		return fmt.Sprintf("duplicate of what is not above %d\n", u.Last)
	}
	if u.Duplicate {
		return fmt.Sprintf("duplicate of %d..%d\n", u.First, u.Last)
	}
	var b strings.Builder
	if works {
		first := w.end
		w.end = batches[len(batches)-1].LastOffset + 1
		w.s.Apply(u)
		fmt.Fprintf(&b, "wrote %d..%d\n", first, w.end-1)
	}
	for _, c := range u.Completed {
		outcome := "committed"
		if c.Aborted {
			outcome = "aborted"
		}
		fmt.Fprintf(&b, "p%d %d..%d %s, stable %d\n", c.ProducerID, c.FirstOffset, c.LastOffset, outcome, c.LastStableOffset)
	}
	return b.String()
}

func (w *world) verify(d *datadriven.TestData) string {
	var name string
	d.ScanArgs(w.t, "guard", &name)
	g, err := w.s.StartVerification(w.int(d, "p"), int16(w.int(d, "e")), int32(w.int(d, "seq")), d.HasArg("tv2"), w.now)
	if err != nil {
		return err.Error() + "\n"
	}
	if g == nil {
		return "open already\n"
	}
	same := ""
	for other, o := range w.guard {
		if o == g && other != name {
			same = ", the same as " + other
		}
	}
	w.guard[name] = g
	return "guard" + same + "\n"
}

func (w *world) show(*datadriven.TestData) string {
	var b strings.Builder
	for _, e := range w.s.Entries() {
		fmt.Fprintf(&b, "p%d e%d", e.ProducerID, e.Epoch)
		for _, l := range e.Batches() {
			fmt.Fprintf(&b, " %d..%d@%d..%d", l.FirstSeq(), l.LastSeq, l.FirstOffset(), l.LastOffset)
		}
		if e.InTransaction() {
			fmt.Fprintf(&b, " txn@%d", e.TxnFirstOffset)
		}
		if e.CoordinatorEpoch != producers.None {
			fmt.Fprintf(&b, " c%d", e.CoordinatorEpoch)
		}
		fmt.Fprintf(&b, " ts=%d\n", e.LastTimestampMs)
	}
	fmt.Fprintf(&b, "end %d\n", w.s.End())
	return b.String()
}

func (w *world) unstable(d *datadriven.TestData) string {
	_, oldest, ts, ok := w.s.OldestOpen()
	return fmt.Sprintf("unstable %d, undecided %d, oldest open %d ts=%d %t\n",
		w.s.FirstUnstable(w.int(d, "hw")), w.s.FirstUndecided(), oldest, ts, ok)
}

func (w *world) highWatermark(d *datadriven.TestData) string {
	w.s.AdvanceHighWatermark(w.int(d, "hw"))
	return ""
}

func (w *world) logStart(d *datadriven.TestData) string {
	w.s.AdvanceStart(w.int(d, "at"))
	w.end = max(w.end, w.s.End())
	return ""
}

func (w *world) wait(d *datadriven.TestData) string {
	var s string
	d.ScanArgs(w.t, "for", &s)
	by, err := time.ParseDuration(s)
	if err != nil {
		w.t.Fatal(err)
	}
	w.now = w.now.Add(by)
	return ""
}

func (w *world) expire(d *datadriven.TestData) string {
	n, done := w.s.Expire(w.now, int(w.int(d, "limit")))
	return fmt.Sprintf("forgot %d, round complete %t, left %d\n", n, done, w.s.Len())
}

func (w *world) snapshot(*datadriven.TestData) string {
	if !w.s.SnapshotDue() {
		return "not due\n"
	}
	if err := producers.Save(w.fs, "", w.s.End(), w.s.Snapshot()); err != nil {
		return err.Error() + "\n"
	}
	return producers.FileName(w.s.End()) + "\n"
}

// restart loads the newest snapshot at or below an offset.
func (w *world) restart(d *datadriven.TestData) string {
	l, err := producers.LoadNewest(w.fs, "", 0, w.int(d, "at"))
	if err != nil {
		return err.Error() + "\n"
	}
	w.s = producers.New(time.Hour)
	w.s.Restore(l.Entries, l.Offset, w.now)
	w.end = l.Offset
	return fmt.Sprintf("found %t at %d\n", l.Found, l.Offset)
}

func (w *world) reset(d *datadriven.TestData) string {
	w.s.Reset(w.int(d, "at"))
	w.end = w.s.End()
	return ""
}
