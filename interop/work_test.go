//go:build interop && linux

package interop

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/barnabas-mq/barnabas/internal/check"
)

// monotonic is a position of the clock that all clients of a history read.
func monotonic(t *testing.T) int64 {
	t.Helper()
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		t.Fatal(err)
	}
	return ts.Nano()
}

// work is what the clients of a history get done, as far as they have written
// it down.
type work struct {
	h    *history
	read map[string]int64      // how much of each file
	done map[string]*clientDid // by the name of the client
}

// clientDid is when a client last began what it got done, of each partition what
// it wrote, and when it last ended to read records.
type clientDid struct {
	wrote          [partitions]int64
	committed, saw int64
}

func (h *history) follow() *work {
	w := &work{h: h, read: map[string]int64{}, done: map[string]*clientDid{}}
	for _, n := range h.names {
		w.done[n] = &clientDid{}
	}
	return w
}

// longestWait is how long clients may take to go on. Batches of a Java producer
// whose answers were lost, and that has had more than five later ones
// acknowledged by another leader since, are out of order there, as with Apache
// Kafka: it tries until delivery.timeout.ms, two minutes, is over.
const longestWait = 150 * time.Second

// goesOn waits until every client, from a position on, had a record of every
// partition acknowledged, committed, and read. It gives what was waited for last.
func (w *work) goesOn(since int64) (last string) {
	t := w.h.t
	t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	timeout := time.After(longestWait)
	for {
		var missing []string
		for _, n := range w.h.names {
			w.more(n)
			if m := w.done[n].missing(since); m != "" {
				missing = append(missing, n+" "+m)
			}
		}
		if len(missing) == 0 {
			return last
		}
		last = strings.Join(missing, "; ")
		select {
		case <-tick.C:
		case <-timeout:
			w.tell()
			t.Fatalf("%v after the fault not all clients work: %s", longestWait, last)
		}
	}
}

// tell shows where clients are that get nothing done, as far as they can say.
func (w *work) tell() {
	for i, n := range w.h.names {
		if n != "python" {
			continue
		}
		p := w.h.programs[i]
		if err := p.cmd.Process.Signal(unix.SIGUSR1); err != nil {
			w.h.t.Logf("%s: %v", n, err)
			continue
		}
		pause(2 * time.Second)
		w.h.t.Logf("%s tells:\n%s", n, p.log.last(150))
	}
}

func (d *clientDid) missing(since int64) string {
	var not []string
	var to []int
	for p, at := range d.wrote {
		if at < since {
			to = append(to, p)
		}
	}
	if to != nil {
		not = append(not, fmt.Sprintf("written to partitions %v", to))
	}
	if d.committed < since {
		not = append(not, "committed")
	}
	if d.saw < since {
		not = append(not, "read")
	}
	if not == nil {
		return ""
	}
	return "has not " + strings.Join(not, ", ")
}

// more takes the lines that a client has written since.
func (w *work) more(name string) {
	t := w.h.t
	t.Helper()
	f, err := os.Open(w.h.file(name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Seek(w.read[name], io.SeekStart); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	text = text[:bytes.LastIndexByte(text, '\n')+1]
	w.read[name] += int64(len(text))
	events := check.NewReader(name, bytes.NewReader(text))
	for e := (check.Event{}); ; {
		if err := events.Next(&e); err == io.EOF {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		w.done[name].take(&e)
	}
}

func (d *clientDid) take(e *check.Event) {
	switch {
	case e.Out != check.OK:
	case e.Op == check.Produce:
		d.wrote[e.Partition] = max(d.wrote[e.Partition], e.Begin)
	case e.Op == check.Commit:
		d.committed = max(d.committed, e.Begin)
	case e.Op == check.Read && slices.ContainsFunc(e.Records, func(r check.Record) bool { return r.ID != "" }):
		d.saw = max(d.saw, e.End)
	}
}
