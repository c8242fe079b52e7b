package plan

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
)

// crew draws brokers, all with racks or none, the racks of one size or not.
func crew(rt *rapid.T) (hosts []Host, rackOf map[kafka.NodeID]string, even bool) {
	rackOf = map[kafka.NodeID]string{}
	racks := rapid.IntRange(0, 4).Draw(rt, "racks")
	even = rapid.Bool().Draw(rt, "racks of one size")
	n := rapid.IntRange(1, 9).Draw(rt, "brokers")
	if even && racks > 0 {
		n = racks * rapid.IntRange(1, 3).Draw(rt, "per rack")
	}
	for i := range n {
		h := Host{Node: kafka.NodeID(2*i + 1)}
		switch {
		case racks > 0 && even:
			h.Rack = fmt.Sprint("r", i%racks)
		case racks > 0:
			h.Rack = fmt.Sprint("r", rapid.IntRange(1, racks).Draw(rt, "rack"))
		}
		rackOf[h.Node] = h.Rack
		hosts = append(hosts, h)
	}
	return hosts, rackOf, even || racks == 0
}

func kindsOf(rackOf map[kafka.NodeID]string, nodes []kafka.NodeID) int {
	kinds := map[string]bool{}
	for _, n := range nodes {
		kinds[rackOf[n]] = true
	}
	return len(kinds)
}

// TestSpread: every partition has its number of replicas, on different brokers,
// in as many racks as can be; preferred leaders are even over all topics, and
// so are replicas where racks are of one size.
func TestSpread(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts, rackOf, even := crew(rt)
		factor := rapid.IntRange(1, len(hosts)).Draw(rt, "factor")
		var parts []Held
		for n := range rapid.IntRange(1, 4).Draw(rt, "topics") {
			for p := range rapid.Int32Range(1, 20).Draw(rt, "partitions") {
				parts = append(parts, Held{Topic: fmt.Sprint("t", n), Partition: p, Replicas: make([]kafka.NodeID, factor)})
			}
		}
		got, err := Spread(hosts, rapid.Permutation(parts).Draw(rt, "order"), false)
		if err != nil {
			rt.Fatal(err)
		}
		all := make([]kafka.NodeID, 0, len(hosts))
		for _, h := range hosts {
			all = append(all, h.Node)
		}
		racked := hosts[0].Rack != ""
		leads, holds := map[kafka.NodeID]int{}, map[kafka.NodeID]int{}
		for _, p := range got {
			sorted := slices.Sorted(slices.Values(p.Replicas))
			if len(slices.Compact(sorted)) != factor {
				rt.Fatalf("%s-%d stands on %v", p.Topic, p.Partition, p.Replicas)
			}
			if want := min(factor, kindsOf(rackOf, all)); racked && kindsOf(rackOf, p.Replicas) != want {
				rt.Fatalf("%s-%d stands on %v, not in %d racks", p.Topic, p.Partition, p.Replicas, want)
			}
			leads[p.Replicas[0]]++
			for _, r := range p.Replicas {
				holds[r]++
			}
		}
		level(rt, "leaders", all, leads, 1)
		if even { // an unfinished round of a topic, and of the shift, leaves at most as many as there are replicas
			level(rt, "replicas", all, holds, 2*factor)
		}
		one := Held{Topic: "x", Replicas: make([]kafka.NodeID, len(hosts)+1)}
		if _, err := Spread(hosts, []Held{one}, true); err == nil {
			rt.Fatal("more replicas than brokers are spread")
		}
	})
}

func level(rt *rapid.T, what string, all []kafka.NodeID, of map[kafka.NodeID]int, most int) {
	least, top := of[all[0]], of[all[0]]
	for _, n := range all {
		least, top = min(least, of[n]), max(top, of[n])
	}
	if top-least > most {
		rt.Fatalf("%s stand unevenly: %v", what, of)
	}
}

// TestDrain: nothing is left on the broker, nothing else moves, the place among
// the replicas stays, racks stay as far apart as they can, and what moves is
// spread over those who can take it.
func TestDrain(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts, rackOf, even := crew(rt)
		factor := rapid.IntRange(1, len(hosts)).Draw(rt, "factor")
		var parts []Held
		for p := range rapid.Int32Range(1, 60).Draw(rt, "partitions") {
			parts = append(parts, Held{Topic: "t", Partition: p, Replicas: make([]kafka.NodeID, factor)})
		}
		before, err := Spread(hosts, parts, false)
		if err != nil {
			rt.Fatal(err)
		}
		away := rapid.SampledFrom(hosts).Draw(rt, "away").Node
		moved, err := Drain(hosts, before, away)
		if factor == len(hosts) {
			if err == nil {
				rt.Fatal("there is nowhere to go, and it went")
			}
			return
		}
		if err != nil {
			rt.Fatal(err)
		}
		after := map[int32][]kafka.NodeID{}
		for _, m := range moved {
			after[m.Partition] = m.Replicas
		}
		leads, holds := map[kafka.NodeID]int{}, map[kafka.NodeID]int{}
		var rest []kafka.NodeID
		for _, h := range hosts {
			if h.Node != away {
				rest = append(rest, h.Node)
			}
		}
		for _, p := range before {
			now, moves := after[p.Partition]
			if moves != slices.Contains(p.Replicas, away) {
				rt.Fatalf("%v: moved %v", p, moves)
			}
			if !moves {
				now = p.Replicas
			}
			leads[now[0]]++
			for n, r := range now {
				holds[r]++
				if r != p.Replicas[n] && p.Replicas[n] != away || r == away {
					rt.Fatalf("%v became %v", p, now)
				}
			}
			if hosts[0].Rack != "" && kindsOf(rackOf, now) < min(kindsOf(rackOf, p.Replicas), kindsOf(rackOf, rest)) {
				rt.Fatalf("%v became %v: racks are nearer than they need be", p, now)
			}
		}
		if even && hosts[0].Rack == "" {
			level(rt, "leaders", rest, leads, 2)
			level(rt, "replicas", rest, holds, factor+1)
		}
	})
}

// Drained or about to go, a broker gets nothing new.
func TestPlacementSkips(t *testing.T) {
	var bs []*meta.Broker
	for n := range kafka.NodeID(4) {
		bs = append(bs, &meta.Broker{ID: n, StartID: "s", Dirs: []kafka.DirID{{byte(n), 1}}})
	}
	bs[1].Leaving = true
	bs[2].Cordoned = bs[2].Dirs
	keys := meta.KeysOf("c")
	img := meta.Empty("c")
	for _, b := range bs {
		img, _ = img.Apply(changeOf(keys.Broker(b.ID), b.Encode(), img.Revision()+1))
	}
	var got []kafka.NodeID
	for _, b := range active(img) {
		got = append(got, b.ID)
	}
	if !slices.Equal(got, []kafka.NodeID{0, 3}) {
		t.Errorf("new replicas go to %v", got)
	}
}

func changeOf(key string, value []byte, rev int64) kv.Change {
	return kv.Change{Rev: rev, Events: []kv.Event{{KV: kv.KV{Key: key, Value: value, CreateRev: rev, ModRev: rev, Version: 1}}}}
}
