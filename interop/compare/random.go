//go:build interop

package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// randomRun is a history of random administrative requests, all of which are
// made from the seed and the number of the request alone: any selection of
// them can be sent again.
type randomRun struct {
	seed    uint64
	out     io.Writer
	sides   [2]*side
	common  map[int16]bool // keys that both advertise
	born    map[string][]int
	nonce   [4]byte
	startMs int64
	silent  bool
	verbose bool // whole answers

	asked   map[string]int // requests by API
	met     map[int]int    // accepted differences, by their place in the list
	retried int            // reads that agreed when asked again
	differ  []difference
}

// difference is a request whose answers differ without an accepted reason.
type difference struct {
	number   int
	question string
	lines    []line
}

func newRandomRun(a, b string, seed uint64, out io.Writer) (*randomRun, error) {
	r := &randomRun{seed: seed, out: out, asked: map[string]int{}, met: map[int]int{}}
	for i, addr := range []string{a, b} {
		s, err := newSide(addr)
		if err != nil {
			return nil, err
		}
		r.sides[i] = s
	}
	r.common = map[int16]bool{}
	for key := range r.sides[0].keys {
		r.common[key] = r.sides[1].keys[key]
	}
	return r, nil
}

func (r *randomRun) close() {
	for _, s := range r.sides {
		s.close()
	}
}

// play sends the requests of the given numbers to two brokers that it cleans
// before, and stops after so many differences.
func (r *randomRun) play(numbers []int, atMost int) error {
	r.differ = nil
	if err := r.clean(); err != nil {
		return err
	}
	r.born = map[string][]int{}
	r.startMs = time.Now().UnixMilli()
	binary.BigEndian.PutUint32(r.nonce[:], rand.Uint32())
	for _, n := range numbers {
		for _, s := range r.sides {
			s.step, s.born = fmt.Sprint(n), r.born
		}
		if err := r.step(n); err != nil {
			return fmt.Errorf("request %d of seed %d: %w", n, r.seed, err)
		}
		for _, name := range names {
			_, one := r.sides[0].topicID(name, n)
			_, two := r.sides[1].topicID(name, n)
			if one && two {
				r.born[name] = append(r.born[name], n)
			}
		}
		if len(r.differ) >= atMost {
			break
		}
	}
	return r.clean()
}

func (r *randomRun) clean() error {
	return r.both(func(_ int, s *side) error {
		s.step = "start"
		return s.clean()
	})
}

// both does something at both brokers at once.
func (r *randomRun) both(f func(int, *side) error) error {
	var errs [2]error
	var wg sync.WaitGroup
	for i, s := range r.sides {
		wg.Go(func() { errs[i] = s.try(func() error { return f(i, s) }) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("broker %c: %w", 'a'+i, err)
		}
	}
	return nil
}

// step is one request: both are asked, the answers are compared, and what it
// changed is waited for.
func (r *randomRun) step(n int) error {
	q := r.question(n)
	if q == nil {
		return nil
	}
	r.asked[q.api]++
	text, err := r.ask(q)
	if err != nil {
		return err
	}
	for again := 0; again < readTries && q.reads && len(r.unexplained(q.api, text)) > 0; again++ {
		r.retried++
		if err := r.both(func(_ int, s *side) error { return s.barrier() }); err != nil {
			return err
		}
		if text, err = r.ask(q); err != nil {
			return err
		}
	}
	lines := r.unexplained(q.api, text)
	differs := text[0] != text[1]
	if len(lines) > 0 {
		r.found(n, text, lines)
	}
	if q.reads || !differs && !q.mayHaveChanged(text[0]) {
		return nil
	}
	return r.settle(n, q, text[0], differs)
}

// mayHaveChanged tells whether an answer admits that something is now
// otherwise, of the kind that a broker learns later than it answers.
func (q *question) mayHaveChanged(text string) bool {
	switch q.api {
	case "Produce", "OffsetCommit", "OffsetDelete", "DeleteGroups", "DeleteRecords":
		return false // the answer comes when it is done, and says all
	}
	question, answer, _ := strings.Cut(text, "\n< ")
	return !strings.Contains(question, "ValidateOnly=true") && strings.Contains(answer, "ErrorCode=0 ")
}

// readTries is how often a request that changes nothing is asked again when
// its answers differ: what a broker's own doing in the background shows.
const readTries = 8

func (r *randomRun) ask(q *question) (text [2]string, err error) {
	err = r.both(func(i int, s *side) error {
		text[i] = q.ask(s)
		return nil
	})
	return text, err
}

func (r *randomRun) found(n int, text [2]string, lines []line) {
	head, one, _ := strings.Cut(text[0], "\n< ")
	_, two, _ := strings.Cut(text[1], "\n< ")
	r.differ = append(r.differ, difference{n, head, lines})
	if r.silent {
		return
	}
	fmt.Fprintf(r.out, "DIFFERENT -seed %d -from %d -to %d\n%s\n%s", r.seed, n, n, strings.TrimRight(clip(head), "\n"), clip(showLines(lines)))
	if r.verbose {
		fmt.Fprintf(r.out, "  --- a\n  %s  --- b\n  %s", one, two)
	}
}

func clip(text string) string {
	const most = 2000
	if len(text) <= most {
		return text
	}
	return text[:most] + fmt.Sprintf("\n  ... %d bytes more\n", len(text)-most)
}

func showLines(lines []line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "    %s: %s\n", l.side, l.text)
	}
	return b.String()
}

// unexplained lists the lines in which two answers differ without a reason.
func (r *randomRun) unexplained(api string, text [2]string) []line {
	if text[0] == text[1] {
		return nil
	}
	head, _, _ := strings.Cut(text[0], "\n< ")
	var rest []line
	for _, l := range diff(text[0], text[1]) {
		i := slices.IndexFunc(accepted, func(d acceptedDifference) bool { return d.covers(api, head, l) })
		if i < 0 {
			rest = append(rest, l)
			continue
		}
		r.met[i]++
		if accepted[i].whole {
			return nil
		}
	}
	return rest
}

// settle waits until both brokers show what a request changed, and until both
// show the same. Where they do not, what differs is taken away from both, so
// that it is reported once.
func (r *randomRun) settle(n int, q *question, text string, answersDiffer bool) error {
	var digest [2]string
	for deadline := time.Now().Add(10 * time.Second); ; {
		err := r.both(func(i int, s *side) (err error) {
			if err = s.barrier(); err == nil {
				digest[i], err = s.digest()
			}
			return err
		})
		if err != nil {
			return err
		}
		if digest[0] == digest[1] {
			break
		}
		if time.Now().Before(deadline) {
			continue
		}
		if lines := r.unexplained("State", [2]string{text + "\n< \n" + digest[0], text + "\n< \n" + digest[1]}); len(lines) > 0 && !answersDiffer {
			r.found(n, [2]string{"what is there after " + text + "\n< ", "\n< "}, lines)
		}
		if err := r.level(diff(digest[0], digest[1])); err != nil {
			return err
		}
		break
	}
	if !answersDiffer || len(q.resources) == 0 {
		return nil
	}
	return r.both(func(_ int, s *side) error { return s.resetConfigs(q.resources...) })
}

// level deletes the topics in which the brokers' states differ.
func (r *randomRun) level(lines []line) error {
	names := map[string]bool{}
	for _, l := range lines {
		if name, _, ok := strings.Cut(l.text, "\t"); ok {
			names[name] = true
		}
	}
	return r.both(func(_ int, s *side) error {
		for name := range names {
			s.deleteTopics(name)
		}
		return s.barrier()
	})
}

// question is one request as it is sent to a broker.
type question struct {
	api       string
	reads     bool               // changes nothing and may be asked again
	resources []configResource   // whose configuration it may change
	ask       func(*side) string // the request and the answer, as text
}

// question makes request n, or nil when its key is not served by both.
func (r *randomRun) question(n int) *question {
	make := func() (*gen, kmsg.Request) {
		g := &gen{Rand: rand.New(rand.NewPCG(r.seed, uint64(n))), seed: r.seed, number: n, nonce: r.nonce, startMs: r.startMs}
		return g, g.request()
	}
	g, req := make()
	if !r.common[req.Key()] {
		return nil
	}
	q := &question{api: kmsg.NameForKey(req.Key()), reads: g.reads, resources: g.resources}
	if g.chance(12) && !g.fragile {
		hurt := g.damage()
		q.api, q.reads = "Frames", false
		q.ask = func(s *side) string {
			_, req := make()
			return s.askDamaged(hurt, req)
		}
		return q
	}
	q.ask = func(s *side) string {
		_, req := make()
		return s.askPlain(req)
	}
	return q
}
