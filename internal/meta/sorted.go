package meta

import (
	"cmp"
	"iter"

	"github.com/benbjohnson/immutable"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// sorted is a persistent sorted map. The zero value is empty. A copy is a
// snapshot: changing one copy leaves the others as they are, except while the
// map is being built in bulk.
type sorted[K, V any] struct {
	m *immutable.SortedMap[K, V]
	b *immutable.SortedMapBuilder[K, V] // in bulk: changed in place
}

// order adapts a comparison to the library.
type order[K any] func(a, b K) int

func (f order[K]) Compare(a, b K) int { return f(a, b) }

// orderOf gives the order of the kinds of keys used here.
func orderOf[K any]() immutable.Comparer[K] {
	var c any
	switch any(*new(K)).(type) {
	case string:
		c = order[string](cmp.Compare[string])
	case kafka.NodeID:
		c = order[kafka.NodeID](cmp.Compare[kafka.NodeID])
	case kafka.UUID:
		c = order[kafka.UUID](func(a, b kafka.UUID) int { return cmp.Compare(string(a[:]), string(b[:])) })
	case PartitionID:
		c = order[PartitionID](PartitionID.Compare)
	}
	return c.(immutable.Comparer[K])
}

// bulk gives an empty map that is built in place until seal.
func bulk[K, V any]() sorted[K, V] {
	return sorted[K, V]{b: immutable.NewSortedMapBuilder[K, V](orderOf[K]())}
}

func (s *sorted[K, V]) seal() {
	if s.b != nil {
		s.m, s.b = s.b.Map(), nil
	}
}

func (s sorted[K, V]) len() int {
	switch {
	case s.b != nil:
		return s.b.Len()
	case s.m != nil:
		return s.m.Len()
	}
	return 0
}

func (s sorted[K, V]) get(k K) (V, bool) {
	switch {
	case s.b != nil:
		return s.b.Get(k)
	case s.m != nil:
		return s.m.Get(k)
	}
	var none V
	return none, false
}

func (s *sorted[K, V]) set(k K, v V) {
	if s.b != nil {
		s.b.Set(k, v)
		return
	}
	if s.m == nil {
		s.m = immutable.NewSortedMap[K, V](orderOf[K]())
	}
	s.m = s.m.Set(k, v)
}

func (s *sorted[K, V]) delete(k K) {
	switch {
	case s.b != nil:
		s.b.Delete(k)
	case s.m != nil:
		s.m = s.m.Delete(k)
	}
}

// all goes through a sealed map in order.
func (s sorted[K, V]) all() iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if s.m == nil || s.m.Len() == 0 {
			return
		}
		it := s.m.Iterator()
		for !it.Done() {
			k, v, _ := it.Next()
			if !yield(k, v) {
				return
			}
		}
	}
}

// from goes through a sealed map in order, beginning with the first key that
// is not below k.
func (s sorted[K, V]) from(k K) iter.Seq2[K, V] {
	return func(yield func(K, V) bool) {
		if s.m == nil || s.m.Len() == 0 {
			return
		}
		it := s.m.Iterator()
		it.Seek(k)
		for !it.Done() {
			k, v, _ := it.Next()
			if !yield(k, v) {
				return
			}
		}
	}
}
