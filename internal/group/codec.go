package group

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// The types of keys in __consumer_offsets; a key begins with one. The rest are
// share and streams groups, which are not ours.
const (
	keyLegacyOffset      int16 = 0
	keyOffset            int16 = 1
	keyClassic           int16 = 2
	keyGroupEpoch        int16 = 3
	keyPartitionMetadata int16 = 4
	keyMember            int16 = 5
	keyTargetEpoch       int16 = 6
	keyTarget            int16 = 7
	keyCurrent           int16 = 8
	keyRegex             int16 = 16
)

// The versions that Apache Kafka 4.4 writes. Values of consumer groups have
// version 0 and change by tagged fields alone.
const (
	classicVersion       int16 = 3
	offsetVersion        int16 = 4
	offsetExpiresVersion int16 = 1 // the one version that has an expiry
)

var errVersion = errors.New("unknown version of its value")

// maxString is the length of a string at most: keys and classic groups have two
// bytes for it, and Apache Kafka reads no longer one anywhere. Requests may have
// longer ones, so what comes from them is held to it before it is emitted.
const maxString = math.MaxInt16

// encode gives the bytes that Apache Kafka writes.
func encode(b body) (key, value []byte) {
	switch b := b.(type) {
	case *offsetRecord:
		return encodeOffset(b)
	case *classicRecord:
		key = appendKey(keyClassic, b.Group)
		if b.Value != nil {
			v := *b.Value
			v.Version = classicVersion
			value = v.AppendTo(nil)
		}
	case *groupEpochRecord:
		key = appendKey(keyGroupEpoch, b.Group)
		if b.Value != nil {
			value = appendGroupEpoch(b.Value)
		}
	case *partitionMetadataRecord:
		key = appendKey(keyPartitionMetadata, b.Group)
		if !b.Tombstone {
			value = []byte{0, 0, 1, 0} // version 0, no topics, no tags
		}
	case *memberRecord:
		key = appendKey(keyMember, b.Group, b.Member)
		if b.Value != nil {
			value = appendMember(b.Value)
		}
	case *targetEpochRecord:
		key = appendKey(keyTargetEpoch, b.Group)
		if b.Value != nil {
			value = appendTargetEpoch(b.Value)
		}
	case *targetRecord:
		key = appendKey(keyTarget, b.Group, b.Member)
		if b.Value != nil {
			value = appendTarget(b.Value)
		}
	case *currentRecord:
		key = appendKey(keyCurrent, b.Group, b.Member)
		if b.Value != nil {
			value = appendCurrent(b.Value)
		}
	case *regexRecord:
		key = appendKey(keyRegex, b.Group, b.Regex)
		if b.Value != nil {
			value = appendRegex(b.Value)
		}
	default:
		panic(fmt.Sprintf("group: unknown record %T", b))
	}
	return key, value
}

// decode reads a record; nothing of what it gives back aliases key or value.
// A key of a type that we do not know is (nil, nil).
func decode(key, value []byte) (body, error) {
	k := kbin.Reader{Src: key}
	typ := k.Int16()
	if !k.Ok() {
		return nil, fmt.Errorf("group: a key of %d bytes has no type", len(key))
	}
	b, err := decodeType(typ, k, value)
	if err != nil {
		return nil, fmt.Errorf("group: record of key type %d: %w", typ, err)
	}
	return b, nil
}

func decodeType(typ int16, k kbin.Reader, value []byte) (body, error) {
	if typ == keyLegacyOffset || typ == keyOffset {
		return decodeOffset(typ, k, value)
	}
	var second string
	group := k.String()
	switch typ {
	case keyClassic, keyGroupEpoch, keyPartitionMetadata, keyTargetEpoch:
	case keyMember, keyTarget, keyCurrent, keyRegex:
		second = k.String()
	default:
		return nil, nil
	}
	if err := k.Complete(); err != nil {
		return nil, err
	}
	switch typ {
	case keyClassic:
		v, err := readValue(value, readClassic)
		return &classicRecord{Group: group, Value: v}, err
	case keyGroupEpoch:
		v, err := readValue(value, readGroupEpoch)
		return &groupEpochRecord{Group: group, Value: v}, err
	case keyPartitionMetadata:
		return &partitionMetadataRecord{Group: group, Tombstone: value == nil}, nil
	case keyTargetEpoch:
		v, err := readValue(value, readTargetEpoch)
		return &targetEpochRecord{Group: group, Value: v}, err
	case keyMember:
		v, err := readValue(value, readMember)
		return &memberRecord{Group: group, Member: second, Value: v}, err
	case keyTarget:
		v, err := readValue(value, readTarget)
		return &targetRecord{Group: group, Member: second, Value: v}, err
	case keyCurrent:
		v, err := readValue(value, readCurrent)
		return &currentRecord{Group: group, Member: second, Value: v}, err
	default: // keyRegex
		v, err := readValue(value, readRegex)
		return &regexRecord{Group: group, Regex: second, Value: v}, err
	}
}

// readValue is nil for a tombstone.
func readValue[V any](value []byte, read func([]byte) (*V, error)) (*V, error) {
	if value == nil {
		return nil, nil
	}
	return read(value)
}

// appendKey makes the key of anything but an offset.
func appendKey(typ int16, names ...string) []byte {
	n := 2
	for _, name := range names {
		n += 2 + len(name)
	}
	b := kbin.AppendInt16(make([]byte, 0, n), typ)
	for _, name := range names {
		b = kbin.AppendString(b, name)
	}
	return b
}

// encodeOffset takes one allocation for key and value: a commit is the most
// frequent write by far.
func encodeOffset(r *offsetRecord) (key, value []byte) {
	n, v := offsetKeySize(r.Group, r.Topic), r.Value
	b := make([]byte, 0, n+offsetSize(v))
	b = kbin.AppendInt16(b, keyOffset)
	b = kbin.AppendString(b, r.Group)
	b = kbin.AppendString(b, r.Topic)
	b = kbin.AppendInt32(b, r.Partition)
	if v == nil {
		return b, nil
	}
	if v.ExpireMs != -1 {
		b = kbin.AppendInt16(b, offsetExpiresVersion)
		b = kbin.AppendInt64(b, v.Offset)
		b = kbin.AppendString(b, v.Metadata)
		b = kbin.AppendInt64(b, v.CommitMs)
		b = kbin.AppendInt64(b, v.ExpireMs)
		return b[:n:n], b[n:]
	}
	b = kbin.AppendInt16(b, offsetVersion)
	b = kbin.AppendInt64(b, v.Offset)
	b = kbin.AppendInt32(b, v.LeaderEpoch)
	b = kbin.AppendCompactString(b, v.Metadata)
	b = kbin.AppendInt64(b, v.CommitMs)
	if v.TopicID.IsZero() {
		b = append(b, 0)
	} else {
		b = append(b, 1, 0, byte(len(v.TopicID)))
		b = append(b, v.TopicID[:]...)
	}
	return b[:n:n], b[n:]
}

// offsetKeySize is the number of bytes of an offset's key.
func offsetKeySize(group, topic string) int { return 2 + 2 + len(group) + 2 + len(topic) + 4 }

// offsetSize is the number of bytes of an offset's value.
func offsetSize(v *offset) int {
	switch {
	case v == nil:
		return 0
	case v.ExpireMs != -1:
		return 2 + 8 + 2 + len(v.Metadata) + 8 + 8
	}
	length := uint(len(v.Metadata) + 1)
	n := 2 + 8 + 4 + (bits.Len(length)+6)/7 + len(v.Metadata) + 8 + 1
	if !v.TopicID.IsZero() {
		n += 2 + len(v.TopicID)
	}
	return n
}

func decodeOffset(typ int16, k kbin.Reader, value []byte) (body, error) {
	group, topic, partition, err := readOffsetKey(k)
	if err != nil {
		return nil, err
	}
	r := &offsetRecord{Group: string(group), Topic: string(topic), Partition: partition}
	if value == nil {
		return r, nil
	}
	r.Value = new(offset)
	return r, readOffset(typ, value, r.Value)
}

// readOffsetKey reads what follows the type. The names alias the key: the load
// looks them up before it makes strings of them.
func readOffsetKey(k kbin.Reader) (group, topic []byte, partition int32, err error) {
	group = k.Span(int(k.Int16()))
	topic = k.Span(int(k.Int16()))
	partition = k.Int32()
	return group, topic, partition, k.Complete()
}

// readOffset reads the value of an offset into v. The version of a legacy key
// is 0 and nothing else.
func readOffset(typ int16, value []byte, v *offset) error {
	b := kbin.Reader{Src: value}
	version := b.Int16()
	if version < 0 || version > offsetVersion || typ == keyLegacyOffset && version != 0 {
		return errVersion
	}
	*v = offset{LeaderEpoch: -1, ExpireMs: -1}
	v.Offset = b.Int64()
	if version >= 3 {
		v.LeaderEpoch = b.Int32()
	}
	if version >= 4 {
		v.Metadata = b.CompactString()
	} else {
		v.Metadata = b.String()
	}
	v.CommitMs = b.Int64()
	if version == offsetExpiresVersion {
		v.ExpireMs = b.Int64()
	}
	if version >= 4 {
		for n := b.Uvarint(); n > 0 && b.Ok(); n-- {
			tag := b.Uvarint()
			f := kbin.Reader{Src: b.Span(int(b.Uvarint()))}
			if tag == 0 && b.Ok() {
				v.TopicID = kafka.TopicID(f.Uuid())
				if !f.Ok() {
					return f.Complete()
				}
			}
		}
	}
	return b.Complete()
}

func readClassic(value []byte) (*kmsg.GroupMetadataValue, error) {
	v := kmsg.NewGroupMetadataValue()
	if err := v.ReadFrom(value); err != nil {
		return nil, err
	}
	if v.Version < 0 || v.Version > 4 {
		return nil, errVersion
	}
	// Strings are copies already, bytes and tags are not. It is written with
	// version 3, which has no tags.
	v.UnknownTags = kmsg.Tags{}
	for i := range v.Members {
		m := &v.Members[i]
		m.Subscription, m.Assignment = slices.Clone(m.Subscription), slices.Clone(m.Assignment)
		m.UnknownTags = kmsg.Tags{}
	}
	return &v, nil
}
