package storage

// Where retention took the beginning of a transaction, a log that rebuilds its
// producer state from the batches finds the transaction beginning with the
// first batch that is left. Readers see the same: nothing of it lies below.

// kept is the base of the first batch that is left at or above start of the
// producer's transaction that began at from; -1 when none is.
func (m *model) kept(pid, from, start int64) int64 {
	for _, b := range m.cur {
		if b.pid == pid && b.marker == 0 && b.base >= from && b.last >= start {
			return b.base
		}
	}
	return -1
}

// unstableWithin reports whether first can be the first unstable offset of a
// log that begins at start.
func (m *model) unstableWithin(first, start int64) bool {
	producers, _, _ := txnState(m.cur)
	least, most, open := int64(-1), int64(-1), false
	for pid, p := range producers {
		if !p.inTxn {
			continue
		}
		open = true
		if from := max(p.txnFrom, start); least < 0 || from < least {
			least = from
		}
		if left := m.kept(pid, p.txnFrom, start); left >= 0 && (most < 0 || max(left, start) < most) {
			most = max(left, start)
		}
	}
	switch {
	case !open:
		return first == -1
	case most < 0: // nothing is left of any of them
		return first == -1 || first >= least
	default:
		return first >= least && first <= most
	}
}

// sameTxn reports whether got, of a log that begins at start, is want: the same
// beginning, or one that leaves out only what retention took.
func (m *model) sameTxn(got, want AbortedTxn, start int64) bool {
	if got == want {
		return true
	}
	if got.ProducerID != want.ProducerID || want.FirstOffset >= start || got.FirstOffset < want.FirstOffset {
		return false
	}
	left := m.kept(want.ProducerID, want.FirstOffset, start)
	return got.FirstOffset < start || got.FirstOffset == left
}
