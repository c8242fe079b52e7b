package api

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// scatter encodes a FetchResponse as parts: what lies around the records in
// memory, and the records as the file ranges they are. The bytes are those
// that kmsg would have written for the same response with the records in it;
// a test holds them against each other for every version.
type scatter struct {
	resp  *kmsg.FetchResponse // its topics are not looked at
	parts []wire.Part
	buf   *wire.Buffer // one buffer for all parts in memory
	from  int          // where in buf the part under construction begins
	flex  bool
}

// newScatter begins the answer with all that goes before the topics.
func newScatter(resp *kmsg.FetchResponse, topics, partitions int) *scatter {
	s := &scatter{resp: resp, flex: resp.Version >= 12, buf: wire.GetBuffer(64 + 64*partitions)}
	s.buf.B = s.buf.B[:0]
	s.int32(resp.ThrottleMillis)
	if resp.Version >= 7 {
		s.int16(resp.ErrorCode)
		s.int32(resp.SessionID)
	}
	s.length(topics)
	return s
}

// topic begins one; so many partitions follow, and noTags.
func (s *scatter) topic(name string, id kafka.TopicID, partitions int) {
	if s.resp.Version >= 13 {
		s.buf.B = append(s.buf.B, id[:]...)
	} else {
		s.string(name)
	}
	s.length(partitions)
}

// end returns the response's body in parts. They live until buf is released.
func (s *scatter) end() []wire.Part {
	if s.flex {
		s.brokers()
	}
	s.cut()
	return s.parts
}

func (s *scatter) partition(p *kmsg.FetchResponseTopicPartition, records []storage.Slice) {
	v := s.resp.Version
	s.int32(p.Partition)
	s.int16(p.ErrorCode)
	s.int64(p.HighWatermark)
	s.int64(p.LastStableOffset)
	if v >= 5 {
		s.int64(p.LogStartOffset)
	}
	if p.AbortedTransactions == nil {
		s.null()
	} else {
		s.length(len(p.AbortedTransactions))
		for _, t := range p.AbortedTransactions {
			s.int64(t.ProducerID)
			s.int64(t.FirstOffset)
			s.noTags()
		}
	}
	if v >= 11 {
		s.int32(p.PreferredReadReplica)
	}
	size := 0
	for _, r := range records {
		size += r.Len()
	}
	s.length(size)
	if size > 0 {
		s.cut()
		for _, r := range records {
			s.parts = append(s.parts, wire.Part{File: r})
		}
	}
	if s.flex {
		s.partitionTags(p)
	}
}

// partitionTags writes the tagged fields that are not at their defaults.
func (s *scatter) partitionTags(p *kmsg.FetchResponseTopicPartition) {
	diverging := p.DivergingEpoch.Epoch != -1 || p.DivergingEpoch.EndOffset != -1
	leader := p.CurrentLeader.LeaderID != -1 || p.CurrentLeader.LeaderEpoch != -1
	n := 0
	for _, set := range []bool{diverging, leader} {
		if set {
			n++
		}
	}
	s.uvarint(n)
	if diverging {
		s.uvarint(0)
		s.uvarint(4 + 8 + 1)
		s.int32(p.DivergingEpoch.Epoch)
		s.int64(p.DivergingEpoch.EndOffset)
		s.noTags()
	}
	if leader {
		s.uvarint(1)
		s.uvarint(4 + 4 + 1)
		s.int32(p.CurrentLeader.LeaderID)
		s.int32(p.CurrentLeader.LeaderEpoch)
		s.noTags()
	}
}

// brokers writes the response's own tags.
func (s *scatter) brokers() {
	if len(s.resp.Brokers) == 0 {
		s.noTags()
		return
	}
	s.uvarint(1)
	s.uvarint(0)
	inner := scatter{flex: true, buf: wire.GetBuffer(0)}
	inner.length(len(s.resp.Brokers))
	for _, b := range s.resp.Brokers {
		inner.int32(b.NodeID)
		inner.string(b.Host)
		inner.int32(b.Port)
		if b.Rack == nil {
			inner.uvarint(0)
		} else {
			inner.string(*b.Rack)
		}
		inner.noTags()
	}
	s.uvarint(len(inner.buf.B))
	s.buf.B = append(s.buf.B, inner.buf.B...)
	inner.buf.Release()
}

// cut ends the part in memory that is under construction. A part keeps the
// backing array it was cut from: later growth of buf leaves it untouched.
func (s *scatter) cut() {
	if b := s.buf.B; len(b) > s.from {
		s.parts = append(s.parts, wire.Part{Mem: b[s.from:len(b):len(b)]})
		s.from = len(b)
	}
}

func (s *scatter) int16(v int16) { s.buf.B = binary.BigEndian.AppendUint16(s.buf.B, uint16(v)) }
func (s *scatter) int32(v int32) { s.buf.B = binary.BigEndian.AppendUint32(s.buf.B, uint32(v)) }
func (s *scatter) int64(v int64) { s.buf.B = binary.BigEndian.AppendUint64(s.buf.B, uint64(v)) }
func (s *scatter) uvarint(v int) { s.buf.B = binary.AppendUvarint(s.buf.B, uint64(v)) }

// length writes the length of an array or of bytes.
func (s *scatter) length(n int) {
	if s.flex {
		s.uvarint(n + 1)
		return
	}
	s.int32(int32(n))
}

// null writes a null array.
func (s *scatter) null() {
	if s.flex {
		s.uvarint(0)
		return
	}
	s.int32(-1)
}

func (s *scatter) string(v string) {
	if s.flex {
		s.uvarint(len(v) + 1)
	} else {
		s.int16(int16(len(v)))
	}
	s.buf.B = append(s.buf.B, v...)
}

// noTags ends a flexible structure that has no tagged fields.
func (s *scatter) noTags() {
	if s.flex {
		s.buf.B = append(s.buf.B, 0)
	}
}
