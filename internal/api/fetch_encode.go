package api

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/wire"
)

// scatter encodes a FetchResponse as parts: what lies around the records in
// memory, and the records as the file ranges they are. The bytes are those
// that kmsg would have written for the same response with the records in it;
// a test holds them against each other for every version.
type scatter struct {
	resp   *kmsg.FetchResponse
	slices [][]storage.Slice // per partition, in the order of the response
	parts  []wire.Part
	buf    []byte // one buffer for all parts in memory
	from   int    // where in buf the part under construction begins
	flex   bool
}

func newScatter(resp *kmsg.FetchResponse, partitions int) *scatter {
	return &scatter{
		resp:   resp,
		slices: make([][]storage.Slice, 0, partitions),
		parts:  make([]wire.Part, 0, 2*partitions+1),
		buf:    make([]byte, 0, 64+96*partitions),
		flex:   resp.Version >= 12,
	}
}

// encode returns the response's body in parts.
func (s *scatter) encode() []wire.Part {
	r := s.resp
	s.int32(r.ThrottleMillis)
	if r.Version >= 7 {
		s.int16(r.ErrorCode)
		s.int32(r.SessionID)
	}
	s.length(len(r.Topics))
	next := 0
	for i := range r.Topics {
		t := &r.Topics[i]
		if r.Version >= 13 {
			s.buf = append(s.buf, t.TopicID[:]...)
		} else {
			s.string(t.Topic)
		}
		s.length(len(t.Partitions))
		for j := range t.Partitions {
			s.partition(&t.Partitions[j], s.slices[next])
			next++
		}
		s.noTags()
	}
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
	inner := scatter{flex: true}
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
	s.uvarint(len(inner.buf))
	s.buf = append(s.buf, inner.buf...)
}

// cut ends the part in memory that is under construction. A part keeps the
// backing array it was cut from: later growth of buf leaves it untouched.
func (s *scatter) cut() {
	if len(s.buf) > s.from {
		s.parts = append(s.parts, wire.Part{Mem: s.buf[s.from:len(s.buf):len(s.buf)]})
		s.from = len(s.buf)
	}
}

func (s *scatter) int16(v int16) { s.buf = binary.BigEndian.AppendUint16(s.buf, uint16(v)) }
func (s *scatter) int32(v int32) { s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(v)) }
func (s *scatter) int64(v int64) { s.buf = binary.BigEndian.AppendUint64(s.buf, uint64(v)) }
func (s *scatter) uvarint(v int) { s.buf = binary.AppendUvarint(s.buf, uint64(v)) }

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
	s.buf = append(s.buf, v...)
}

// noTags ends a flexible structure that has no tagged fields.
func (s *scatter) noTags() {
	if s.flex {
		s.buf = append(s.buf, 0)
	}
}
