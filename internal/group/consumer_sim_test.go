package group

import (
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/barnabas-mq/barnabas/internal/coord"
	"github.com/barnabas-mq/barnabas/internal/kafka"
)

var (
	simSeed  = flag.Uint64("sim.seed", 0, "run the simulation of consumer groups with this seed alone")
	simSeeds = flag.Uint64("sim.seeds", 40, "how many histories to simulate")
)

// Random histories of one group: clients that pause, die, come back, lose
// requests and answers, and take their time to give up partitions; topics that come,
// grow and go; coordinators that are replaced. At no time do two clients
// use a partition, epochs never go back, and once it calms down everybody gets their part.
func TestConsumerSim(t *testing.T) {
	if *simSeed != 0 {
		simulate(t, *simSeed)
		return
	}
	for seed := range *simSeeds {
		simulate(t, seed+1)
	}
}

const (
	simSession   = 45 * time.Second
	simRebalance = 60 * time.Second
	simBeat      = 3 * time.Second
)

// part is one partition, as clients know it.
type part struct {
	topic     kafka.TopicID
	partition int32
}

type parts map[part]bool

func (ps parts) String() string {
	var words []string
	for p := range ps {
		words = append(words, fmt.Sprintf("#%d-%d", p.topic[0], p.partition))
	}
	slices.Sort(words)
	return fmt.Sprint(words)
}

// sim is one history.
type sim struct {
	*rig
	seed    uint64
	rnd     *rand.Rand
	mixed   bool // some clients speak the classic protocol
	calm    bool
	clients []*simClient
	waiting map[coord.Token]func(body any)
	epoch   int32 // of the group
	trace   []string
}

func simulate(t *testing.T, seed uint64) {
	s := &sim{rig: newRig(t), seed: seed, rnd: rand.New(rand.NewPCG(seed, 7)), mixed: seed%3 == 0, waiting: map[coord.Token]func(any){}}
	s.now = time.Now() // with a monotonic reading
	if seed%2 == 0 {
		s.cfg.ConsumerDefaults.AssignmentInterval = time.Duration(s.rnd.IntN(5)) * time.Second
		s.m.cfg = s.cfg
	}
	for i := range 3 + s.rnd.IntN(3) {
		s.clients = append(s.clients, &simClient{sim: s, name: string(rune('a' + i))})
	}
	s.newTopic()
	for range 600 {
		s.pass()
		s.mishap()
	}
	s.calm = true
	for _, c := range s.clients {
		c.pausedTo = time.Time{}
		c.start()
	}
	for i := range 250 {
		s.pass()
		if i == 100 { // so that what was upgraded with a stale assignment gets another
			s.grow()
			for _, c := range s.clients {
				c.lookAgain()
			}
		}
	}
	s.settled()
	s.compacted()
}

func (s *sim) fatal(format string, args ...any) {
	s.t.Helper()
	for _, line := range s.trace[max(0, len(s.trace)-80):] {
		s.t.Log(line)
	}
	s.t.Fatalf("seed %d: %s\n%s", s.seed, fmt.Sprintf(format, args...), dump(s.m))
}

func (s *sim) note(format string, args ...any) {
	s.trace = append(s.trace, s.now.Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// pass lets a little time go by: timers fire, and clients act.
func (s *sim) pass() {
	end := s.now.Add(time.Duration(100+s.rnd.IntN(1500)) * time.Millisecond)
	for {
		key, at, ok := s.next()
		if !ok || at.After(end) {
			break
		}
		if at.After(s.now) {
			s.now = at
		}
		delete(s.timers, key)
		s.note("timer %s %s", timerNames[key.Kind], key.Sub)
		s.carry(s.m.Fire(s.now, key))
	}
	s.now = end
	for _, i := range s.rnd.Perm(len(s.clients)) {
		s.clients[i].act()
		s.exclusive()
	}
}

// carry does what a call of the machine asked for.
func (s *sim) carry(out coord.Out) {
	for _, rec := range out.Records {
		s.log = append(s.log, coord.Record{Key: rec.Key, Value: rec.Value})
		s.metas = append(s.metas, coord.Meta{Offset: int64(len(s.log)), Producer: coord.NoProducer})
		if b, ok := rec.Body.(*groupEpochRecord); ok {
			s.newEpoch(b)
		}
	}
	for _, t := range out.Timers {
		if t.At.IsZero() {
			delete(s.timers, t.Key)
		} else {
			s.timers[t.Key] = t.At
		}
	}
	for _, p := range out.Replies {
		then := s.waiting[p.To]
		if then == nil {
			s.fatal("answered twice, or nobody: %s", brief(p.Body))
		}
		delete(s.waiting, p.To)
		then(p.Body)
	}
}

// newEpoch: epochs go up as long as the group is a consumer group.
func (s *sim) newEpoch(b *groupEpochRecord) {
	switch {
	case b.Value == nil:
		s.epoch = 0
	case b.Value.Epoch < s.epoch:
		s.fatal("group epoch %d after %d", b.Value.Epoch, s.epoch)
	default:
		s.epoch = b.Value.Epoch
	}
}

// send hands a command to the machine; then is called with the answer, unless
// the request or the answer is lost.
func (s *sim) send(cmd coord.Command, then func(body any)) {
	chance := s.rnd.IntN(20)
	if s.calm {
		chance = 19
	}
	if chance == 0 {
		return
	}
	if chance == 1 {
		then = func(any) {}
	}
	s.tokens++
	s.waiting[s.tokens] = then
	s.carry(s.m.Step(s.now, s.tokens, cmd))
}

// mishap is what happens beside the clients' routine.
func (s *sim) mishap() {
	switch s.rnd.IntN(40) {
	case 0:
		live, fed := dump(s.m), dump(s.fed())
		if live != fed {
			s.fatal("fed the records:\n%s", fed)
		}
		s.note("reload")
		s.m = s.fed()
		clear(s.timers)
		clear(s.waiting) // their connections are gone
		s.carry(s.m.Loaded(s.now))
	case 1:
		s.newTopic()
	case 2:
		s.grow()
	case 3:
		if name := s.someTopic(); name != "" && s.rnd.IntN(3) == 0 {
			s.note("delete %s", name)
			if err := s.w.DeleteTopic(name); err != nil {
				s.fatal("%v", err)
			}
			s.tellImage()
		}
	default:
		s.clients[s.rnd.IntN(len(s.clients))].mishap()
	}
}

func (s *sim) grow() {
	name := s.someTopic()
	if name == "" {
		return
	}
	t, _ := s.w.Img.Topic(name)
	s.note("grow %s", name)
	if err := s.w.AddPartitions(name, int32(len(t.Partitions)+1+s.rnd.IntN(2))); err != nil {
		s.fatal("%v", err)
	}
	s.tellImage()
}

func (s *sim) newTopic() {
	name := "t" + strconv.Itoa(s.rnd.IntN(4))
	if _, ok := s.w.Img.Topic(name); ok {
		return
	}
	s.note("create %s", name)
	if err := s.w.CreateTopic(name, int32(1+s.rnd.IntN(6))); err != nil {
		s.fatal("%v", err)
	}
	s.tellImage()
}

func (s *sim) tellImage() { s.carry(s.m.Step(s.now, 0, &NewImage{Image: s.w.Img, Delta: &s.w.Delta})) }

func (s *sim) someTopic() string {
	var names []string
	for t := range s.w.Img.Topics() {
		names = append(names, t.Name)
	}
	if len(names) == 0 {
		return ""
	}
	if s.calm { // the last that somebody reads: what else nobody hears of
		for _, c := range s.clients {
			for _, name := range c.topics {
				if slices.Contains(names, name) {
					return name
				}
			}
		}
	}
	return names[s.rnd.IntN(len(names))]
}

// exclusive: no two clients that may trust in what they own own the same.
func (s *sim) exclusive() {
	owner := map[part]*simClient{}
	for _, c := range s.clients {
		if !c.trusts() {
			continue
		}
		for p := range c.owned {
			if o := owner[p]; o != nil {
				s.fatal("%s and %s both own #%d-%d", o.id, c.id, p.topic[0], p.partition)
			}
			owner[p] = c
		}
	}
}

// settled: the group is stable, and everybody uses their part of what they read.
func (s *sim) settled() {
	g := s.m.lookup("g")
	if g == nil || g.members.state() != "Stable" || g.members.size() != len(s.clients) {
		s.fatal("not settled")
	}
	cons, consumers := g.members.(*consumer)
	got, want := parts{}, parts{}
	for _, c := range s.clients {
		for p := range c.owned {
			got[p] = true
		}
		for t := range s.w.Img.Topics() {
			if slices.Contains(c.topics, t.Name) || c.regex != "" {
				for i := range t.Partitions {
					want[part{t.ID, int32(i)}] = true
				}
			}
		}
		if !consumers {
			continue
		}
		target := parts{}
		for id, ps := range cons.targets[c.id] {
			for _, p := range ps {
				target[part{id, p}] = true
			}
		}
		if !maps.Equal(target, c.owned) {
			s.fatal("%s owns %v, and is to have %v", c.id, c.owned, target)
		}
	}
	if !maps.Equal(got, want) {
		s.fatal("owned are %v of %v", got, want)
	}
}

// compacted: a log of which a part was compacted says the same, whether or not
// tombstones are still there; and none in any order is too much.
func (s *sim) compacted() {
	cut := s.rnd.IntN(len(s.log) + 1)
	last := map[string]int{}
	for i, rec := range s.log[:cut] {
		last[string(rec.Key)] = i
	}
	dropped := cut - s.rnd.IntN(cut+1) // tombstones of before
	m, odd := New(s.cfg, s.w.Img), New(s.cfg, s.w.Img)
	for i, rec := range s.log {
		if i < cut && (last[string(rec.Key)] != i || rec.Value == nil && i < dropped) {
			continue
		}
		if err := m.Apply(rec, s.metas[i]); err != nil {
			s.fatal("%v", err)
		}
	}
	if live, fed := dump(s.m), dump(m); live != fed {
		s.fatal("compacted up to %d, tombstones up to %d:\n%s", cut, dropped, fed)
	}
	for _, i := range s.rnd.Perm(len(s.log)) {
		if err := odd.Apply(s.log[i], s.metas[i]); err != nil {
			s.fatal("%v", err)
		}
	}
	odd.Loaded(s.now)
}
