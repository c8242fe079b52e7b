package group

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
)

// Any history of all commands: the records alone rebuild the state, also when
// the log was compacted, and nobody is answered twice. A failure prints the
// history as a script.
func TestHistories(t *testing.T) {
	n := uint64(25)
	if testing.Short() {
		n = 5
	}
	for seed := range n {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := &story{rig: newRig(t), Rand: rand.New(rand.NewPCG(seed, 1))}
			defer func() {
				if t.Failed() {
					t.Log(strings.Join(h.lines, "\n"))
				}
			}()
			h.cfg.OffsetsRetention, h.cfg.RegexRefresh = 3*time.Hour, time.Hour
			h.cfg.ConsumerMin.Session, h.cfg.ConsumerDefaults.Session = 10*time.Second, 10*time.Second
			h.m.cfg = h.cfg
			for range 400 {
				h.play(h.line())
			}
			h.play("advance 200h") // members fall silent, and then there is nothing
			h.play("marker producer=1 abort")
			h.play("marker producer=2 abort")
			h.play("marker producer=3 abort")
			h.play("advance 200h")
			if left := dump(h.m); left != "" || len(h.m.committed.byName) > 0 || len(h.m.pending.by) > 0 || len(h.who) > 0 {
				t.Errorf("left at the end, with %v waiting:\n%s", h.who, left)
			}
		})
	}
}

type story struct {
	*rig
	*rand.Rand
	lines []string
}

func (h *story) play(line string) {
	h.t.Helper()
	line, input, _ := strings.Cut(line, "\n")
	h.lines = append(h.lines, line, input+"----\n")
	cmd, args, err := datadriven.ParseLine(line)
	if err != nil {
		h.t.Fatal(err)
	}
	defer func() {
		if p := recover(); p != nil {
			h.t.Errorf("%s: %v", line, p)
			panic(p)
		}
	}()
	verbs[cmd](h.rig, metatest.Words{D: &datadriven.TestData{Cmd: cmd, CmdArgs: args, Input: input}})
	h.check(line)
	if h.IntN(10) == 0 {
		h.checkCompacted(line)
	}
}

// checkCompacted feeds a machine what the cleaner may leave of the log.
func (h *story) checkCompacted(line string) {
	h.t.Helper()
	whole := h.rig
	log, metas := compacted(whole.log, whole.metas, h.IntN(2) == 0)
	less := *whole
	less.log, less.metas = log, metas
	if live, fed := dump(h.m), dump(less.fed()); live != fed {
		h.t.Fatalf("%s: hard state of the machine:\n%s\nand of one made of the compacted log:\n%s", line, live, fed)
	}
}

// compacted drops, below the first open transaction, what was aborted and what
// a later record of the key replaces; and tombstones without anything before.
func compacted(log []coord.Record, metas []coord.Meta, tombstones bool) (less []coord.Record, of []coord.Meta) {
	open := map[int64][]int{}
	aborted := map[int]bool{}
	for i, r := range log {
		switch p := metas[i].Producer.ID; {
		case r.Key == nil:
			if !metas[i].Transactional {
				for _, j := range open[p] {
					aborted[j] = true
				}
			}
			delete(open, p)
		case metas[i].Transactional:
			open[p] = append(open[p], i)
		}
	}
	stable := len(log)
	for _, records := range open {
		stable = min(stable, records[0])
	}
	last := map[string]int{}
	for i, r := range log[:stable] {
		if r.Key != nil && !aborted[i] {
			last[string(r.Key)] = i
		}
	}
	for i, r := range log {
		if i < stable && r.Key != nil && (last[string(r.Key)] != i || aborted[i] || tombstones && r.Value == nil) {
			continue
		}
		less, of = append(less, r), append(of, metas[i])
	}
	return less, of
}

// pick is one of all.
func pick[T any](h *story, all ...T) T { return all[h.IntN(len(all))] }

func (h *story) line() string {
	g := pick(h, "a", "a", "b", "c")
	switch h.IntN(32) {
	case 0:
		return fmt.Sprintf("topic name=%s parts=%d", pick(h, "t", "u", "v"), 1+h.IntN(4))
	case 1:
		if h.IntN(2) == 0 {
			return "delete-topic name=" + pick(h, "t", "u", "v")
		}
		return fmt.Sprintf("partitions topic=%s count=%d", pick(h, "t", "u", "v"), 2+h.IntN(6))
	case 2, 3, 4, 5, 6, 7:
		return h.classicLine(g)
	case 8, 9, 10, 11, 12, 13, 14:
		return h.consumerLine(g)
	case 15, 16, 17, 18:
		return h.commitLine(g)
	case 19, 20:
		return "marker producer=" + pick(h, "1", "2", "3") + pick(h, "", "", " abort")
	case 21:
		return "fetch g=" + g + pick(h, " all", " stable all", "\nt 0 1\nx 3\n")
	case 22:
		return fmt.Sprintf("delete-offsets g=%s\n%s 0 %d\n", g, pick(h, "t", "u"), h.IntN(4))
	case 23:
		return pick(h, "delete-group g="+g, "observe", "list-groups", "describe-group g="+g, "describe-consumer g="+g)
	case 24:
		if h.IntN(3) == 0 {
			return "reload"
		}
	case 25:
		return fmt.Sprintf("advance %dm", h.IntN(100))
	}
	return fmt.Sprintf("advance %dms", h.IntN(6000))
}

// member is one that the group knows, as a rule, and its epoch.
func (h *story) member(g string) (id string, epoch int32) {
	if group := h.m.groups[g]; group != nil && h.IntN(10) > 0 {
		switch c := group.members.(type) {
		case *classic:
			ids := slices.Concat(slices.Sorted(maps.Keys(c.members)), slices.Sorted(maps.Keys(c.pending)))
			if len(ids) > 0 {
				return pick(h, ids...), c.generation
			}
		case *consumer:
			if ids := c.ids(); len(ids) > 0 {
				id = pick(h, ids...)
				return id, c.members[id].cur.Epoch
			}
		}
	}
	return pick(h, "x", "y", "z"), int32(h.IntN(5) - 1)
}

func (h *story) classicLine(g string) string {
	id, epoch := h.member(g)
	instance := pick(h, "", "", "", " i=one", " i=two")
	switch h.IntN(8) {
	case 0, 1:
		return fmt.Sprintf("mixed-join g=%s v=%d type=%s topics=(%s) protocols=(%s)%s", g, pick(h, 3, 3, 9), pick(h, "consumer", "consumer", "consumer", "connect"),
			pick(h, "t", "t,u", "u,v"), pick(h, "range", "range,sticky"), instance)
	case 2, 3:
		return fmt.Sprintf("mixed-join g=%s m=%s topics=(%s)%s", g, id, pick(h, "t", "t,u", "u,v"), pick(h, "", instance))
	case 4, 5:
		return fmt.Sprintf("mixed-sync g=%s m=%s gen=%d assign=(%s:t:0)%s", g, id, epoch, id, pick(h, "", instance))
	case 6:
		return fmt.Sprintf("heartbeat g=%s m=%s gen=%d%s", g, id, epoch, pick(h, "", instance))
	}
	return fmt.Sprintf("leave g=%s members=(%s)", g, pick(h, id, id+"/one", "/two"))
}

func (h *story) consumerLine(g string) string {
	id, epoch := h.member(g)
	instance := pick(h, "", "", "", " i=one", " i=two")
	switch h.IntN(8) {
	case 0, 1:
		return fmt.Sprintf("beat g=%s m=%s epoch=0 %s%s%s", g, pick(h, "x", "y", "z"), pick(h, "topics=(t)", "topics=(t,u)", "topics=(v)", "regex=[tu]", "regex=v*"),
			pick(h, "", " rack=r", " assignor=range"), instance)
	case 2:
		return fmt.Sprintf("beat g=%s m=%s epoch=%d topics=(%s)", g, id, epoch, pick(h, "t", "t,u", "v"))
	case 3:
		return fmt.Sprintf("beat g=%s m=%s epoch=%d%s", g, id, pick(h, -1, -2), instance)
	case 4:
		return fmt.Sprintf("beat g=%s m=%s epoch=%d", g, id, epoch)
	}
	return fmt.Sprintf("beat g=%s m=%s epoch=%d rebalance=60s owned=%s", g, id, epoch, h.owned(g, id))
}

// owned is what the member has to keep: as if it had given up the rest.
func (h *story) owned(g, id string) string {
	var all []string
	if group := h.m.groups[g]; group != nil {
		if c, ok := group.members.(*consumer); ok && c.members[id] != nil {
			for _, t := range c.members[id].cur.Assigned {
				name := fmt.Sprintf("#%d", t.Topic[0])
				if topic, ok := h.w.Img.TopicByID(t.Topic); ok {
					name = topic.Name
				}
				for _, p := range t.Partitions {
					all = append(all, fmt.Sprintf("%s:%d", name, p))
				}
			}
		}
	}
	if len(all) == 0 {
		return "-"
	}
	return "(" + strings.Join(all, ",") + ")"
}

func (h *story) commitLine(g string) string {
	line := "commit g=" + g
	if h.IntN(2) == 0 {
		id, epoch := h.member(g)
		line += fmt.Sprintf(" m=%s gen=%d", id, epoch)
	}
	switch h.IntN(6) {
	case 0, 1:
		line += " producer=" + pick(h, "1", "2", "3")
	case 2:
		line += fmt.Sprintf(" v=4 retention=%d", h.IntN(7200_000))
	}
	line += "\n"
	for range 1 + h.IntN(3) {
		line += fmt.Sprintf("%s %d %d%s%s\n", pick(h, "t", "u", "v", "w"), h.IntN(4), h.IntN(1000), pick(h, "", " meta=m"), pick(h, "", "", " epoch=2", " id=none"))
	}
	return line
}
