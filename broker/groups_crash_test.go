package broker

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// workers change groups at once.
const workers = 6

// gone stands for a group that was deleted.
const gone = -1

// ledger is what clients of groups were told.
type ledger struct {
	mu     sync.Mutex
	groups map[string]account
	acks   int
}

// account is one group: what was acknowledged last, and what was asked for since
// then, which may have happened or not.
type account struct {
	offset int64 // gone: none
	maybe  []int64

	member      string // of a group with one static member
	generation  int32
	memberMaybe bool
}

// ask notes a wish, and told its end.
func (l *ledger) ask(group string, change func(*account)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.groups[group]
	a.maybe = slices.Clone(a.maybe)
	change(&a)
	l.groups[group] = a
}

func (l *ledger) told(group string, change func(*account)) {
	l.ask(group, change)
	l.mu.Lock()
	l.acks++
	l.mu.Unlock()
}

// works changes its groups until stop is closed: offsets of one, and the member of another.
func (l *ledger) works(p groupClient, rnd *rand.Rand, name string, stop <-chan struct{}) {
	offsets, members := "offsets "+name, "members "+name
	l.mu.Lock()
	next := l.groups[offsets].offset
	l.mu.Unlock()
	for {
		next++
		select {
		case <-stop:
			return
		default:
		}
		switch n := rnd.IntN(12); {
		case n == 0:
			l.ask(offsets, func(a *account) { a.maybe = append(a.maybe, gone) })
			if err := p.deletes(offsets); err == nil || errors.Is(err, kerr.GroupIDNotFound) {
				l.told(offsets, func(a *account) { a.offset, a.maybe = gone, nil })
			}
		case n == 1:
			l.ask(members, func(a *account) { a.memberMaybe = true })
			if member, generation, err := p.stable(members, 30*time.Second); err == nil {
				l.told(members, func(a *account) { a.member, a.generation, a.memberMaybe = member, generation, false })
			}
		default:
			l.ask(offsets, func(a *account) { a.maybe = append(a.maybe, next) })
			if err := p.commit(offsets, next); err == nil {
				l.told(offsets, func(a *account) { a.offset, a.maybe = next, nil })
			}
		}
	}
}

func (p groupClient) deletes(group string) error {
	req := kmsg.NewPtrDeleteGroupsRequest()
	req.Groups = []string{group}
	return kerr.ErrorForCode(ask[*kmsg.DeleteGroupsResponse](p, req).Groups[0].ErrorCode)
}

// The power goes at any moment, and takes of what was not synced whatever it
// likes: nothing that a coordinator acknowledged is missing, and nothing is there
// that nobody asked for (R5).
func TestGroupsSurvivePowerCuts(t *testing.T) {
	rounds := 20
	if testing.Short() {
		rounds = 3
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 0))
	mem := vfs.NewMem()
	set := []string{
		"log.dirs=/data", "metadata.log.dir=" + t.TempDir(), "offsets.topic.num.partitions=3", "group.initial.rebalance.delay.ms=0",
	}
	p := startBroker(t, mem, set...)
	p.createTopic("t", 1)
	g := p.groups()
	l := &ledger{groups: map[string]account{}}
	for name := range workers {
		l.groups[fmt.Sprint("offsets ", name)], l.groups[fmt.Sprint("members ", name)] = account{offset: gone}, account{offset: gone}
	}
	for round := range rounds {
		mem = l.round(g, rnd, mem)
		p.end()
		p = startBroker(t, mem, set...)
		g = p.groups()
		l.check(g)
		if t.Failed() {
			t.Fatalf("in round %d", round)
		}
	}
	t.Logf("%d acknowledgements", l.acks)
}

// round lets clients work until some time after a number of acknowledgements, and cuts the power.
func (l *ledger) round(g groupClient, rnd *rand.Rand, mem *vfs.Mem) (left *vfs.Mem) {
	stop := make(chan struct{})
	var all sync.WaitGroup
	for name := range workers {
		p, own := g.another(), rand.New(rand.NewPCG(rnd.Uint64(), 0))
		all.Go(func() { l.works(p, own, fmt.Sprint(name), stop) })
	}
	l.mu.Lock()
	enough := l.acks + 20 + rnd.IntN(150)
	l.mu.Unlock()
	survival := []vfs.Survival{vfs.LoseUnsynced, vfs.SomeUnsynced}[rnd.IntN(2)]
	var seen map[string]account
	g.until("enough happens", func() error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.acks < enough {
			return errors.New("not yet")
		}
		seen = maps.Clone(l.groups)
		left = mem.CrashClone(rnd, vfs.CrashOptions{Files: survival, Dirs: survival})
		return nil
	})
	close(stop)
	all.Wait()
	l.groups = seen
	return left
}

// check looks at what is left, and takes it for what is known from then on.
func (l *ledger) check(g groupClient) {
	g.t.Helper()
	for id, a := range l.groups {
		got, err := g.committed(id)
		if err != nil || got != a.offset && !slices.Contains(a.maybe, got) {
			g.t.Errorf("%s: offset %d, %v; %d was acknowledged, and then %v asked for", id, got, err, a.offset, a.maybe)
		}
		if a.member != "" {
			err := g.heartbeat(id, a.member, a.generation)
			if err != nil && !(a.memberMaybe && (errors.Is(err, kerr.FencedInstanceID) || errors.Is(err, kerr.RebalanceInProgress))) {
				g.t.Errorf("%s: %v for member %s in generation %d", id, err, a.member, a.generation)
			}
		}
		a.offset, a.maybe = got, nil
		l.groups[id] = a
	}
}
