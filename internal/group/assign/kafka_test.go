package assign

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// TestAsKafka compares with what Apache Kafka 4.4.0's own assignors answered.
// testdata/kafka-4.4.0.txt holds histories of groups, one assignment to a paragraph:
//
//	uniform mixed                    the assignor; whether subscriptions are the same
//	topics 3 5                       partitions of topics 1, 2, ...
//	member m1 i1 | 1 2 | 1:0,1 | ..  id, instance; topics; owned before; and after
//
// Members and topics went in by id, where Apache Kafka takes its maps' order.
func TestAsKafka(t *testing.T) {
	text, err := os.ReadFile("testdata/kafka-4.4.0.txt")
	if err != nil {
		t.Fatal(err)
	}
	cases := strings.Split(strings.TrimSpace(string(text)), "\n\n")
	for i, c := range cases {
		assignor, spec, want := parseCase(t, c)
		got := assignor.Assign(spec)
		check(t, spec, got)
		for m := range spec.Members {
			if show(got[m]) != want[m] {
				t.Errorf("case %d:\n%s\n%s: got %s, want %s", i, c, spec.Members[m].ID, show(got[m]), want[m])
			}
		}
	}
	if len(cases) < 500 {
		t.Errorf("%d cases only", len(cases))
	}
}

func parseCase(t *testing.T, text string) (Assignor, Spec, []string) {
	t.Helper()
	lines := strings.Split(text, "\n")
	name, how, _ := strings.Cut(lines[0], " ")
	a, ok := ByName(name)
	if !ok {
		t.Fatalf("no assignor %q", name)
	}
	s := Spec{Homogeneous: how == "same"}
	var want []string
	for i, n := range strings.Fields(lines[1])[1:] {
		s.Topics = append(s.Topics, Topic{ID: topicID(i + 1), Partitions: int32(number(t, n))})
	}
	used := map[kafka.TopicID]bool{}
	for _, line := range lines[2:] {
		f := strings.Split(line, " |")
		head := strings.Fields(f[0])
		m := Member{ID: head[1], Owned: parseParts(t, f[2])}
		if head[2] != "-" {
			m.Instance = head[2]
		}
		for _, n := range strings.Fields(f[1]) {
			id := topicID(number(t, n))
			m.Topics = append(m.Topics, id)
			used[id] = true
		}
		s.Members = append(s.Members, m)
		want = append(want, strings.TrimSpace(f[3]))
	}
	topics := s.Topics
	s.Topics = nil
	for _, topic := range topics {
		if used[topic.ID] {
			s.Topics = append(s.Topics, topic)
		}
	}
	return a, s, want
}

func parseParts(t *testing.T, text string) map[kafka.TopicID][]int32 {
	t.Helper()
	out := map[kafka.TopicID][]int32{}
	for _, f := range strings.Fields(text) {
		topic, list, _ := strings.Cut(f, ":")
		for p := range strings.SplitSeq(list, ",") {
			id := topicID(number(t, topic))
			out[id] = append(out[id], int32(number(t, p)))
		}
	}
	return out
}

func number(t *testing.T, s string) int {
	t.Helper()
	n, err := strconv.Atoi(s)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// topicID is the id of the topic with a small number.
func topicID(n int) kafka.TopicID {
	return kafka.TopicID{12: byte(n >> 24), 13: byte(n >> 16), 14: byte(n >> 8), 15: byte(n)}
}

// show prints a member's part as the file has it.
func show(parts map[kafka.TopicID][]int32) string {
	var out []string
	for n := 1; n <= 4096 && len(out) < len(parts); n++ {
		if list, ok := parts[topicID(n)]; ok {
			out = append(out, fmt.Sprintf("%d:%s", n, strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ",")))
		}
	}
	return strings.Join(out, " ")
}
