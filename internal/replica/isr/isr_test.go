package isr

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

func nodes(ids ...int) []kafka.NodeID {
	var out []kafka.NodeID
	for _, id := range ids {
		out = append(out, kafka.NodeID(id))
	}
	return out
}

func at(pairs ...int64) []Position {
	var out []Position
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, Position{kafka.NodeID(pairs[i]), pairs[i+1]})
	}
	return out
}

func TestHighWatermark(t *testing.T) {
	for _, c := range []struct {
		name      string
		view      View
		current   int64
		positions []Position
		want      int64
	}{
		{"a single replica follows its own position", View{nodes(1), nil, 1, 1, nil, nil, nil, 2}, 5, at(1, 9), 9},
		{"the least member decides", View{nodes(1, 2, 3), nil, 3, 2, nil, nil, nil, 2}, 0, at(1, 9, 2, 4, 3, 7), 4},
		{"a replica outside the ISR does not", View{nodes(1, 2), nil, 3, 2, nil, nil, nil, 2}, 0, at(1, 9, 2, 8, 3, 1), 8},
		{"a member on its way in counts at once", View{nodes(1, 2), nodes(1, 2, 3), 3, 2, nil, nil, nil, 2}, 0, at(1, 9, 2, 8, 3, 6), 6},
		{"a member on its way out still counts", View{nodes(1, 2, 3), nodes(1, 2), 3, 2, nil, nil, nil, 2}, 0, at(1, 9, 2, 8, 3, 6), 6},
		{"an unknown position holds the mark", View{nodes(1, 2), nil, 2, 1, nil, nil, nil, 2}, 3, at(1, 9), 3},
		{"an unknown position of a joiner holds the mark", View{nodes(1), nodes(1, 2), 2, 1, nil, nil, nil, 2}, 3, at(1, 9), 3},
		{"too small an ISR holds the mark", View{nodes(1), nil, 3, 2, nil, nil, nil, 2}, 3, at(1, 9), 3},
		{"min.insync.replicas above the replicas is the replicas", View{nodes(1), nil, 1, 3, nil, nil, nil, 2}, 3, at(1, 9), 9},
		{"the mark never goes back", View{nodes(1), nil, 1, 1, nil, nil, nil, 2}, 7, at(1, 2), 7},
		{"without an ISR nothing moves", View{nil, nil, 1, 1, nil, nil, nil, 2}, 7, at(1, 9), 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := HighWatermark(c.view, c.current, c.positions); got != c.want {
				t.Errorf("high watermark %d, want %d", got, c.want)
			}
		})
	}
}

// Whichever of the committed and the proposed ISR is the truth, every member
// of it holds all that lies below an advanced mark, and enough members do.
func TestHighWatermarkIsHeldByBothISRs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := nodes(1, 2, 3, 4, 5)
		subset := rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, 5, rapid.ID[kafka.NodeID])
		v := View{
			Committed: subset.Draw(t, "committed"),
			Proposed:  subset.Draw(t, "proposed"),
			Replicas:  5,
			MinInSync: rapid.IntRange(1, 6).Draw(t, "min"),
		}
		var ps []Position
		for _, n := range all {
			ps = append(ps, Position{n, rapid.Int64Range(-1, 20).Draw(t, "position")})
		}
		current := rapid.Int64Range(0, 20).Draw(t, "current")
		hw := HighWatermark(v, current, ps)
		if hw < current {
			t.Fatalf("mark fell from %d to %d", current, hw)
		}
		if hw == current {
			return
		}
		if len(v.Committed) < min(v.MinInSync, v.Replicas) {
			t.Fatalf("mark advanced with an ISR of %d", len(v.Committed))
		}
		for _, n := range slices.Concat(v.Committed, v.Proposed) {
			if offsetOf(ps, n) < hw {
				t.Fatalf("mark %d above member %v at %d", hw, n, offsetOf(ps, n))
			}
		}
	})
}

func TestLowWatermark(t *testing.T) {
	v := View{Committed: nodes(1, 2), Candidates: []Candidate{{Node: 3, BrokerEpoch: 9}, {Node: 4}, {Node: 5, Eligible: true}}}
	at := func(two, three, four, five int64) []Follower {
		return []Follower{{Node: 2, LogStart: two}, {Node: 3, LogStart: three}, {Node: 4, LogStart: four}, {Node: 5, LogStart: five}}
	}
	for _, c := range []struct {
		what      string
		own       int64
		followers []Follower
		want      int64
	}{
		{"alone", 5, nil, 5},
		{"its own", 5, at(6, 6, 0, 6), 5},
		{"in sync", 5, at(3, 6, 0, 6), 3},
		{"catches up", 5, at(6, 2, 0, 6), 2},
		{"unknown", 5, at(6, -1, 0, 6), -1},
		{"only one that is gone", 5, at(5, 5, -1, 5), 5},
		{"gone, and may lead when it returns", 5, at(5, 5, 5, -1), -1},
	} {
		if got := LowWatermark(v, c.own, c.followers); got != c.want {
			t.Errorf("%s: %d, want %d", c.what, got, c.want)
		}
	}
}
