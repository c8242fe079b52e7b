package etcdstore

import (
	"testing"
	"time"
)

func TestTicks(t *testing.T) {
	three := []Voter{{1, "127.0.0.1:1"}, {2, "127.0.0.2:1"}, {3, "127.0.0.3:1"}}
	for _, c := range []struct {
		what           string
		cfg            Config
		tick, election time.Duration
	}{
		{"alone", Config{Member: Member{Dir: "d"}}, 500 * time.Millisecond, 5 * time.Second},
		{"three voters", Config{Member: Member{Dir: "d", ID: 1}, Voters: three}, 100 * time.Millisecond, time.Second},
		{"set", Config{Member: Member{Dir: "d", Tick: 10 * time.Millisecond}}, 10 * time.Millisecond, 100 * time.Millisecond},
	} {
		got, err := c.cfg.withDefaults()
		if err != nil {
			t.Errorf("%s: %v", c.what, err)
			continue
		}
		if got.Member.Tick != c.tick || got.Member.Election != c.election {
			t.Errorf("%s: %v and %v, want %v and %v", c.what, got.Member.Tick, got.Member.Election, c.tick, c.election)
		}
	}
}
