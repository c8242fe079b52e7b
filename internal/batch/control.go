package batch

import (
	"encoding/binary"
	"fmt"
)

// ControlType is the type in a control record's key.
type ControlType int16

// The control records. Only abort and commit appear in a topic's partitions;
// the rest are of KRaft's own log and are named for those who dump one.
const (
	ControlAbort ControlType = iota
	ControlCommit
	ControlLeaderChange
	ControlSnapshotHeader
	ControlSnapshotFooter
	ControlKRaftVersion
	ControlKRaftVoters

	controlTypes = iota
)

var controlNames = [controlTypes]string{
	"abort", "commit", "leader change", "snapshot header", "snapshot footer", "kraft version", "kraft voters",
}

func (t ControlType) String() string {
	if t < 0 || t >= controlTypes {
		return fmt.Sprintf("control(%d)", int16(t))
	}
	return controlNames[t]
}

const (
	controlKeySize   = 4 // int16 version, int16 type
	endTxnMarkerSize = 6 // int16 version, int32 coordinator epoch
)

// ParseControlKey reads the key of a control record. Later versions only add
// fields, so they read as version 0; types that are unknown are returned as
// they are. A key that is too short or of a negative version is ErrMalformed.
func ParseControlKey(key []byte) (ControlType, error) {
	if len(key) < controlKeySize {
		return 0, fmt.Errorf("%w: a control key of %d bytes", ErrMalformed, len(key))
	}
	if version := int16(binary.BigEndian.Uint16(key)); version < 0 {
		return 0, fmt.Errorf("%w: a control key of version %d", ErrMalformed, version)
	}
	return ControlType(binary.BigEndian.Uint16(key[2:])), nil
}

// Marker ends a producer's transaction in one partition.
type Marker struct {
	ProducerID       int64
	ProducerEpoch    int16
	Commit           bool
	CoordinatorEpoch int32 // leader epoch of the coordinator's shard; fences older coordinators
}

// AppendMarker appends to dst the control batch that writes m, at offset 0 and
// stamped tsMs; the leader that appends it to its log sets offset and epoch.
func AppendMarker(dst []byte, m Marker, tsMs int64) []byte {
	kind := ControlAbort
	if m.Commit {
		kind = ControlCommit
	}
	var key [controlKeySize]byte
	binary.BigEndian.PutUint16(key[2:], uint16(kind))
	var value [endTxnMarkerSize]byte
	binary.BigEndian.PutUint32(value[2:], uint32(m.CoordinatorEpoch))

	at := len(dst)
	var header [HeaderSize]byte
	dst = append(dst, header[:]...)
	dst = appendRecord(dst, 0, 0, key[:], value[:], nil)
	b := Batch(dst[at:])
	b.SetLeaderEpoch(-1)
	b.put16(atAttributes, bitTransactional|bitControl)
	b.put64(atBaseTimestamp, tsMs)
	b.put64(atMaxTimestamp, tsMs)
	b.put64(atProducerID, m.ProducerID)
	b.put16(atProducerEpoch, m.ProducerEpoch)
	b.put32(atBaseSequence, NoSequence)
	b.put32(atCount, 1)
	b.seal()
	return dst
}

// ParseMarker reads the marker of a control batch. ok is false, without an
// error, for a control batch of another type and for one that compaction has
// emptied. ErrMalformed when b is not a control batch or its record is broken.
func ParseMarker(b Batch) (m Marker, ok bool, err error) {
	if !b.Control() {
		return Marker{}, false, fmt.Errorf("%w: not a control batch", ErrMalformed)
	}
	it := Records(b, 0)
	defer it.Close()
	if !it.Next() {
		return Marker{}, false, it.Err()
	}
	kind, err := ParseControlKey(it.Record().Key)
	if err != nil || kind != ControlAbort && kind != ControlCommit {
		return Marker{}, false, err
	}
	value := it.Record().Value
	if len(value) < endTxnMarkerSize {
		return Marker{}, false, fmt.Errorf("%w: a %v marker of %d bytes", ErrMalformed, kind, len(value))
	}
	if version := int16(binary.BigEndian.Uint16(value)); version < 0 {
		return Marker{}, false, fmt.Errorf("%w: a %v marker of version %d", ErrMalformed, kind, version)
	}
	return Marker{
		ProducerID:       b.ProducerID(),
		ProducerEpoch:    b.ProducerEpoch(),
		Commit:           kind == ControlCommit,
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(value[2:])),
	}, true, nil
}
