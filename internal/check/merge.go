package check

import (
	"container/heap"
	"errors"
	"io"
)

// A Source gives the events of a history one by one, and io.EOF after the last.
// It may use e.Records again.
type Source interface {
	Next(e *Event) error
}

// Merge gives the events of several sources by their ends, so that those of an
// observer who wrote into several files come in order. A source holds events of
// one observer.
func Merge(sources ...Source) Source {
	m := &merged{}
	for i, s := range sources {
		m.rest = append(m.rest, &head{from: s, order: i})
	}
	return m
}

// A head is a source and its event that is due.
type head struct {
	from  Source
	order int
	e     Event
}

type merged struct {
	rest []*head // sources whose event was taken
	due  heads
}

func (m *merged) Next(e *Event) error {
	for len(m.rest) > 0 {
		h := m.rest[len(m.rest)-1]
		m.rest = m.rest[:len(m.rest)-1]
		switch err := h.from.Next(&h.e); {
		case errors.Is(err, io.EOF):
		case err != nil:
			return err
		default:
			heap.Push(&m.due, h)
		}
	}
	if len(m.due) == 0 {
		return io.EOF
	}
	h := heap.Pop(&m.due).(*head)
	*e, h.e = h.e, *e // the records of each are used again
	m.rest = append(m.rest, h)
	return nil
}

type heads []*head

func (h heads) Len() int      { return len(h) }
func (h heads) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h heads) Less(i, j int) bool {
	a, b := h[i], h[j]
	return a.e.End < b.e.End || a.e.End == b.e.End && a.order < b.order
}
func (h *heads) Push(x any) { *h = append(*h, x.(*head)) }
func (h *heads) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// Run judges the whole of a source.
func Run(o Options, s Source) (*Result, error) {
	j := NewJudge(o)
	var e Event
	for {
		err := s.Next(&e)
		if errors.Is(err, io.EOF) {
			return j.Finish(), nil
		}
		if err == nil {
			err = j.Add(&e)
		}
		if err != nil {
			return nil, err
		}
	}
}
