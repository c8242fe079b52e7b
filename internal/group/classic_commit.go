package group

import "github.com/twmb/franz-go/pkg/kerr"

// checkCommit: a member commits in its generation, and is heard of by that. An
// empty group takes commits of anybody who is in no generation. In a transaction
// neither membership nor the phase is looked at where none is claimed.
func (c *classic) checkCommit(s *step, cm *CommitOffsets) error {
	inTxn := cm.Producer != nil
	claims := cm.Generation >= 0 || cm.Member != "" || cm.Instance != nil
	switch {
	case cm.Generation < 0 && c.phase == phaseEmpty:
		return nil
	case !claims && !inTxn:
		return kerr.UnknownMemberID
	case claims:
		if err := c.check(cm.Member, cm.Instance); err != nil {
			return err
		}
		if cm.Generation != c.generation {
			return kerr.IllegalGeneration
		}
	}
	if inTxn {
		return nil
	}
	if c.phase == phaseCompleting {
		return kerr.RebalanceInProgress
	}
	s.touch(c, c.members[cm.Member])
	return nil
}

// checkFetch: anybody may read the offsets of a classic group.
func (c *classic) checkFetch(*FetchOffsets) error { return nil }
