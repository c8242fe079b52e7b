package api

import (
	"github.com/twmb/franz-go/pkg/kerr"
)

// fenced refuses what nobody but the leader may answer while this broker's
// session may be over: another broker may lead by now, and have more (safety 31).
// It is asked before the work and again before the answer, for a process may
// have stood still in between. What waits for the in-sync replicas, acks=all and
// followers, needs no clock.
func (a *API) fenced() error {
	if a.Valid == nil || a.Valid() {
		return nil
	}
	return kerr.NotLeaderForPartition
}

// fence takes back what was read for a consumer, if this broker is fenced by now.
func (f *fetch) fence() {
	if f.replica >= 0 || f.fenced() == nil {
		return
	}
	for _, it := range f.items {
		if it.err == nil {
			it.read.Release()
			it.read = nothing
			it.code = kerr.NotLeaderForPartition.Code
		}
	}
}
