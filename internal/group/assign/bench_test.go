package assign

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// large makes a group of so many members and partitions. Subscriptions are
// alike, or half of the topics by chance.
func large(members, topics, partitions int, same bool) Spec {
	r := rand.New(rand.NewPCG(1, 2))
	s := Spec{Homogeneous: same}
	for n := 1; n <= topics; n++ {
		s.Topics = append(s.Topics, Topic{ID: topicID(n), Partitions: int32(partitions / topics)})
	}
	for n := range members {
		m := Member{ID: fmt.Sprintf("m%06d", n)}
		for _, topic := range s.Topics {
			if same || topics == 1 || r.IntN(2) == 0 {
				m.Topics = append(m.Topics, topic.ID)
			}
		}
		s.Members = append(s.Members, m)
	}
	return onlySubscribed(s)
}

func BenchmarkAssign(b *testing.B) {
	for _, assignor := range []Assignor{Uniform{}, Range{}} {
		for _, same := range []bool{true, false} {
			for _, size := range []struct{ members, topics, partitions int }{
				{1000, 1, 1000}, {1000, 100, 1000}, {1000, 1000, 1000}, {1000, 100, 100000},
			} {
				how := map[bool]string{true: "same", false: "mixed"}[same]
				name := fmt.Sprintf("%s/%s/members=%d/topics=%d/partitions=%d", assignor.Name(), how, size.members, size.topics, size.partitions)
				s := large(size.members, size.topics, size.partitions, same)
				b.Run(name+"/first", func(b *testing.B) {
					for b.Loop() {
						assignor.Assign(s)
					}
				})
				settled := own(s, assignor.Assign(s))
				gone := settled
				gone.Members = gone.Members[1:]
				b.Run(name+"/leave", func(b *testing.B) {
					for b.Loop() {
						assignor.Assign(gone)
					}
				})
				worst := own(s, allToFew(s))
				b.Run(name+"/worst", func(b *testing.B) {
					for b.Loop() {
						assignor.Assign(worst)
					}
				})
			}
		}
	}
}

// allToFew gives every topic's partitions to its first subscriber.
func allToFew(s Spec) Assignment {
	a := make(Assignment, len(s.Members))
	taken := map[kafka.TopicID]bool{}
	for i, m := range s.Members {
		a[i] = map[kafka.TopicID][]int32{}
		for _, topic := range s.Topics {
			if taken[topic.ID] || !slices.Contains(m.Topics, topic.ID) {
				continue
			}
			taken[topic.ID] = true
			for p := range topic.Partitions {
				a[i][topic.ID] = append(a[i][topic.ID], p)
			}
		}
	}
	return a
}
