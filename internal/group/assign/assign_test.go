package assign

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// check fails unless every partition of a subscribed topic went to exactly one
// member that subscribes to it.
func check(t fataler, s Spec, a Assignment) {
	t.Helper()
	if len(a) != len(s.Members) {
		t.Fatalf("%d parts for %d members", len(a), len(s.Members))
	}
	subscribed := map[kafka.TopicID]bool{}
	owner := map[kafka.TopicID]map[int32]string{}
	for i, m := range s.Members {
		for _, id := range m.Topics {
			subscribed[id] = true
		}
		if a[i] == nil {
			t.Fatalf("%s has no map", m.ID)
		}
		for id, ps := range a[i] {
			if !slices.Contains(m.Topics, id) {
				t.Fatalf("%s has %v of a topic that it does not subscribe to", m.ID, ps)
			}
			if len(ps) == 0 || !slices.IsSorted(ps) {
				t.Fatalf("%s has partitions %v", m.ID, ps)
			}
			if owner[id] == nil {
				owner[id] = map[int32]string{}
			}
			for _, p := range ps {
				if other, taken := owner[id][p]; taken {
					t.Fatalf("%s and %s both have %v-%d", other, m.ID, id, p)
				}
				owner[id][p] = m.ID
			}
		}
	}
	for _, topic := range s.Topics {
		for p := range topic.Partitions {
			if _, ok := owner[topic.ID][p]; subscribed[topic.ID] && !ok {
				t.Fatalf("nobody has %v-%d", topic.ID, p)
			}
		}
		if n := len(owner[topic.ID]); n > int(topic.Partitions) {
			t.Fatalf("%d partitions of %d", n, topic.Partitions)
		}
	}
}

type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

func sizes(a Assignment) []int {
	out := make([]int, len(a))
	for i, parts := range a {
		for _, ps := range parts {
			out[i] += len(ps)
		}
	}
	return out
}

// moves counts the partitions that somebody in the group owned and another has now.
func moves(s Spec, a Assignment) (n int) {
	for i, m := range s.Members {
		for id, ps := range m.Owned {
			for _, p := range ps {
				if !slices.Contains(a[i][id], p) {
					n++
				}
			}
		}
	}
	return n
}

// own makes an assignment what the members owned before.
func own(s Spec, a Assignment) Spec {
	s.Members = slices.Clone(s.Members)
	for i := range s.Members {
		s.Members[i].Owned = a[i]
	}
	return s
}

func TestTable(t *testing.T) {
	same := func(members ...string) Spec { return spec(t, true, "", members...) }
	for _, c := range []struct {
		name, assignor string
		spec           Spec
		want           string
	}{
		{"nobody", "uniform", Spec{Homogeneous: true}, ""},
		{"nobody, range", "range", Spec{Homogeneous: true}, ""},
		{"no topic", "uniform", same("a - | |"), "a"},
		{"first member", "uniform", spec(t, true, "3 2", "a - | 1 2 |"), "a 1:0,1,2 2:0,1"},
		{"second member takes half", "uniform", spec(t, true, "4", "a - | 1 | 1:0,1,2,3", "b - | 1 |"), "a 1:0,1; b 1:2,3"},
		{"more members than partitions", "uniform", spec(t, true, "1", "a - | 1 |", "b - | 1 | 1:0", "c - | 1 |"), "a; b 1:0; c"},
		{"one left", "uniform", spec(t, true, "5", "a - | 1 | 1:0,1", "c - | 1 | 1:4"), "a 1:0,1; c 1:2,3,4"},
		{"unsubscribed", "uniform", spec(t, true, "0 2", "a - | 2 | 1:0 2:1", "b - | 2 | 1:1"), "a 2:1; b 2:0"},
		{"beyond the end", "uniform", spec(t, true, "2", "a - | 1 | 1:0,7", "b - | 1 |"), "a 1:0; b 1:1"},
		{"owned twice", "uniform", spec(t, true, "2", "a - | 1 | 1:0,1", "b - | 1 | 1:0,1"), "a 1:0; b 1:1"},
		{"mixed, who can only read one topic has it", "uniform",
			spec(t, false, "2 2", "a - | 1 2 |", "b - | 2 |"), "a 1:0,1; b 2:0,1"},
		{"mixed, no subscription", "uniform", spec(t, false, "2", "a - | 1 |", "b - | | 1:1"), "a 1:0,1; b"},
		{"range, what does not divide", "range", spec(t, true, "5 2", "a - | 1 2 |", "b - | 1 2 |", "c - | 1 2 |"),
			"a 1:0,1 2:0; b 1:2,3 2:1; c 1:4"},
		{"range, static members first", "range", spec(t, true, "3", "a - | 1 |", "b i2 | 1 |", "c i1 | 1 |"), "a 1:2; b 1:1; c 1:0"},
		{"range, a new member id of an instance", "range", spec(t, true, "3", "a - | 1 |", "b i2 | 1 |", "z i1 | 1 |"), "a 1:2; b 1:1; z 1:0"},
		{"range, mixed", "range", spec(t, false, "4 4", "a - | 1 |", "b - | 1 2 |", "c - | 2 |"), "a 1:0,1; b 1:2,3 2:0,1; c 2:2,3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, _ := ByName(c.assignor)
			got := a.Assign(c.spec)
			check(t, c.spec, got)
			if s := showAll(c.spec, got); s != c.want {
				t.Errorf("got  %s\nwant %s", s, c.want)
			}
		})
	}
}

// spec makes one from lines as in the file of TestAsKafka.
func spec(t *testing.T, same bool, topics string, members ...string) Spec {
	t.Helper()
	how := map[bool]string{true: "same", false: "mixed"}[same]
	text := "uniform " + how + "\ntopics " + topics
	for _, m := range members {
		text += "\nmember " + m + " |"
	}
	_, s, _ := parseCase(t, text)
	return s
}

func showAll(s Spec, a Assignment) string {
	var out []string
	for i, m := range s.Members {
		out = append(out, strings.TrimSpace(m.ID+" "+show(a[i])))
	}
	return strings.Join(out, "; ")
}

func TestByName(t *testing.T) {
	for _, name := range []string{"uniform", "range"} {
		if a, ok := ByName(name); !ok || a.Name() != name {
			t.Errorf("ByName(%q) = %v, %v", name, a, ok)
		}
	}
	if _, ok := ByName("roundrobin"); ok {
		t.Error("found an assignor that is not there")
	}
}

// group draws members, topics, and an arbitrary assignment before.
func group(t *rapid.T, same, racks bool) Spec {
	s := Spec{Homogeneous: same}
	rack := rapid.SampledFrom([]string{"", "x", "y", "z"})
	var ids []kafka.TopicID
	for n := 1; n <= rapid.IntRange(1, 6).Draw(t, "topics"); n++ {
		topic := Topic{ID: topicID(n), Partitions: rapid.Int32Range(1, 20).Draw(t, "partitions")}
		for range topic.Partitions {
			if racks {
				topic.Racks = append(topic.Racks, rapid.SliceOfN(rapid.SampledFrom([]string{"x", "y", "z"}), 0, 2).Draw(t, "racks"))
			}
		}
		s.Topics = append(s.Topics, topic)
		ids = append(ids, topic.ID)
	}
	for n := range rapid.IntRange(1, 9).Draw(t, "members") {
		m := Member{ID: fmt.Sprint("m", n), Topics: ids, Owned: map[kafka.TopicID][]int32{}}
		if !same {
			m.Topics = slices.DeleteFunc(slices.Clone(ids), func(kafka.TopicID) bool { return rapid.Bool().Draw(t, "unsubscribed") })
		}
		if racks {
			m.Rack = rack.Draw(t, "rack")
		}
		s.Members = append(s.Members, m)
	}
	for _, topic := range s.Topics {
		for p := range topic.Partitions {
			if m := rapid.IntRange(-1, len(s.Members)-1).Draw(t, "owner"); m >= 0 {
				s.Members[m].Owned[topic.ID] = append(s.Members[m].Owned[topic.ID], p)
			}
		}
	}
	return onlySubscribed(s)
}

// onlySubscribed leaves out topics that nobody subscribes to, as a Spec does.
func onlySubscribed(s Spec) Spec {
	s.Topics = slices.DeleteFunc(slices.Clone(s.Topics), func(topic Topic) bool {
		return !slices.ContainsFunc(s.Members, func(m Member) bool { return slices.Contains(m.Topics, topic.ID) })
	})
	return s
}

// TestEven: the same subscriptions; sizes differ by one at most, no assignment
// with such sizes moves fewer, and done again nothing moves.
func TestEven(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := group(t, true, rapid.Bool().Draw(t, "racks"))
		a := Uniform{}.Assign(s)
		checkEven(t, s, a)
		next := own(s, a)
		checkSettled(t, next)
		// One member comes, or one goes, and some partitions are added.
		if len(next.Members) > 1 && rapid.Bool().Draw(t, "leave") {
			i := rapid.IntRange(0, len(next.Members)-1).Draw(t, "leaver")
			next.Members = slices.Delete(next.Members, i, i+1)
			b := Uniform{}.Assign(next)
			checkEven(t, next, b)
			if n := moves(next, b); n != 0 {
				t.Fatalf("%d partitions moved between those who stayed", n)
			}
			return
		}
		i := rapid.IntRange(0, len(next.Members)).Draw(t, "joiner")
		next.Members = slices.Insert(next.Members, i, Member{ID: "new", Topics: next.Members[0].Topics})
		b := Uniform{}.Assign(next)
		checkEven(t, next, b)
		if n := moves(next, b); n != sizes(b)[i] {
			t.Fatalf("%d partitions moved for a new member that has %d", n, sizes(b)[i])
		}
	})
}

func checkEven(t *rapid.T, s Spec, a Assignment) {
	t.Helper()
	check(t, s, a)
	got := sizes(a)
	if slices.Max(got)-slices.Min(got) > 1 {
		t.Fatalf("sizes %v", got)
	}
	all := 0
	for _, topic := range s.Topics {
		all += int(topic.Partitions)
	}
	least, extra := all/len(got), all%len(got)
	need := 0
	for _, n := range sizes(ownedOf(s)) {
		if n > least && extra > 0 {
			extra--
			n--
		}
		need += max(0, n-least)
	}
	if n := moves(s, a); n != need {
		t.Fatalf("%d partitions moved, and %d had to", n, need)
	}
}

func ownedOf(s Spec) (a Assignment) {
	for _, m := range s.Members {
		a = append(a, m.Owned)
	}
	return a
}

// checkSettled fails if an assignment of s, whose members own what they were
// assigned, is not what they own, to the very map.
func checkSettled(t *rapid.T, s Spec) {
	t.Helper()
	a := Uniform{}.Assign(s)
	for i, m := range s.Members {
		if !maps.EqualFunc(a[i], m.Owned, slices.Equal) {
			t.Fatalf("%s had %v, and has %v", m.ID, m.Owned, a[i])
		}
		if len(a[i]) > 0 {
			a[i][topicID(99)] = nil
			if len(m.Owned) != len(a[i]) {
				t.Fatalf("%s did not change and has another map", m.ID)
			}
			delete(a[i], topicID(99))
		}
	}
}

// TestMixed: different subscriptions; no subscriber of a topic has two more
// than another and a partition of the topic to give it, and done again nothing moves.
func TestMixed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := group(t, false, rapid.Bool().Draw(t, "racks"))
		a := Uniform{}.Assign(s)
		checkMixed(t, s, a)
		next := own(s, a)
		checkSettled(t, next)
		if len(next.Members) > 1 && rapid.Bool().Draw(t, "leave") {
			i := rapid.IntRange(0, len(next.Members)-1).Draw(t, "leaver")
			next.Members = slices.Delete(next.Members, i, i+1)
		} else {
			m := Member{ID: "new"}
			for _, topic := range next.Topics {
				m.Topics = append(m.Topics, topic.ID)
			}
			next.Members = append(next.Members, m)
		}
		next = onlySubscribed(next)
		checkMixed(t, next, Uniform{}.Assign(next))
	})
}

func checkMixed(t *rapid.T, s Spec, a Assignment) {
	t.Helper()
	check(t, s, a)
	got := sizes(a)
	for i := range s.Members {
		for j, other := range s.Members {
			for id, ps := range a[i] {
				if len(ps) > 0 && slices.Contains(other.Topics, id) && got[i]-got[j] > 1 {
					t.Fatalf("%d has %d partitions, some of %v; %d reads it too and has %d", i, got[i], id, j, got[j])
				}
			}
		}
	}
}

// TestRacksCostNothing: with racks, members have as many partitions as without,
// and no more of them moved; and never fewer are near their readers, summed up.
func TestRacksCostNothing(t *testing.T) {
	near, nearBefore := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		s := group(t, rapid.Bool().Draw(t, "same"), true)
		blind := s
		blind.Members = slices.Clone(s.Members)
		for i := range blind.Members {
			blind.Members[i].Rack = ""
		}
		a, b := Uniform{}.Assign(s), Uniform{}.Assign(blind)
		check(t, s, a)
		if got, want := sizes(a), sizes(b); !slices.Equal(got, want) {
			t.Fatalf("sizes %v, without racks %v", got, want)
		}
		if got, want := moves(s, a), moves(s, b); got > want {
			t.Fatalf("%d moves, without racks %d", got, want)
		}
		near += countNear(s, a)
		nearBefore += countNear(s, b)
	})
	t.Logf("near: %d, without looking at racks %d", near, nearBefore)
	if near <= nearBefore {
		t.Errorf("racks did not help: %d near, %d without", near, nearBefore)
	}
}

func countNear(s Spec, a Assignment) (n int) {
	for i, m := range s.Members {
		for _, topic := range s.Topics {
			for _, p := range a[i][topic.ID] {
				if slices.Contains(topic.Racks[p], m.Rack) {
					n++
				}
			}
		}
	}
	return n
}

func TestRacks(t *testing.T) {
	s := spec(t, true, "4", "a - | 1 | 1:0,1,2,3", "b - | 1 |")
	s.Members[0].Rack, s.Members[1].Rack = "x", "y"
	s.Topics[0].Racks = [][]string{{"y"}, {"x"}, {"y", "z"}, {"x"}}
	if got, want := showAll(s, Uniform{}.Assign(s)), "a 1:1,3; b 1:0,2"; got != want {
		t.Errorf("a gives up what is not near: got %s, want %s", got, want)
	}
	for _, same := range []bool{true, false} {
		s := spec(t, same, "4", "a - | 1 |", "b - | 1 |", "c - | 1 |")
		s.Members[0].Rack, s.Members[1].Rack = "x", "y"
		s.Topics[0].Racks = [][]string{{"y"}, {"z"}, {"x"}, {"z"}}
		if got, want := countNear(s, Uniform{}.Assign(s)), 2; got != want {
			t.Errorf("same %v: %d near, want %d", same, got, want)
		}
	}
}

// TestRangeKeepsNumbersTogether: partitions of one number go to one member, of
// all topics with the same number of partitions and the same subscribers.
func TestRangeKeepsNumbersTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := group(t, rapid.Bool().Draw(t, "same"), false)
		a := Range{}.Assign(s)
		check(t, s, a)
		subscribers := func(id kafka.TopicID) (out []int) {
			for i, m := range s.Members {
				if slices.Contains(m.Topics, id) {
					out = append(out, i)
				}
			}
			return out
		}
		for _, x := range s.Topics {
			for _, y := range s.Topics {
				if x.Partitions != y.Partitions || !slices.Equal(subscribers(x.ID), subscribers(y.ID)) {
					continue
				}
				for i := range a {
					if !slices.Equal(a[i][x.ID], a[i][y.ID]) {
						t.Fatalf("member %d has %v and %v", i, a[i][x.ID], a[i][y.ID])
					}
				}
			}
		}
		again := own(s, a)
		if b := (Range{}).Assign(again); moves(again, b) != 0 {
			t.Fatalf("done again, %d partitions moved", moves(again, b))
		}
	})
}
