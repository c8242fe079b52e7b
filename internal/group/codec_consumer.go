package group

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

// The values of KIP-848's records. All are version 0 and flexible.

// values start with their version.
func newValue(size int) []byte { return append(make([]byte, 0, 2+size), 0, 0) }

// openValue checks the version.
func openValue(value []byte) (*kbin.Reader, error) {
	b := &kbin.Reader{Src: value}
	if version := b.Int16(); b.Ok() && version != 0 {
		return nil, errVersion
	}
	return b, b.Complete()
}

// appendTags begins a list of at most one tagged field, whose tag is 0 and
// whose bytes follow; a size of 0 is none.
func appendTags(b []byte, size int) []byte {
	if size == 0 {
		return append(b, 0)
	}
	return kbin.AppendUvarint(append(b, 1, 0), uint32(size))
}

// readTags gives the bytes of tag 0, nil where it is missing, and skips what a
// newer version has put behind it.
func readTags(b *kbin.Reader) (zero []byte) {
	for n := b.Uvarint(); n > 0 && b.Ok(); n-- {
		tag := b.Uvarint()
		if f := b.Span(int(b.Uvarint())); tag == 0 {
			zero = f
		}
	}
	return zero
}

// readTagInt64 is an int64 under tag 0, by default 0.
func readTagInt64(b *kbin.Reader) (int64, error) {
	zero := readTags(b)
	if zero == nil || !b.Ok() {
		return 0, b.Complete()
	}
	f := kbin.Reader{Src: zero}
	v := f.Int64()
	return v, f.Complete()
}

func appendGroupEpoch(v *groupEpoch) []byte {
	return appendIntAndTag(v.Epoch, v.MetadataHash)
}

func readGroupEpoch(value []byte) (*groupEpoch, error) {
	epoch, hash, err := readIntAndTag(value)
	return &groupEpoch{Epoch: epoch, MetadataHash: hash}, err
}

func appendTargetEpoch(v *targetEpoch) []byte {
	return appendIntAndTag(v.Epoch, v.AtMs)
}

func readTargetEpoch(value []byte) (*targetEpoch, error) {
	epoch, at, err := readIntAndTag(value)
	return &targetEpoch{Epoch: epoch, AtMs: at}, err
}

// appendIntAndTag is the form of both epochs: an int32, and an int64 under tag
// 0 unless it is 0.
func appendIntAndTag(i int32, tagged int64) []byte {
	b := kbin.AppendInt32(newValue(4+3+8), i)
	if tagged == 0 {
		return appendTags(b, 0)
	}
	return kbin.AppendInt64(appendTags(b, 8), tagged)
}

func readIntAndTag(value []byte) (i int32, tagged int64, err error) {
	b, err := openValue(value)
	if err != nil {
		return 0, 0, err
	}
	i = b.Int32()
	tagged, err = readTagInt64(b)
	return i, tagged, err
}

func appendMember(v *memberMetadata) []byte {
	b := newValue(128)
	b = kbin.AppendCompactNullableString(b, v.Instance)
	b = kbin.AppendCompactNullableString(b, v.Rack)
	b = kbin.AppendCompactString(b, v.ClientID)
	b = kbin.AppendCompactString(b, v.Host)
	b = appendStrings(b, v.Topics)
	b = kbin.AppendCompactNullableString(b, v.Regex)
	b = kbin.AppendInt32(b, v.RebalanceTimeoutMs)
	b = kbin.AppendCompactNullableString(b, v.Assignor)
	// The schema means null to be the default of the tagged field and fails to
	// say so: an empty struct is left out, and null is written, as a 0.
	switch c := v.Classic; {
	case c == nil:
		b = append(appendTags(b, 1), 0)
	case c.SessionTimeoutMs == 0 && len(c.Protocols) == 0:
		b = appendTags(b, 0)
	default:
		f := appendClassicMetadata([]byte{1}, c)
		b = append(appendTags(b, len(f)), f...)
	}
	return b
}

func appendClassicMetadata(b []byte, c *classicMetadata) []byte {
	b = kbin.AppendInt32(b, c.SessionTimeoutMs)
	b = kbin.AppendCompactArrayLen(b, len(c.Protocols))
	for i := range c.Protocols {
		b = kbin.AppendCompactString(b, c.Protocols[i].Name)
		b = kbin.AppendCompactBytes(b, c.Protocols[i].Metadata)
		b = append(b, 0)
	}
	return append(b, 0)
}

// longest is the length of the longest string, the regular expression's key
// included.
func (r *memberRecord) longest() int {
	v := r.Value
	n := max(len(r.Group), len(r.Member), len(v.ClientID), len(v.Host))
	for _, s := range []*string{v.Instance, v.Rack, v.Regex, v.Assignor} {
		if s != nil {
			n = max(n, len(*s))
		}
	}
	for _, t := range v.Topics {
		n = max(n, len(t))
	}
	return n
}

func readMember(value []byte) (*memberMetadata, error) {
	b, err := openValue(value)
	if err != nil {
		return nil, err
	}
	v := &memberMetadata{
		Instance:           b.CompactNullableString(),
		Rack:               b.CompactNullableString(),
		ClientID:           b.CompactString(),
		Host:               b.CompactString(),
		Topics:             readStrings(b),
		Regex:              b.CompactNullableString(),
		RebalanceTimeoutMs: b.Int32(),
		Assignor:           b.CompactNullableString(),
	}
	f := kbin.Reader{Src: readTags(b)}
	switch {
	case !b.Ok():
		return nil, b.Complete()
	case f.Src == nil:
		v.Classic = &classicMetadata{}
	case f.Uvarint() != 0:
		v.Classic = readClassicMetadata(&f)
	}
	return v, f.Complete()
}

func readClassicMetadata(b *kbin.Reader) *classicMetadata {
	c := &classicMetadata{SessionTimeoutMs: b.Int32()}
	for range readLen(b) {
		if !b.Ok() {
			break
		}
		p := kmsg.NewJoinGroupRequestProtocol()
		p.Name = b.CompactString()
		p.Metadata = slices.Clone(b.CompactBytes())
		readTags(b)
		c.Protocols = append(c.Protocols, p)
	}
	readTags(b)
	return c
}

func appendTarget(v *target) []byte {
	return append(appendPartitions(newValue(partitionsSize(v.Topics)+1), v.Topics, false), 0)
}

func readTarget(value []byte) (*target, error) {
	b, err := openValue(value)
	if err != nil {
		return nil, err
	}
	v := &target{Topics: readPartitions(b)}
	readTags(b)
	return v, b.Complete()
}

func appendCurrent(v *current) []byte {
	b := newValue(9 + partitionsSize(v.Assigned) + partitionsSize(v.PendingRevocation) + 1)
	b = kbin.AppendInt32(b, v.Epoch)
	b = kbin.AppendInt32(b, v.PreviousEpoch)
	b = kbin.AppendInt8(b, int8(v.State))
	b = appendPartitions(b, v.Assigned, true)
	b = appendPartitions(b, v.PendingRevocation, true)
	return append(b, 0)
}

func readCurrent(value []byte) (*current, error) {
	b, err := openValue(value)
	if err != nil {
		return nil, err
	}
	v := &current{
		Epoch:             b.Int32(),
		PreviousEpoch:     b.Int32(),
		State:             memberState(b.Int8()),
		Assigned:          readPartitions(b),
		PendingRevocation: readPartitions(b),
	}
	readTags(b)
	return v, b.Complete()
}

func appendRegex(v *regexTopics) []byte {
	b := appendStrings(newValue(64), v.Topics)
	b = kbin.AppendInt64(b, v.Version)
	b = kbin.AppendInt64(b, v.AtMs)
	return append(b, 0)
}

func readRegex(value []byte) (*regexTopics, error) {
	b, err := openValue(value)
	if err != nil {
		return nil, err
	}
	v := &regexTopics{Topics: readStrings(b), Version: b.Int64(), AtMs: b.Int64()}
	readTags(b)
	return v, b.Complete()
}

func appendStrings(b []byte, all []string) []byte {
	b = kbin.AppendCompactArrayLen(b, len(all))
	for _, s := range all {
		b = kbin.AppendCompactString(b, s)
	}
	return b
}

func readStrings(b *kbin.Reader) []string {
	n := readLen(b)
	if n == 0 {
		return nil
	}
	all := make([]string, 0, n)
	for range n {
		all = append(all, b.CompactString())
	}
	return all
}

// readLen is the length of an array that cannot be null, at most one element a
// byte that is left.
func readLen(b *kbin.Reader) int {
	n := b.CompactArrayLen()
	if n < 0 {
		b.Span(-1)
		return 0
	}
	return int(n)
}

// partitionsSize is at least the size of what appendPartitions writes.
func partitionsSize(all []topicPartitions) int {
	n := 5
	for i := range all {
		n += 16 + 5 + 1 + 6 + 5 + 4*(len(all[i].Partitions)+len(all[i].Epochs))
	}
	return n
}

// appendPartitions writes epochs as tag 0, where there are any and the record
// has them.
func appendPartitions(b []byte, all []topicPartitions, epochs bool) []byte {
	b = kbin.AppendCompactArrayLen(b, len(all))
	for i := range all {
		t := &all[i]
		b = append(b, t.Topic[:]...)
		b = appendInts(b, t.Partitions)
		if !epochs || len(t.Epochs) == 0 {
			b = appendTags(b, 0)
			continue
		}
		b = appendTags(b, kbin.UvarintLen(uint32(len(t.Epochs)+1))+4*len(t.Epochs))
		b = appendInts(b, t.Epochs)
	}
	return b
}

// partitionsMin is the least size of a topic: its id, no partitions, no tags.
const partitionsMin = 16 + 1 + 1

func readPartitions(b *kbin.Reader) []topicPartitions {
	n := readLen(b)
	if n == 0 {
		return nil
	}
	all := make([]topicPartitions, 0, min(n, len(b.Src)/partitionsMin))
	for range n {
		t := topicPartitions{Topic: kafka.TopicID(b.Uuid()), Partitions: readInts(b)}
		if zero := readTags(b); zero != nil {
			f := kbin.Reader{Src: zero}
			// Null, which reads as length -1, is written for no epochs.
			if f.Uvarint() != 0 {
				f.Src = zero
				t.Epochs = readInts(&f)
			}
			if !f.Ok() {
				b.Span(-1)
			}
		}
		if len(t.Epochs) != len(t.Partitions) {
			t.Epochs = nil // as Apache Kafka takes it: unknown
		}
		if !b.Ok() {
			return nil
		}
		all = append(all, t)
	}
	return all
}

func appendInts(b []byte, all []int32) []byte {
	b = kbin.AppendCompactArrayLen(b, len(all))
	for _, i := range all {
		b = kbin.AppendInt32(b, i)
	}
	return b
}

func readInts(b *kbin.Reader) []int32 {
	n := readLen(b)
	if n == 0 {
		return nil
	}
	if n > len(b.Src)/4 {
		b.Span(-1)
		return nil
	}
	all := make([]int32, n)
	for i := range all {
		all[i] = b.Int32()
	}
	return all
}
