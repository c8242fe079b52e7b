package coord

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/batch"
)

// layout prints batches: the producer, and the keys of the records.
func layout(bs []batch.Batch) string {
	var out []string
	for _, b := range bs {
		s := ""
		if b.ProducerID() >= 0 || b.Transactional() {
			s = fmt.Sprintf("%d/%d/%d%s:", b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), map[bool]string{true: "t"}[b.Transactional()])
		}
		it := batch.Records(b, 0)
		for it.Next() {
			s += string(it.Record().Key)
		}
		it.Close()
		out = append(out, s)
	}
	return strings.Join(out, " ")
}

// many puts records of so many bytes, named a, b, c ...
func many(keys string, bytes int) act {
	return func(m *toy, _ time.Time, to Token) (out Out) {
		for _, k := range keys {
			out.Records = append(out.Records, m.emit(string(k), strings.Repeat("x", bytes)))
		}
		out.Replies = []Reply{{to, nil}}
		return out
	}
}

// together hands several commands to shard 0 so that one run takes them all.
func (g *rig) together(cmds ...Command) {
	g.t.Helper()
	g.parts[0].at(atAdmit, func() { time.Sleep(time.Second) })
	all := []*going{g.start(bg, "first", look(func(_ *toy, _ time.Time, to Token) Out { return Out{Replies: []Reply{{to, nil}}} }))}
	synctest.Wait()
	for i, c := range cmds {
		all = append(all, g.start(bg, fmt.Sprint(i), c))
		synctest.Wait()
	}
	for _, o := range all {
		o.is(nil)
	}
}

func TestBatches(t *testing.T) {
	for _, c := range []struct {
		name    string
		cmds    []Command
		want    string
		appends []int
	}{
		{"what fits goes together", []Command{many("a", 100), many("bc", 100), many("d", 0)}, "abcd", []int{1}},
		{"a step is whole in a batch", []Command{many("abc", 200), many("def", 200), many("g", 10)}, "abc defg", []int{1, 1}},
		{"a larger one is cut", []Command{many("a", 10), many("bcdefghij", 200), many("k", 10)}, "a bcde fghi j k", []int{1, 3, 1}},
		{"a record that is larger alone", []Command{many("a", 10), many("bcd", 2000), many("e", 10)}, "a b c d e", []int{1, 1, 1, 1, 1}},
		{"no records", []Command{many("", 0), many("a", 10), many("", 0)}, "a", []int{1}},
		{"an append is no larger than a batch", []Command{
			many("a", 900), many("b", 900), many("c", 900), many("d", 900), many("e", 900), many("f", 900),
		}, "a b c d e f", []int{1, 1, 1, 1, 1, 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g := newRig(t, 1, func(c *Config) { c.MaxBatchBytes = 1000 })
				g.r.Elected(0, 0)
				synctest.Wait()
				g.together(c.cmds...)
				bs := g.parts[0].batches()
				if got := layout(bs); got != c.want {
					t.Errorf("batches %s, want %s", got, c.want)
				}
				if got := g.parts[0].appends(); !slices.Equal(got, c.appends) {
					t.Errorf("batches of each append %v, want %v", got, c.appends)
				}
				for _, b := range bs {
					if len(b) > 1000 && b.Count() > 1 {
						t.Errorf("a batch of %d bytes", len(b))
					}
					if ts := b.MaxTimestamp(); time.Until(time.UnixMilli(ts)).Abs() > time.Second {
						t.Errorf("timestamp %d", ts)
					}
				}
				g.agrees()
			})
		})
	}
}

// A batch ends where the producer changes (safety 22). What Out points to is the
// machine's, and may change between steps of the same run.
func TestBatchOfProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, nil)
		g.r.Elected(0, 0)
		synctest.Wait()
		var shared Producer
		txn := func(key string, p Producer) act {
			return func(m *toy, _ time.Time, to Token) Out {
				shared = p
				return Out{Records: []Record{m.emit(key, "")}, Txn: &shared, Replies: []Reply{{to, nil}}}
			}
		}
		g.together(many("a", 1), txn("b", Producer{7, 1}), txn("c", Producer{7, 1}), txn("d", Producer{7, 2}),
			txn("e", Producer{8, 2}), many("f", 1), many("g", 1), txn("h", Producer{8, 2}))
		want := "a 7/1/-1t:bc 7/2/-1t:d 8/2/-1t:e fg 8/2/-1t:h"
		if got := layout(g.parts[0].batches()); got != want {
			t.Errorf("batches %s, want %s", got, want)
		}
		if got := g.parts[0].appends(); !slices.Equal(got, []int{6}) {
			t.Errorf("batches of each append: %v", got)
		}

		// What is loaded says whose it was, and hears the markers.
		marker := batch.AppendMarker(nil, batch.Marker{ProducerID: 7, ProducerEpoch: 2, Commit: true}, 0)
		g.r.Resigned(0)
		p := g.parts[0]
		p.set(func() {
			batch.Batch(marker).SetBaseOffset(p.log.Next())
			if err := p.log.Append(marker, 4096); err != nil {
				t.Error(err)
			}
			p.hw = p.log.Next()
		})
		g.r.Elected(0, 0)
		synctest.Wait()
		if got := strings.Join(g.toy().markers, " "); got != "7/1:b 7/1:c 7/2:d 8/2:e 8/2:h 7/2=true" {
			t.Errorf("loaded: %s", got)
		}
	})
}

// Many large commands wait: a run appends no more at once than a segment holds.
func TestRunLargerThanSegment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, func(c *Config) { c.MaxBatchBytes = 10_000 })
		p := g.parts[0]
		p.set(func() { p.most = 40_000 })
		g.r.Elected(0, 0)
		synctest.Wait()
		var cmds []Command
		for i := range 100 {
			cmds = append(cmds, many(string(rune('A'+i)), 3000))
		}
		g.together(cmds...)
		g.agrees()

		// So does a step that is larger alone; nobody is answered between its parts.
		p.hold()
		step := g.start(bg, "one step", many("abcdefghijklmnopqrstuvwxyz", 3000))
		synctest.Wait()
		p.commit(p.log.Next() - 1)
		synctest.Wait()
		step.waits()
		p.free()
		step.is(nil)
		g.agrees()

		p.set(func() { p.most = 100 })
		g.refused("a record that the topic does not take", many("z", 1000), kerr.NotCoordinator)
		time.Sleep(time.Second)
		synctest.Wait()
		g.agrees()
	})
}

// Whatever the sizes, the records come out of the log as they went in.
func TestWriterRandom(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 2))
		w := writer{max: 200 + rng.IntN(2000), encoding: batch.Encoding{Codec: batch.Codec(rng.IntN(5))}}
		for range 3 {
			now := time.Now()
			w.reset(now)
			var want, got []string
			steps := 0
			for range rng.IntN(30) {
				var by *Producer
				if rng.IntN(3) == 0 {
					by = &Producer{int64(rng.IntN(2)), 0}
				}
				var recs []Record
				for range rng.IntN(6) {
					r := Record{Key: fmt.Append(nil, len(want)), Value: make([]byte, rng.IntN(300))}
					if rng.IntN(4) == 0 {
						r.Value = nil
					}
					recs = append(recs, r)
					want = append(want, fmt.Sprint(by != nil, string(r.Key), len(r.Value), r.Value == nil))
				}
				w.add(recs, by)
				if len(recs) > 0 {
					steps++
				}
			}
			appends, n, err := w.finish()
			if err != nil || n != len(want) {
				t.Fatalf("seed %d: %d records of %d: %v", seed, n, len(want), err)
			}
			for _, a := range appends {
				if first, _, err := batch.Next(a); err != nil || len(a) > batchesAtOnce*w.max && first.Size() < len(a) {
					t.Fatalf("seed %d: an append of %d bytes and more than a batch: %v", seed, len(a), err)
				}
			}
			for buf := slices.Concat(appends...); len(buf) > 0; {
				b, rest, err := batch.Next(buf)
				if err != nil || !b.CRCValid() {
					t.Fatalf("seed %d: %v", seed, err)
				}
				it := batch.Records(b, 0)
				for it.Next() {
					r := it.Record()
					got = append(got, fmt.Sprint(b.Transactional(), string(r.Key), len(r.Value), r.Value == nil))
				}
				it.Close()
				buf = rest
			}
			if !slices.Equal(got, want) {
				t.Fatalf("seed %d: %v, want %v", seed, got, want)
			}
		}
	}
}
