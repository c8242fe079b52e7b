//go:build unix

package brokertest_test

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// A process that is killed keeps what it acknowledged, and what it deleted
// stays deleted; a generation is not used twice (REC-08).
func TestGRP14REC08Killed(t *testing.T) {
	dir := t.TempDir()
	proc := spawn(t, dir, 0, "group.initial.rebalance.delay.ms=0")
	p := proc.dial()
	p.awaitGroups()
	p.create("t", 1)
	p.mustCommit("g", "t", 3)
	p.mustCommit("kept", "t", 4)
	wantCode(t, "delete", p.deleteGroup("g"), nil)
	member, generation := p.stable("busy")
	proc.kill()

	proc = spawn(t, dir, 0, "group.initial.rebalance.delay.ms=0")
	p = proc.dial()
	p.awaitGroups()
	if got := p.committed("g", "t", 0); got != -1 {
		t.Errorf("offset %d of a deleted group", got)
	}
	if got := p.committed("kept", "t", 0); got != 4 {
		t.Errorf("an acknowledged offset became %d, want 4", got)
	}
	wantCode(t, "heartbeat of the member before", p.heartbeat("busy", member, generation), nil)
	wantCode(t, "heartbeat of an older generation", p.heartbeat("busy", member, generation-1), kerr.IllegalGeneration)
	again := p.join("busy", func(r *kmsg.JoinGroupRequest) { r.MemberID = member; r.Protocols[0].Metadata = subscription("t", "u") })
	if again.ErrorCode != 0 || again.Generation <= generation {
		t.Errorf("joined again: %s, generation %d, want above %d", name(again.ErrorCode), again.Generation, generation)
	}
}
