package storage

import (
	"runtime"
	"sync"
)

// parallel runs do for each log on a few goroutines.
func parallel(logs []*Log, workers int, do func(*Log)) {
	if workers <= 0 {
		workers = 2 * runtime.GOMAXPROCS(0)
	}
	next := make(chan *Log)
	var wg sync.WaitGroup
	for range min(workers, len(logs)) {
		wg.Go(func() {
			for l := range next {
				do(l)
			}
		})
	}
	for _, l := range logs {
		next <- l
	}
	close(next)
	wg.Wait()
}

// tasks counts goroutines that tell owners of failures. Unlike a WaitGroup it
// may be added to while someone waits.
type tasks struct {
	mu   sync.Mutex
	cond *sync.Cond
	n    int
}

// Go runs f in a goroutine that Wait waits for.
func (t *tasks) Go(f func()) {
	t.mu.Lock()
	if t.cond == nil {
		t.cond = sync.NewCond(&t.mu)
	}
	t.n++
	t.mu.Unlock()
	go func() {
		f()
		t.mu.Lock()
		defer t.mu.Unlock()
		if t.n--; t.n == 0 {
			t.cond.Broadcast()
		}
	}()
}

// Wait returns when none runs.
func (t *tasks) Wait() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for t.n > 0 {
		t.cond.Wait()
	}
}
