package storage

import (
	"context"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

var rewrite = flag.Bool("rewrite", false, "write testdata anew")

// TestOrders prints the file operations of each kind of change, in their
// order, and compares them with testdata/orders.txt: a sync that is missing or
// misplaced is a difference in that file. doc.go lists the same orders.
func TestOrders(t *testing.T) {
	fsys := vfs.NewMem()
	trace := &vfs.Trace{Base: "/d"}
	cfg := managerConfig("/d")
	b := &box{tb: t, stop: func() {}}
	conf := testConfig()
	conf.SegmentBytes, conf.IndexIntervalBytes, conf.FileDeleteDelay = 1500, 300, time.Minute
	var l *Log
	seq := int32(0)
	put := func(n int) {
		for range n {
			raw := makeBatch(t, batch.Options{Producer: &batch.Producer{ID: 1, Sequence: seq}}, rec{ts: int64(seq), value: strings.Repeat("v", 200)})
			if _, err := l.Append(testAt, raw, 0, FromClient); err != nil {
				t.Fatal(err)
			}
			seq++
		}
	}
	var out strings.Builder
	step := func(name string, do func()) {
		do()
		ops := regexp.MustCompile(`[0-9a-f]{32}`).ReplaceAllString(trace.Take(), "<id>")
		fmt.Fprintf(&out, "# %s\n%s\n", name, ops)
	}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	sync := func() { check(l.Sync(context.Background())) }
	open := func(on vfs.FS) {
		b.m = New(cfg, trace.Wrap(on), testLogger(t), nil)
		check(b.m.Open(context.Background()))
	}
	step("format an empty directory", func() { open(fsys) })
	step("new log", func() { l = b.log(conf) })
	step("append: the write; then the sync, with the first epoch", func() { put(1); trace.Printf("-- sync"); sync() })
	step("append again", func() { put(1); trace.Printf("-- sync"); sync() })
	step("roll; then the sync of both segments, and the spare file", func() { put(4); trace.Printf("-- sync"); sync() })
	step("new leader epoch", func() { check(l.AssignEpoch(3, l.End())); sync() })
	step("checkpoint", func() { check(b.m.Checkpoint(context.Background())) })
	step("checkpoint when nothing changed", func() { check(b.m.Checkpoint(context.Background())) })
	step("truncate within the active segment, below the recovery point", func() {
		put(1)
		sync()
		trace.Take()
		check(l.Truncate(5))
		trace.Printf("-- sync")
		sync()
	})
	step("truncate at a segment's base, segments above", func() {
		seq = 5
		put(14)
		sync()
		trace.Take()
		check(l.Truncate(5))
		trace.Printf("-- sync")
		sync()
	})
	step("delete records", func() {
		seq = 5
		put(9)
		sync()
		l.SetHighWatermark(l.End())
		trace.Take()
		check(l.DeleteBefore(12))
	})
	step("a minute later", func() { b.m.dirs[0].deleteDue(time.Now().Add(2 * time.Minute)) })
	var crashed vfs.FS
	step("clean stop", func() {
		put(1)
		crashed = fsys.CrashClone(nil, vfs.ProcessKill)
		trace.Take()
		check(b.m.Close(7))
	})
	step("start after a clean stop", func() { open(fsys) })
	step("stop again, nothing changed", func() { check(b.m.Close(8)) })
	step("start after a kill", func() { open(crashed) })
	l = b.log(conf)
	loosen := func() { c := conf; c.Durable = false; l.SetConfig(c) }
	flushed := func() { put(1); trace.Printf("-- sync"); l.d.flusher.drain() }
	step("not durable: the first append, and its sync, which marks the log", func() { loosen(); flushed() })
	step("append again, without a sync", flushed)
	step("durable again: a sync, and the mark goes", func() { l.SetConfig(conf); l.d.flusher.drain() })
	step("not durable again, and a clean stop", func() {
		loosen()
		flushed()
		trace.Take()
		check(b.m.Close(9))
		trace.Printf("-- start")
		open(crashed)
	})
	step("delete the log", func() { check(b.m.Delete(testTP, testID)) })

	wantOrders(t, out.String())
}

// wantOrders compares with what is written down.
func wantOrders(t *testing.T, got string) {
	t.Helper()
	const name = "testdata/orders.txt"
	if *rewrite {
		if err := os.WriteFile(name, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("file operations differ from %s (go test -run TestOrders -args -rewrite):\n%s", name, diff(string(want), got))
	}
}

// diff shows the first lines that differ.
func diff(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	section := ""
	for i := range min(len(w), len(g)) {
		if strings.HasPrefix(w[i], "# ") {
			section = w[i]
		}
		if w[i] != g[i] {
			return fmt.Sprintf("%s\nwant %s\n got %s", section, strings.Join(w[i:min(i+5, len(w))], "\n     "), strings.Join(g[i:min(i+5, len(g))], "\n     "))
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}
