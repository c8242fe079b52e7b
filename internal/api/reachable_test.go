package api

import (
	"testing"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
)

// Clients are never told of no broker by one that they can ask.
func TestSomebodyIsReachable(t *testing.T) {
	at := func(id kafka.NodeID) *meta.Broker {
		return &meta.Broker{ID: id, StartID: "s", Dirs: []kafka.DirID{{byte(id), 1}}, Listeners: []meta.Listener{{Name: "PLAINTEXT", Protocol: "PLAINTEXT", Host: "h", Port: int32(id)}}}
	}
	a := New(Deps{Here: func() *meta.Broker { return at(1) }})
	w := metatest.New()
	told := func(listener string) (ids []kafka.NodeID) {
		for _, b := range a.reachable(w.Img, listener) {
			ids = append(ids, b.ID)
		}
		return ids
	}
	if got := told("PLAINTEXT"); len(got) != 1 || got[0] != 1 {
		t.Errorf("while nobody is registered: %v", got)
	}
	if got := told("OTHER"); len(got) != 0 {
		t.Errorf("of a listener that it does not have: %v", got)
	}
	if err := w.RegisterBroker(at(2)); err != nil {
		t.Fatal(err)
	}
	if got := told("PLAINTEXT"); len(got) != 1 || got[0] != 2 {
		t.Errorf("beside another: %v", got)
	}
}
