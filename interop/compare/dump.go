//go:build interop

package main

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

// dumpAnswer is dump with topics and partitions sorted where Apache Kafka
// answers in the order of a hash map: everywhere but in Fetch, where the order
// of the request decides what fits. There it has moved what it does not know
// to the end, and so does this.
func (s *session) dumpAnswer(resp kmsg.Response) string {
	if f, ok := resp.(*kmsg.FetchResponse); ok {
		return s.dump(unknownLast(f))
	}
	s.sorted = true
	defer func() { s.sorted = false }()
	return s.dump(resp)
}

// unknownLast is a copy of an answer with the partitions that do not exist
// behind the others.
func unknownLast(resp *kmsg.FetchResponse) *kmsg.FetchResponse {
	rank := func(p kmsg.FetchResponseTopicPartition) int {
		switch p.ErrorCode {
		case kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code:
			return 1
		}
		return 0
	}
	out := *resp
	out.Topics = slices.Clone(resp.Topics)
	for i := range out.Topics {
		t := &out.Topics[i]
		t.Partitions = slices.Clone(t.Partitions)
		slices.SortStableFunc(t.Partitions, func(a, b kmsg.FetchResponseTopicPartition) int { return cmp.Compare(rank(a), rank(b)) })
	}
	first := func(t kmsg.FetchResponseTopic) int {
		if len(t.Partitions) == 0 {
			return 0
		}
		return rank(t.Partitions[0])
	}
	slices.SortStableFunc(out.Topics, func(a, b kmsg.FetchResponseTopic) int { return cmp.Compare(first(a), first(b)) })
	return &out
}

// ordered lists the elements of a slice, sorted if the session says so.
func (s *session) ordered(v reflect.Value) []reflect.Value {
	all := make([]reflect.Value, v.Len())
	for i := range all {
		all[i] = v.Index(i)
	}
	if !s.sorted {
		return all
	}
	slices.SortStableFunc(all, func(a, b reflect.Value) int {
		return strings.Compare(s.sortKey(a), s.sortKey(b))
	})
	return all
}

// sortKey orders topics, nameless ones last, partitions, groups and members.
func (s *session) sortKey(v reflect.Value) string {
	key := ""
	for _, name := range append([]string{"Topic", "TopicID", "Partition", "Group", "MemberID", "InstanceID", "ErrorCode"}, s.further...) {
		switch f := v.FieldByName(name); {
		case !f.IsValid():
		case name == "TopicID":
			key += s.idName(f.Interface().([16]byte))
		case f.Kind() == reflect.Pointer && f.IsNil():
			key += "~"
		case reflect.Indirect(f).CanInt():
			key += fmt.Sprintf("%011d", reflect.Indirect(f).Int())
		case reflect.Indirect(f).Kind() == reflect.String:
			key += s.plain(reflect.Indirect(f).String())
		}
	}
	return key
}

// dump prints a message as indented text in which everything that differs
// from broker to broker and from run to run has a stable name.
func (s *session) dump(v any) string {
	var b strings.Builder
	s.dumpStruct(&b, reflect.Indirect(reflect.ValueOf(v)), "  ")
	return b.String()
}

func (s *session) dumpStruct(b *strings.Builder, v reflect.Value, indent string) {
	var nested []int
	var line []string
	for i := range v.NumField() {
		f := v.Type().Field(i)
		fv := v.Field(i)
		switch {
		case f.Name == "Version" && f.Type.Kind() == reflect.Int16:
			continue
		case f.Type == reflect.TypeFor[kmsg.Tags]():
			if t := fv.Interface().(kmsg.Tags); t.Len() > 0 {
				t.Each(func(k uint32, val []byte) { line = append(line, fmt.Sprintf("tag%d=%x", k, val)) })
			}
			continue
		case isNested(f.Type):
			nested = append(nested, i)
			continue
		}
		if text := f.Name + "=" + s.field(v, f.Name, fv); !noise[text] {
			line = append(line, text)
		}
	}
	if len(line) == 0 && len(nested) > 0 {
		line = append(line, "·")
	}
	b.WriteString(strings.Join(line, " ") + "\n")
	for _, i := range nested {
		s.dumpNested(b, v.Type().Field(i).Name, v.Field(i), indent)
	}
}

// field is scalar for what depends on the fields beside it: an error may come
// with a sentence or without, and Apache Kafka tells of some refused batches
// where the log begins.
func (s *session) field(of reflect.Value, name string, v reflect.Value) string {
	code := of.FieldByName("ErrorCode")
	if code.IsValid() && code.Int() != 0 {
		_, produced := of.Interface().(kmsg.ProduceResponseTopicPartition)
		if name == "ErrorMessage" && !s.messages || name == "LogStartOffset" && produced {
			return "<any>"
		}
	}
	return s.scalar(name, v)
}

// noise is what kmsg puts into fields that the version lacks.
var noise = map[string]bool{
	"ReplicaDirectoryID=0": true, "HighWatermark=9223372036854775807": true, "MaxNumOffsets=1": true, "OldStyleOffsets=[]": true,
	"Rack=\"\"": true, "TopicID=0": true,
}

// blank tells of a struct whose numbers all say "not there".
func blank(v reflect.Value) bool {
	numbers := false
	for i := range v.NumField() {
		f := v.Field(i)
		if f.CanInt() && f.Int() != -1 {
			return false
		}
		numbers = numbers || f.CanInt()
	}
	return numbers
}

func isNested(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Kind() == reflect.Struct || t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Struct
}

func (s *session) dumpNested(b *strings.Builder, name string, v reflect.Value, indent string) {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			fmt.Fprintf(b, "%s%s: null\n", indent, name)
			return
		}
		v = v.Elem()
	}
	if v.Kind() == reflect.Struct && blank(v) {
		return
	}
	if v.Kind() == reflect.Struct {
		fmt.Fprintf(b, "%s%s: ", indent, name)
		s.dumpStruct(b, v, indent+"  ")
		return
	}
	switch {
	case v.IsNil():
		fmt.Fprintf(b, "%s%s: null\n", indent, name)
	case v.Len() == 0:
		fmt.Fprintf(b, "%s%s: []\n", indent, name)
	default:
		fmt.Fprintf(b, "%s%s:\n", indent, name)
		for _, e := range s.ordered(v) {
			fmt.Fprintf(b, "%s- ", indent)
			s.dumpStruct(b, e, indent+"  ")
		}
	}
}

func (s *session) scalar(name string, v reflect.Value) string {
	if v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return "null"
		}
		v = v.Elem()
	}
	switch x := v.Interface().(type) {
	case [16]byte:
		return s.idName(x)
	case []byte:
		if name == "Records" || name == "RecordBatches" {
			return s.records(x)
		}
		return s.opaque(name, x)
	case []int32:
		if name == "Partitions" && s.sorted {
			x = slices.Sorted(slices.Values(x))
		}
		return fmt.Sprint(x)
	case string:
		return s.text(name, x)
	case []string:
		if x == nil {
			return "null"
		}
		return s.plain(fmt.Sprintf("%q", x))
	case int16:
		if name == "ErrorCode" {
			return errName(x)
		}
	case int32:
		if name == "Port" {
			return "<port>"
		}
		if name == "SessionID" && x != 0 {
			return s.alias("session", int64(x))
		}
	case int64:
		switch {
		case name == "ProducerID" && x >= 0 && !s.fixedPIDs[x]:
			return s.alias("pid", x)
		case strings.Contains(name, "Timestamp") || name == "LogAppendTime":
			return stamp(x)
		}
	}
	return fmt.Sprint(v.Interface())
}

func (s *session) text(name, x string) string {
	switch name {
	case "ClusterID":
		return "<cluster>"
	case "ErrorMessage":
		if !s.messages {
			return "<text>"
		}
	}
	return fmt.Sprintf("%q", s.plain(x))
}

// stamp hides a time of the clock and keeps one that the case chose.
func stamp(ms int64) string {
	d := time.Until(time.UnixMilli(ms))
	switch {
	case d.Abs() < 10*time.Minute:
		return "<now>"
	case d > 365*24*time.Hour && d < 365*24*time.Hour*20:
		return "<future>"
	}
	return fmt.Sprint(ms)
}

func errName(code int16) string {
	if code == 0 {
		return "0"
	}
	if e := kerr.TypedErrorForCode(code); e != nil {
		return fmt.Sprintf("%d:%s", code, e.Message)
	}
	return fmt.Sprint(code)
}

// records sums up batches: what a broker may not change, and what it sets.
func (s *session) records(b []byte) string {
	if b == nil {
		return "null"
	}
	if len(b) == 0 {
		return "empty"
	}
	var out []string
	rest, err := raw.Walk(b, func(h raw.Header, _ []byte) error {
		pid := "-1"
		if h.ProducerID >= 0 {
			pid = s.alias("pid", h.ProducerID)
		}
		recs := "?"
		if got, err := h.Unpack(); err == nil {
			recs = recordList(got)
		}
		size := fmt.Sprint(h.Size)
		if s.recompressed {
			size = "<any>"
		}
		out = append(out, fmt.Sprintf("{base=%d size=%s epoch=%d magic=%d attr=%d lastDelta=%d ts=%s..%s pid=%s/%d seq=%d n=%d %s}",
			h.FirstOffset, size, h.PartitionLeaderEpoch, h.Magic, h.Attributes, h.LastOffsetDelta,
			stamp(h.FirstTimestamp), stamp(h.MaxTimestamp), pid, h.ProducerEpoch, h.FirstSequence, h.NumRecords, recs))
		return nil
	})
	if err != nil {
		out = append(out, err.Error())
	}
	if rest > 0 {
		out = append(out, fmt.Sprintf("+%d bytes", rest))
	}
	return strings.Join(out, "")
}

func recordList(recs []kmsg.Record) string {
	var parts []string
	for i, r := range recs {
		if i == 4 {
			parts = append(parts, "...")
			break
		}
		val := fmt.Sprintf("%q", r.Value)
		if len(r.Value) > 24 {
			val = fmt.Sprintf("%d bytes", len(r.Value))
		}
		key := "null"
		if r.Key != nil {
			key = fmt.Sprintf("%q", r.Key)
		}
		parts = append(parts, fmt.Sprintf("%d/%d %s=%s", r.OffsetDelta, r.TimestampDelta64, key, val))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func (s *session) idName(id [16]byte) string {
	if id == ([16]byte{}) {
		return "0"
	}
	if n, ok := s.ids[id]; ok {
		return "id(" + n + ")"
	}
	if s.step != "" && !slices.Contains(fixedIDs, id) {
		return "id(?)" // made of a real one by damage
	}
	return hex.EncodeToString(id[:])
}
