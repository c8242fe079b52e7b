package plan_test

import (
	"errors"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/meta"
	"github.com/barnabas-mq/barnabas/internal/meta/kv"
	"github.com/barnabas-mq/barnabas/internal/meta/metatest"
	"github.com/barnabas-mq/barnabas/internal/meta/plan"
)

// A registration is never put over another one, not even over this process's own
// of an earlier session; whose it is says whether it may be removed (safety 1).
func TestRegisterOverAnother(t *testing.T) {
	self := func(start, dir string) *meta.Broker {
		return &meta.Broker{ID: 1, StartID: start, Dirs: []kafka.DirID{metatest.Dir(dir)}}
	}
	leased := func(b *meta.Broker, lease int64) *meta.Broker { b.Lease, b.ModRev = lease, 7; return b }
	for _, c := range []struct {
		name     string
		existing *meta.Broker
		lease    int64
		want     string
	}{
		{"nobody", nil, 3, "put"},
		{"an earlier start", leased(self("before", "a"), 2), 3, "remove"},
		{"an earlier session", leased(self("now", "a"), 2), 3, "remove"},
		{"this session", leased(self("now", "a"), 3), 3, "done"},
		{"another broker", leased(self("other", "b"), 2), 3, "refused"},
		{"alone, on other directories", leased(self("before", "b"), 0), 0, "remove"},
		{"alone, and another one with a session", leased(self("other", "b"), 2), 0, "refused"},
		{"another one that is alone", leased(self("other", "b"), 0), 3, "refused"},
	} {
		r, err := plan.Register(meta.KeysOf("c"), c.existing, self("now", "a"), c.lease)
		got := "put"
		switch {
		case errors.Is(err, kerr.DuplicateBrokerRegistration):
			got = "refused"
		case r.Done:
			got = "done"
		case r.Remove != nil && r.Remove.If[0] == kv.ModIs("/barnabas/c/brokers/ids/1", 7):
			got = "remove"
		}
		if got != c.want {
			t.Errorf("%s: %s (%v), want %s", c.name, got, err, c.want)
		}
	}
}

// Of several that begin a store's first cluster one does, and the others read which.
func TestBeginOnce(t *testing.T) {
	w := metatest.New()
	if res := w.Do(plan.Begin("a", 1)); !res.Succeeded {
		t.Fatalf("%+v", res)
	}
	for _, id := range []string{"a", "b"} {
		res := w.Do(plan.Begin(id, 2))
		if res.Succeeded || len(res.Gets) != 2 || len(res.Gets[1]) != 1 {
			t.Fatalf("%s: %+v", id, res)
		}
		c, err := meta.DecodeCluster(res.Gets[1][0])
		if err != nil || c.ID != "a" || c.CreatedAtMs != 1 {
			t.Errorf("%s: %+v, %v", id, c, err)
		}
	}
}
