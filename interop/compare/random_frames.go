//go:build interop

package main

import (
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/interop/raw"
)

// hurt is what happens to a frame between the header and its end.
type hurt struct {
	how   string
	where float64 // share of the body
	xor   byte
	tail  []byte
}

func (g *gen) damage() hurt {
	return hurt{
		how: pick(g, "cut", "cut", "flip", "flip", "flip", "flip", "tail", "insert"), where: g.Float64(),
		xor: byte(1 << g.IntN(8)), tail: pick(g, []byte{0}, []byte{0, 0, 0, 0}, []byte("trailing"), []byte{255, 255, 255, 255, 255}),
	}
}

func (h hurt) String() string {
	switch h.how {
	case "cut":
		return fmt.Sprintf("cut at %.4f", h.where)
	case "flip":
		return fmt.Sprintf("byte at %.4f xor %#x", h.where, h.xor)
	}
	return fmt.Sprintf("%s of %x at %.4f", h.how, h.tail, h.where)
}

// apply gives the damaged frame, its length right.
func (h hurt) apply(frame []byte, header int) []byte {
	at := header + int(h.where*float64(len(frame)-header))
	switch {
	case h.how == "cut":
		frame = frame[:at]
	case h.how == "flip" && at < len(frame):
		frame[at] ^= h.xor
	case h.how == "insert":
		frame = append(frame[:at:at], append(h.tail, frame[at:]...)...)
	default:
		frame = append(frame, h.tail...)
	}
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-4))
	return frame
}

// askDamaged sends a damaged request on a connection of its own, and then asks
// on the connection of the others whether that one goes on.
func (s *side) askDamaged(h hurt, req kmsg.Request) string {
	s.own(reflect.ValueOf(req))
	head := fmt.Sprintf("> %s v%d, %s: %s", kmsg.NameForKey(req.Key()), req.GetVersion(), h, s.dump(req))
	c := s.redial()
	defer c.Close()
	const client = "interop"
	frame := kmsg.NewRequestFormatter(kmsg.FormatterClientID(client)).AppendRequest(nil, req, 1)
	header := 4 + 8 + 2 + len(client)
	if req.IsFlexible() {
		header++
	}
	frame = h.apply(frame, header)
	if wild(req, frame[header:]) {
		return head + "< not asked\n"
	}
	if err := c.Write(frame); err != nil {
		s.fail("write: %v", err)
	}
	text := s.damagedAnswer(c, req)
	if _, err := s.c().Do(apiVersions(3, client, "1.0")); err != nil {
		s.hangUp()
		text += "# the other connection: " + answerError(err) + "\n"
	}
	return head + "< " + text
}

// wild tells of a request that damage made one of thousands of partitions that
// are created, or one whose time is over before it begins: what becomes of it
// depends on the clock.
func wild(req kmsg.Request, body []byte) bool {
	again := kmsg.RequestForKey(req.Key())
	again.SetVersion(req.GetVersion())
	if again.ReadFrom(body) != nil {
		return false
	}
	if t, ok := again.(interface{ Timeout() int32 }); ok && t.Timeout() < 1000 {
		return true
	}
	many := func(n int32) bool { return n > 20 && n <= 10000 }
	switch r := again.(type) {
	case *kmsg.CreateTopicsRequest:
		return slices.ContainsFunc(r.Topics, func(t kmsg.CreateTopicsRequestTopic) bool { return many(t.NumPartitions) })
	case *kmsg.CreatePartitionsRequest:
		return slices.ContainsFunc(r.Topics, func(t kmsg.CreatePartitionsRequestTopic) bool { return many(t.Count) })
	}
	return false
}

func (s *side) damagedAnswer(c *raw.Conn, req kmsg.Request) string {
	f, err := c.Read()
	if err != nil {
		return answerError(err) + "\n"
	}
	if f.Correlation != 1 {
		return fmt.Sprintf("correlation id %d\n", f.Correlation)
	}
	resp, err := raw.Decode(req, f)
	if err != nil {
		return fmt.Sprintf("answered, but not so that it can be read: %v\n", err)
	}
	return s.answer(resp)
}
