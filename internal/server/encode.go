package server

import (
	"encoding/binary"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// encode turns what the handler left into bytes. Nothing of the frame is needed after it.
func (c *conn) encode(k *call, resp kmsg.Response, err error) {
	if err != nil {
		resp = c.failed(k, resp, err)
	}
	switch {
	case k.silent:
	case k.scattered:
		c.encodeParts(k)
	case resp == nil:
		k.silent, k.hangUp = true, true
	default:
		k.answer = wire.GetBuffer(0)
		k.answer.B = wire.AppendResponse(k.answer.B, resp, k.Correlation)
	}
}

// encodeParts makes the header of a scattered answer, and when little of nothing but
// memory follows, all of it: one piece is cheaper to send than several.
func (c *conn) encodeParts(k *call) {
	size, files := 0, false
	for _, p := range k.parts {
		size += p.Len()
		files = files || p.Mem == nil
	}
	small := !files && size <= copySmall
	k.answer = wire.GetBuffer(0)
	k.answer.B = wire.AppendResponseHeader(k.answer.B, k.Key, k.Correlation, k.Version >= k.entry.flexible)
	putLength(k.answer.B, len(k.answer.B)-wire.LengthBytes+size)
	if small {
		for _, p := range k.parts {
			k.answer.B = append(k.answer.B, p.Mem...)
		}
		k.parts, k.scattered = nil, false
	}
}

func putLength(frame []byte, size int) { binary.BigEndian.PutUint32(frame, uint32(size)) }
