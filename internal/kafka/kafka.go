// Package kafka holds the words of the field: the identifiers that every other
// package speaks in. It has types and their String methods, and no logic.
//
// Offsets are plain int64 throughout, as they are in the protocol: a named
// type would be converted at nearly every use.
package kafka

import (
	"encoding/base64"
	"fmt"
	"strconv"
)

// NodeID identifies a broker; -1 means none.
type NodeID int32

// NoNode is the absent node: a partition without a leader has it.
const NoNode NodeID = -1

func (n NodeID) String() string { return strconv.Itoa(int(n)) }

// LeaderEpoch counts the leaders of a partition (KIP-101); -1 means unknown.
type LeaderEpoch int32

// NoEpoch is the unknown leader epoch.
const NoEpoch LeaderEpoch = -1

// TopicPartition names a partition by topic name.
type TopicPartition struct {
	Topic     string
	Partition int32
}

// String is the name Apache Kafka gives the partition's directory: topic-0.
func (tp TopicPartition) String() string {
	return tp.Topic + "-" + strconv.Itoa(int(tp.Partition))
}

// UUID is a 16-byte identifier, printed as Apache Kafka prints it: URL-safe
// base64 without padding, 22 characters.
type UUID [16]byte

func (u UUID) String() string { return base64.RawURLEncoding.EncodeToString(u[:]) }

// IsZero reports whether u is the reserved all-zero id.
func (u UUID) IsZero() bool { return u == UUID{} }

// MarshalText and UnmarshalText let a UUID stand in JSON as its String.
func (u UUID) MarshalText() ([]byte, error) { return []byte(u.String()), nil }

// UnmarshalText parses what String prints.
func (u *UUID) UnmarshalText(b []byte) error {
	v, err := ParseUUID(string(b))
	if err == nil {
		*u = v
	}
	return err
}

// ParseUUID parses what String prints.
func ParseUUID(s string) (UUID, error) {
	var u UUID
	b, err := base64.RawURLEncoding.DecodeString(s)
	if err != nil || len(b) != len(u) {
		return UUID{}, fmt.Errorf("%q is not an id of 16 bytes in URL-safe base64 (22 characters)", s)
	}
	copy(u[:], b)
	return u, nil
}

// TopicID identifies a topic for its life; a topic made again under the same
// name has another (KIP-516).
type TopicID = UUID

// DirID identifies a data directory for its life (KIP-858).
type DirID = UUID

// The reserved directory ids of KIP-858.
var (
	DirUnassigned = DirID{}
	DirLost       = DirID{15: 1}
	DirMigrating  = DirID{15: 2}
)
