package api

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// A topic that goes between the look at the metadata and the read is unknown, as
// it is to the next request: it has not merely another leader.
func TestFetchOfATopicThatGoesMeanwhile(t *testing.T) {
	l := newLed(t)
	l.put("a")
	f := l.begun(l.asks(0, 0, 0))
	f.readAll() // which finds the partition
	x, err := plan.DeleteTopic(l.Img, l.state().Topic, 1000)
	if err != nil {
		t.Fatal(err)
	}
	l.Do(x)
	l.m.Drop(&l.Delta)
	if due := f.readAll(); !due || f.items[0].code != kerr.UnknownTopicOrPartition.Code {
		t.Errorf("due: %t, error %d", due, f.items[0].code)
	}
	f.release()
}
