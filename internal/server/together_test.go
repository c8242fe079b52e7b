package server

import (
	"context"
	"runtime"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// What one event ends is answered together: a system call for each answer costs more
// than the answer.
func TestAnswersGoOutTogether(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // who is woken runs in turn
	waiting, committed := make(chan struct{}), make(chan chan struct{}, 1)
	f := &fake{}
	f.produce = func(_ context.Context, r *Request, _ *kmsg.ProduceRequest, _ *kmsg.ProduceResponse) error {
		c := <-committed
		committed <- c
		r.Next()
		waiting <- struct{}{}
		<-c
		return nil
	}
	s := start(t, f, nil)
	nc := dial(t, s)
	// The scheduler may let who yields run again at once, but not every time.
	for i := range int32(10) {
		c := make(chan struct{})
		committed <- c
		write(t, nc, frame(produceOf(-1), 9, 2*i), frame(produceOf(-1), 9, 2*i+1))
		<-waiting
		<-waiting
		<-committed
		close(c)
		expect(t, nc, 9, 2*i, kmsg.NewPtrProduceResponse())
		expect(t, nc, 9, 2*i+1, kmsg.NewPtrProduceResponse())
	}
	for c := range s.snapshot() {
		c.mu.Lock()
		if cap(c.out.vec) < 2 { // it holds what goes out in one call
			t.Error("each answer went out alone")
		}
		c.mu.Unlock()
	}
}
