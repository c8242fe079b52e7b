package replica

import "testing"

// Every waiter is woken until it is removed, whether there are few or many.
func TestWatchers(t *testing.T) {
	var set watchers
	var all []*Waiter
	woken := func(w *Waiter) bool {
		select {
		case <-w.C:
			return true
		default:
			return false
		}
	}
	for n := range 3 * manyWatchers {
		w := NewWaiter()
		set.add(w)
		all = append(all, w)
		set.wake()
		for i, w := range all {
			if !woken(w) {
				t.Fatalf("of %d, waiter %d was not woken", n+1, i)
			}
		}
	}
	for len(all) > 0 {
		i := len(all) / 3 // neither first nor last
		gone := all[i]
		all = append(all[:i], all[i+1:]...)
		set.remove(gone)
		set.remove(gone)
		set.wake()
		if woken(gone) {
			t.Fatalf("with %d left, one that is gone was woken", len(all))
		}
		for i, w := range all {
			if !woken(w) {
				t.Fatalf("with %d left, waiter %d was not woken", len(all), i)
			}
		}
	}
	if len(set.few) > 0 || set.many != nil {
		t.Errorf("left: %v %v", set.few, set.many)
	}
}
