package group

import (
	"bytes"
	"encoding/hex"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
)

var (
	goldenID  = kafka.TopicID{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	goldenID2 = kafka.TopicID{17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32}
)

// goldenClassic is the sample of a classic group, as its version has it.
func goldenClassic(version int16) body {
	m := kmsg.NewGroupMetadataValueMember()
	m.MemberID, m.ClientID, m.ClientHost = "m1", "c", "/127.0.0.1"
	m.SessionTimeoutMillis = 45000
	m.Subscription, m.Assignment = []byte{1, 2}, []byte{3}
	m2 := kmsg.NewGroupMetadataValueMember()
	m2.MemberID, m2.ClientHost, m2.SessionTimeoutMillis = "m2", "h", 2
	m2.Subscription, m2.Assignment = []byte{}, []byte{}
	v := kmsg.NewGroupMetadataValue()
	v.Version, v.ProtocolType, v.Generation = version, "consumer", 3
	v.Protocol, v.Leader = ptr("range"), ptr("m1")
	if version >= 1 {
		m.RebalanceTimeoutMillis, m2.RebalanceTimeoutMillis = 300000, 1
	}
	if version >= 2 {
		v.CurrentStateTimestamp = 77
	}
	if version >= 3 {
		m.InstanceID = ptr("i1")
	}
	v.Members = []kmsg.GroupMetadataValueMember{m, m2}
	return &classicRecord{"g", &v}
}

func goldenOffset(o offset) body { return &offsetRecord{"g", "topic-é", 7, &o} }

func goldenMember(m memberMetadata) body { return &memberRecord{"g", "m", &m} }

func goldenCurrent(c current) body { return &currentRecord{"g", "m", &c} }

// golden are the bodies of testdata/records.txt.
func golden() map[string]body {
	empty := kmsg.NewGroupMetadataValue()
	empty.Version = 3
	return map[string]body{
		"offset-v4":        goldenOffset(offset{1234567890123, 5, "méta", 1700000000123, -1, goldenID}),
		"offset-v4-plain":  goldenOffset(offset{Offset: 1, LeaderEpoch: -1, CommitMs: 2, ExpireMs: -1}),
		"offset-v4-long":   goldenOffset(offset{1, -1, strings.Repeat("x", 200), 2, -1, goldenID}),
		"offset-v3":        goldenOffset(offset{Offset: 9, LeaderEpoch: 5, Metadata: "m", CommitMs: 10, ExpireMs: -1}),
		"offset-v2":        goldenOffset(offset{Offset: 9, LeaderEpoch: -1, Metadata: "m", CommitMs: 10, ExpireMs: -1}),
		"offset-v1":        goldenOffset(offset{Offset: 9, LeaderEpoch: -1, Metadata: "m", CommitMs: 10, ExpireMs: 11}),
		"offset-v0":        goldenOffset(offset{Offset: 9, LeaderEpoch: -1, Metadata: "m", CommitMs: 10, ExpireMs: -1}),
		"offset-tombstone": &offsetRecord{Group: "g", Topic: "topic-é", Partition: 7},
		"offset-legacy":    &offsetRecord{"g", "t", 7, &offset{Offset: 9, LeaderEpoch: -1, Metadata: "m", CommitMs: 10, ExpireMs: -1}},

		"classic-v0":        goldenClassic(0),
		"classic-v1":        goldenClassic(1),
		"classic-v2":        goldenClassic(2),
		"classic-v3":        goldenClassic(3),
		"classic-v4":        goldenClassic(4),
		"classic-empty":     &classicRecord{"g", &empty},
		"classic-tombstone": &classicRecord{"g", nil},

		"member": goldenMember(memberMetadata{Instance: ptr("i"), Rack: ptr("r"), ClientID: "c", Host: "h", Topics: []string{"a", "b"},
			Regex: ptr("x.*"), RebalanceTimeoutMs: 1000, Assignor: ptr("uniform")}),
		"member-plain": goldenMember(memberMetadata{RebalanceTimeoutMs: -1}),
		"member-classic": goldenMember(memberMetadata{ClientID: "c", Host: "h", Topics: []string{"a"}, RebalanceTimeoutMs: 5,
			Classic: &classicMetadata{45000, []kmsg.JoinGroupRequestProtocol{{Name: "range", Metadata: []byte{1, 2, 3}}, {Name: "sticky", Metadata: []byte{}}}}}),
		"member-classic-none": goldenMember(memberMetadata{ClientID: "c", Host: "h", Topics: []string{"a"}, RebalanceTimeoutMs: 5, Classic: &classicMetadata{}}),
		"member-tombstone":    &memberRecord{"g", "m", nil},

		"target":           &targetRecord{"g", "m", &target{[]topicPartitions{{goldenID, []int32{0, 1, 300}, nil}, {goldenID2, []int32{2}, nil}}}},
		"target-none":      &targetRecord{"g", "m", &target{}},
		"target-tombstone": &targetRecord{"g", "m", nil},

		"current": goldenCurrent(current{6, 5, memberUnrevokedPartitions, []topicPartitions{{goldenID, []int32{0, 1}, []int32{6, 4}}},
			[]topicPartitions{{goldenID2, []int32{3}, []int32{5}}}}),
		"current-no-epochs":   goldenCurrent(current{6, 5, memberStable, []topicPartitions{{goldenID, []int32{0, 1}, nil}}, nil}),
		"current-null-epochs": goldenCurrent(current{6, 5, memberStable, []topicPartitions{{goldenID, []int32{0, 1}, nil}}, nil}),
		"current-none":        goldenCurrent(current{Epoch: -2, State: memberUnknown}),
		"current-tombstone":   &currentRecord{"g", "m", nil},

		"group-epoch":                  &groupEpochRecord{"g", &groupEpoch{4, -3}},
		"group-epoch-no-hash":          &groupEpochRecord{"g", &groupEpoch{Epoch: 4}},
		"group-epoch-tombstone":        &groupEpochRecord{"g", nil},
		"target-epoch":                 &targetEpochRecord{"g", &targetEpoch{4, 1700000000123}},
		"target-epoch-no-time":         &targetEpochRecord{"g", &targetEpoch{Epoch: 4}},
		"target-epoch-tombstone":       &targetEpochRecord{"g", nil},
		"partition-metadata":           &partitionMetadataRecord{Group: "g"},
		"partition-metadata-none":      &partitionMetadataRecord{Group: "g"},
		"partition-metadata-tombstone": &partitionMetadataRecord{"g", true},
		"regex":                        &regexRecord{"g", "x.*", &regexTopics{[]string{"xa", "xb"}, 12, 13}},
		"regex-none":                   &regexRecord{"g", "x.*", &regexTopics{}},
		"regex-tombstone":              &regexRecord{"g", "x.*", nil},
		"share":                        nil,
		"streams":                      nil,
	}
}

// readOnly are forms that were written once, or that we never write.
var readOnly = []string{"offset-v3", "offset-v2", "offset-v0", "offset-legacy", "classic-v0", "classic-v1", "classic-v2", "classic-v4",
	"current-null-epochs", "partition-metadata", "share", "streams"}

func ptr[T any](v T) *T { return &v }

type goldenRecord struct {
	name       string
	key, value []byte
}

func goldenRecords(t testing.TB) (all []goldenRecord) {
	t.Helper()
	text, err := os.ReadFile("testdata/records.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		if f[0] == "#" {
			continue
		}
		r := goldenRecord{name: f[0]}
		if r.key, err = hex.DecodeString(f[1]); err != nil {
			t.Fatal(err)
		}
		if f[2] != "-" {
			if r.value, err = hex.DecodeString(f[2]); err != nil {
				t.Fatal(err)
			}
		}
		all = append(all, r)
	}
	return all
}

func TestRecordsAreApacheKafkas(t *testing.T) {
	want := golden()
	for _, r := range goldenRecords(t) {
		b, ok := want[r.name]
		if !ok {
			t.Errorf("%s: not expected", r.name)
			continue
		}
		delete(want, r.name)
		key, value := slices.Clone(r.key), slices.Clone(r.value)
		got, err := decode(key, value)
		if err != nil {
			t.Errorf("%s: %v", r.name, err)
			continue
		}
		// The buffer of a load is used again.
		for i := range key {
			key[i] = 0xff
		}
		for i := range value {
			value[i] = 0xff
		}
		if !reflect.DeepEqual(got, b) {
			t.Errorf("%s: read as %#v, not %#v", r.name, got, b)
		}
		if slices.Contains(readOnly, r.name) {
			continue
		}
		key, value = encode(b)
		if !bytes.Equal(key, r.key) || !bytes.Equal(value, r.value) || (value == nil) != (r.value == nil) {
			t.Errorf("%s: written as %x %x, not %x %x", r.name, key, value, r.key, r.value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		t.Errorf("%s: no record", name)
	}
}

func TestDecodeRefuses(t *testing.T) {
	for _, r := range goldenRecords(t) {
		if golden()[r.name] == nil {
			continue
		}
		for n := range r.key {
			if b, err := decode(r.key[:n], r.value); err == nil {
				t.Errorf("%s: %d bytes of a key of %d read as %#v", r.name, n, len(r.key), b)
			}
		}
		if r.name == "partition-metadata" || r.name == "partition-metadata-none" {
			continue // its value says nothing to us
		}
		for n := range r.value {
			if b, err := decode(r.key, r.value[:n]); err == nil {
				t.Errorf("%s: %d bytes of a value of %d read as %#v", r.name, n, len(r.value), b)
			}
		}
		for _, version := range []byte{5, 0xff} {
			if r.value == nil {
				continue
			}
			v := slices.Clone(r.value)
			v[0], v[1] = 0, version
			if version == 0xff {
				v[0] = 0xff
			}
			if b, err := decode(r.key, v); err == nil {
				t.Errorf("%s: version %d read as %#v", r.name, int8(version), b)
			}
		}
	}
	if _, err := decode([]byte{0, 0, 0, 1, 'g', 0, 1, 't', 0, 0, 0, 0}, []byte{0, 1}); err == nil {
		t.Error("a legacy offset has version 0 alone")
	}
}

// A tag that a newer version has added is skipped.
func TestDecodeSkipsTags(t *testing.T) {
	key, value := encode(&offsetRecord{"g", "t", 0, &offset{Offset: 1, LeaderEpoch: -1, ExpireMs: -1}})
	value[len(value)-1] = 2
	value = append(value, 0, 16)
	value = append(value, goldenID[:]...)
	value = append(value, 7, 2, 'h', 'i')
	b, err := decode(key, value)
	if err != nil || b.(*offsetRecord).Value.TopicID != goldenID {
		t.Fatalf("%#v %v", b, err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, r := range goldenRecords(f) {
		f.Add(r.key, r.value)
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		b, err := decode(key, value)
		if b == nil || err != nil {
			return
		}
		// What was read can be written, and reads the same.
		key, value = encode(b)
		again, err := decode(key, value)
		if c, ok := b.(*classicRecord); ok && c.Value != nil {
			c.Value.Version = classicVersion
		}
		if err != nil || !reflect.DeepEqual(b, again) {
			t.Fatalf("%#v\n%#v %v", b, again, err)
		}
	})
}

func TestEncodeOffsetAllocatesOnce(t *testing.T) {
	r := goldenOffset(offset{1, 2, "", 3, -1, goldenID})
	if n := testing.AllocsPerRun(100, func() { encode(r) }); n != 1 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkEncodeOffset(b *testing.B) {
	r := goldenOffset(offset{1, 2, "", 3, -1, goldenID})
	b.ReportAllocs()
	for b.Loop() {
		encode(r)
	}
}
