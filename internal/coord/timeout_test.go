package coord

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Who waits for a commit that does not come is told to try again; what was
// written is committed all the same later, and effects come out then.
func TestCommitTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t, 1, func(c *Config) { c.CommitTimeout = 5 * time.Second })
		p := g.parts[0]
		g.r.Elected(0, 0)
		synctest.Wait()
		p.hold()
		first := g.start(bg, "write", ask("e1", "a"))
		time.Sleep(3 * time.Second)
		second := g.start(bg, "write", ask("e2", "b"))
		time.Sleep(2*time.Second - 1)
		first.waits()
		first.fails(kerr.CoordinatorNotAvailable)
		second.waits()
		if s := g.said(); s != "" {
			t.Errorf("effects that are not committed: %q", s)
		}
		p.commit(1)
		synctest.Wait()
		if s := g.said(); s != "e1" {
			t.Errorf("effects: %q, want e1", s)
		}
		p.commit(2)
		second.is(nil)
		synctest.Wait()
		if s := g.said(); s != "e1 e2" {
			t.Errorf("effects: %q, want e1 e2", s)
		}
		p.free()
		g.agrees()
	})
}
