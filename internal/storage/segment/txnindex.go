package segment

import "encoding/binary"

// Aborted is an entry of the transaction index: an aborted transaction whose
// marker lies in the segment.
type Aborted struct {
	ProducerID int64
	First      int64 // offset of its first record
	Last       int64 // offset of its marker
	// LastStable is the last stable offset after the marker: a reader that
	// needs nothing above it needs no later entry.
	LastStable int64
}

func parseTxn(b []byte) Aborted {
	return Aborted{ProducerID: be64(b[2:]), First: be64(b[10:]), Last: be64(b[18:]), LastStable: be64(b[26:])}
}

// AddAborted adds an entry. The writer calls it with the batch of the marker.
func (s *Segment) AddAborted(a Aborted) error {
	var e [txnEntry]byte // the version, 0, comes first
	binary.BigEndian.PutUint64(e[2:], uint64(a.ProducerID))
	binary.BigEndian.PutUint64(e[10:], uint64(a.First))
	binary.BigEndian.PutUint64(e[18:], uint64(a.Last))
	binary.BigEndian.PutUint64(e[26:], uint64(a.LastStable))
	return s.txn.add(e[:])
}

// AbortedIn appends to into the aborted transactions of this segment that
// overlap [from, to). done says that later segments hold none.
func (s *Segment) AbortedIn(from, to int64, into []Aborted) (out []Aborted, done bool, err error) {
	b, n, err := s.txn.load()
	if err != nil {
		return into, false, err
	}
	for i := range n {
		a := parseTxn(b[i*txnEntry:])
		if a.Last >= from && a.First < to {
			into = append(into, a)
		}
		if a.LastStable >= to {
			return into, true, nil
		}
	}
	return into, false, nil
}
