package fetcher

import "time"

// slow looks whether a partition is throttled here by its topic's settings.
func (w *worker) slow(f *followed) bool {
	_, slow := f.p.Throttled()
	if slow {
		w.throttled[f] = true
	} else {
		delete(w.throttled, f)
	}
	return slow
}

// held keeps a throttled partition out that has to wait. One that is in sync
// never has: producers wait for it (KIP-73).
func (w *worker) held(f *followed) bool {
	if !w.throttled[f] || f.p.InSync() {
		return false
	}
	d := w.cfg.Throttle.Wait(time.Now())
	if d > 0 {
		w.keepOut(f, d)
	}
	return d > 0
}

// throttle takes those out of the session that have had their bytes for now.
func (w *worker) throttle() {
	for f := range w.throttled {
		if f.in {
			w.held(f)
		}
	}
}
