package isr

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

var began = time.Unix(1_700_000_000, 0)

func after(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }

func TestKeepsUp(t *testing.T) {
	const lag = 100 * time.Millisecond
	type fetch struct {
		ms        int
		fetched   int64
		counted   int64
		leaderEnd int64
		epoch     int64
	}
	for _, c := range []struct {
		name    string
		inSync  bool
		fetches []fetch
		end     int64
		ms      int
		want    bool
	}{
		{"a member has its time when the term begins", true, nil, 10, 100, true},
		{"and no more", true, nil, 10, 101, false},
		{"one outside has none", false, nil, 10, 0, false},
		{"one that has everything always does", true, []fetch{{0, 10, 10, 10, 1}}, 10, 10_000, true},
		{"one that had everything has its time", true, []fetch{{50, 10, 10, 10, 1}}, 11, 150, true},
		{"and no more then", true, []fetch{{50, 10, 10, 10, 1}}, 11, 151, false},
		{"one that is always a flush behind keeps up", true,
			[]fetch{{50, 10, 5, 10, 1}, {100, 20, 10, 20, 1}, {150, 30, 20, 30, 1}, {200, 40, 30, 40, 1}}, 50, 240, true},
		{"one whose disk stands still does not, though it reads on", true,
			[]fetch{{50, 10, 5, 10, 1}, {100, 20, 5, 20, 1}, {150, 30, 5, 30, 1}, {200, 40, 5, 40, 1}}, 50, 240, false},
		{"what it says to have flushed is no more than what it reads at", true, []fetch{{50, 3, 10, 10, 1}}, 10, 240, false},
		{"a claim of an earlier incarnation is none", true, []fetch{{50, 4, 4, 10, 2}, {60, 10, 10, 10, 1}}, 10, 240, false},
		{"a later incarnation starts anew", true, []fetch{{50, 10, 10, 10, 1}, {60, 4, 4, 10, 2}}, 10, 151, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := Unknown(2, c.inSync, began)
			for _, x := range c.fetches {
				f = f.Fetch(Claim{Node: 2, BrokerEpoch: x.epoch, Fetched: x.fetched, Counted: x.counted}, x.leaderEnd, after(x.ms))
			}
			if got := f.KeepsUp(c.end, after(c.ms), lag); got != c.want {
				t.Errorf("keeps up %t, want %t: %+v", got, c.want, f)
			}
		})
	}
}

// Who has not heard of a term may have led the one before.
func TestHeard(t *testing.T) {
	f := unheard(2)
	if f = f.Fetch(Claim{Node: 2, BrokerEpoch: 7, Fetched: 3, Counted: 3}, 5, after(1)); f.Heard {
		t.Error("a fetch that names no epoch knows none")
	}
	if f = f.Fetch(Claim{Node: 2, BrokerEpoch: 7, Fetched: 3, Counted: 3, Knows: true}, 5, after(2)); !f.Heard {
		t.Error("it named the epoch")
	}
	if f = f.Fetch(Claim{Node: 2, BrokerEpoch: 7, Fetched: 3, Counted: 3}, 5, after(3)); !f.Heard {
		t.Error("what it knew it knows")
	}
	if f = f.Fetch(Claim{Node: 2, BrokerEpoch: 8, Fetched: 3, Counted: 3}, 5, after(4)); f.Heard {
		t.Error("another incarnation knows by itself")
	}
}

// What the incarnation before was to reach, another one does not reach for it
// (safety 9): its claim says nothing of the time before.
func TestLaterIncarnationBeginsAnew(t *testing.T) {
	f := Unknown(2, true, began).Fetch(Claim{Node: 2, BrokerEpoch: 7, Fetched: 5, Counted: 5}, 10, after(100))
	f = f.Fetch(Claim{Node: 2, BrokerEpoch: 8, Fetched: 10, Counted: 10}, 20, after(200))
	if !f.CaughtUp.Equal(began) || f.Position != 10 {
		t.Errorf("caught up %v after the term began, at %d", f.CaughtUp.Sub(began), f.Position)
	}
}

// follower is one that fetched at the beginning of the term.
func follower(node kafka.NodeID, position int64, caughtUp int) Follower {
	return Follower{Node: node, BrokerEpoch: 7, Fetched: position, Position: position, CaughtUp: after(caughtUp), Heard: true}
}

// unheard is one that knows nothing of the term, which began at began.
func unheard(node kafka.NodeID) Follower { return Unknown(node, true, began) }

func TestChange(t *testing.T) {
	may := []Candidate{{Node: 3, BrokerEpoch: 7, May: true}}
	base := Term{Self: 1, EpochStart: 5, End: 20, Position: 20, HW: 10, Lag: 100 * time.Millisecond, Session: 250 * time.Millisecond}
	for _, c := range []struct {
		name      string
		view      View
		followers []Follower
		want      []kafka.NodeID
		mark      int64
	}{
		{"all is well", View{nodes(1, 2, 3), nil, 3, 2, nil, nil, nil, 2}, []Follower{follower(2, 15, 150), follower(3, 14, 150)}, nil, 14},
		{"one lags for too long", View{nodes(1, 2, 3), nil, 3, 2, nil, nil, nil, 2}, []Follower{follower(2, 15, 150), follower(3, 14, 99)}, nodes(1, 2), 14},
		{"all lag for too long", View{nodes(1, 2, 3), nil, 3, 2, nil, nil, nil, 2}, []Follower{follower(2, 15, 90), follower(3, 14, 90)}, nodes(1), 14},
		{"one has come to the mark", View{nodes(1, 2), nil, 3, 2, may, nil, nil, 2}, []Follower{follower(2, 15, 150), follower(3, 10, 0)}, nodes(1, 2, 3), 15},
		{"one has not", View{nodes(1, 2), nil, 3, 2, may, nil, nil, 2}, []Follower{follower(2, 15, 150), follower(3, 9, 0)}, nil, 15},
		{"the mark waits for one that keeps up", View{nodes(1, 2), nil, 3, 2, may, nil, nil, 2}, []Follower{follower(2, 15, 150), follower(3, 12, 150)}, nodes(1, 2, 3), 12},
		{"and does not go back for it", View{nodes(1, 2), nil, 3, 2, may, nil, nil, 2}, []Follower{follower(2, 15, 150), follower(3, 8, 150)}, nil, 10},
		{"nor waits for one that may not", View{nodes(1, 2), nil, 3, 2, []Candidate{{Node: 3, BrokerEpoch: 7}}, nil, nil, 2}, []Follower{follower(2, 15, 150), follower(3, 12, 150)}, nil, 15},
		{"nor for another incarnation", View{nodes(1, 2), nil, 3, 2, []Candidate{{Node: 3, BrokerEpoch: 8, May: true}}, nil, nil, 2},
			[]Follower{follower(2, 15, 150), follower(3, 12, 150)}, nil, 15},
		{"one proposal at a time", View{nodes(1, 2), nodes(1), 3, 1, may, nil, nil, 2}, []Follower{follower(2, 15, 0), follower(3, 12, 150)}, nil, 12},
		{"one comes and one goes", View{nodes(1, 2), nil, 3, 1, may, nil, nil, 2}, []Follower{follower(2, 15, 0), follower(3, 12, 150)}, nodes(1, 3), 12},
		{"a former leader that lags may still lead", View{nodes(1, 2, 3), nil, 3, 2, nil, nil, nil, 2}, []Follower{follower(2, 15, 150), unheard(3)}, nil, 10},
		{"who is removed goes", View{nodes(1, 2, 3), nil, 3, 2, nil, nodes(2, 3), nil, 2}, []Follower{follower(2, 15, 150), follower(3, 9, 150)}, nodes(1), 10},
		{"and not before it knows", View{nodes(1, 2, 3), nil, 3, 2, nil, nodes(2, 3), nil, 2}, []Follower{follower(2, 15, 150), unheard(3)}, nodes(1, 3), 10},
		{"who was removed stays out", View{nodes(1, 2), nil, 3, 2, may, nodes(2, 3), nil, 2}, []Follower{follower(2, 15, 150), follower(3, 12, 150)}, nodes(1), 15},
		{"who is leaving goes", View{nodes(1, 2, 3), nil, 3, 2, nil, nil, nodes(3), 2}, []Follower{follower(2, 15, 150), follower(3, 9, 150)}, nodes(1, 2), 10},
		{"and not before it knows", View{nodes(1, 2, 3), nil, 3, 2, nil, nil, nodes(3), 2}, []Follower{follower(2, 15, 150), unheard(3)}, nil, 10},
		{"and as far as enough are left", View{nodes(1, 2, 3), nil, 3, 2, nil, nil, nodes(2, 3), 2}, []Follower{follower(2, 15, 150), follower(3, 9, 150)}, nodes(1, 3), 10},
		{"a leader outside the ISR proposes nothing", View{nodes(2), nil, 3, 1, may, nil, nil, 2}, []Follower{follower(2, 15, 0), follower(3, 12, 150)}, nil, 12},
	} {
		t.Run(c.name, func(t *testing.T) {
			term := base
			term.View, term.Followers = c.view, c.followers
			if got := term.Change(after(200)); !slices.Equal(got, c.want) {
				t.Errorf("proposes %v, want %v", got, c.want)
			}
			if got := term.Mark(after(200)); got != c.mark {
				t.Errorf("mark %d, want %d", got, c.mark)
			}
		})
	}
	over := base
	over.View, over.Followers = View{nodes(1, 2, 3), nil, 3, 2, nil, nil, nil, 2}, []Follower{follower(2, 15, 300), unheard(3)}
	if got := over.Change(after(300)); !slices.Equal(got, nodes(1, 2)) {
		t.Errorf("with a session that is over: proposes %v", got)
	}
	low := base
	low.EpochStart, low.View, low.Followers = 12, View{nodes(1, 2), nil, 3, 2, may, nil, nil, 2}, []Follower{follower(2, 15, 150), follower(3, 11, 150)}
	if got := low.Change(after(200)); got != nil {
		t.Errorf("one below the start of the term came in: %v", got)
	}
}

// What is below the mark is on the disk of every member of whichever ISR turns
// out to be the true one, whatever becomes of proposals, claims and clocks; and
// nobody waits for ever.
func TestMarkIsHeldByTheTrueISR(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const lag = 100 * time.Millisecond
		rest := nodes(2, 3, 4)
		written, flushed := map[kafka.NodeID]int64{}, map[kafka.NodeID]int64{}
		truth := nodes(1, 2, 3, 4)
		term := Term{Self: 1, Lag: lag, View: View{Committed: slices.Clone(truth), Replicas: 4, MinInSync: rapid.IntRange(1, 3).Draw(t, "min")}}
		now := began
		for _, n := range rest {
			term.Followers = append(term.Followers, Unknown(n, true, now))
		}
		candidates := func() (out []Candidate) {
			for _, n := range rest {
				if !slices.Contains(term.Committed, n) {
					out = append(out, Candidate{Node: n, BrokerEpoch: 1, May: true})
				}
			}
			return out
		}
		applied := false // the proposal on its way, although nobody knows
		node := rapid.SampledFrom(rest)
		check := func() {
			hw := term.Mark(now)
			if hw < term.HW {
				t.Fatalf("mark fell from %d to %d", term.HW, hw)
			}
			term.HW = hw
			for _, n := range truth {
				if n != 1 && flushed[n] < hw || n == 1 && term.Position < hw {
					t.Fatalf("mark %d, but member %d of the true ISR %v has %d", hw, n, truth, flushed[n])
				}
			}
		}
		for range rapid.IntRange(1, 80).Draw(t, "steps") {
			now = now.Add(time.Duration(rapid.IntRange(0, 60).Draw(t, "ms")) * time.Millisecond)
			switch rapid.IntRange(0, 7).Draw(t, "what") {
			case 0:
				term.End += int64(rapid.IntRange(1, 5).Draw(t, "records"))
			case 1:
				term.Position = term.End
			case 2:
				n := node.Draw(t, "reads")
				written[n] = term.End
			case 3:
				n := node.Draw(t, "flushes")
				flushed[n] = written[n]
			case 4:
				n := node.Draw(t, "claims")
				i := slices.IndexFunc(term.Followers, func(f Follower) bool { return f.Node == n })
				term.Followers[i] = term.Followers[i].Fetch(Claim{Node: n, BrokerEpoch: 1, Fetched: written[n], Counted: flushed[n]}, term.End, now)
			case 5:
				if next := term.Change(now); next != nil {
					term.Proposed, applied = next, false
				}
			case 6: // the store carries it out; the leader hears of that later
				if term.Proposed != nil && !applied {
					truth, applied = slices.Clone(term.Proposed), true
				}
			case 7:
				if term.Proposed != nil && (applied || rapid.Bool().Draw(t, "refused for good")) {
					if applied {
						term.Committed = slices.Clone(truth)
					}
					term.Proposed = nil
					term.Candidates = candidates()
				}
			}
			check()
		}
		// Everybody reads, flushes and claims: all come in, and all is committed.
		for range 4 {
			now = now.Add(10 * time.Millisecond)
			if term.Proposed != nil {
				truth = slices.Clone(term.Proposed)
				term.Committed, term.Proposed = slices.Clone(truth), nil
			}
			term.Candidates = candidates()
			term.Position = term.End
			for i, f := range term.Followers {
				written[f.Node], flushed[f.Node] = term.End, term.End
				term.Followers[i] = f.Fetch(Claim{Node: f.Node, BrokerEpoch: 1, Fetched: term.End, Counted: term.End}, term.End, now)
			}
			check()
			term.Proposed = term.Change(now)
		}
		if got := fmt.Sprint(term.Committed, term.HW); got != fmt.Sprint(nodes(1, 2, 3, 4), term.End) {
			t.Fatalf("in the end %s, want everybody at %d", got, term.End)
		}
	})
}
