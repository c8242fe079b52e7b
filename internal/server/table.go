package server

import (
	"context"
	"fmt"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// Handler is the one signature. The returned response has its version set; a nil
// response with a nil error means that the request was answered in another way
// (Request.Scatter, NoAnswer, Disconnect).
type Handler func(ctx context.Context, r *Request) (kmsg.Response, error)

// Entry is a line of the table; made by On.
type Entry struct {
	key      int16
	min, max int16
	kmsgMax  int16
	flexible int16 // first flexible version
	cost     int64 // see wire.Cost
	handle   Handler
}

// On registers a method for its API key between two versions. The key and both
// layouts come from the method's parameter types. ctx ends when the peer hangs up
// or the server stops; a hang-up is watched for from the first call of its Done (a
// select on it, a context derived from it).
//
// An error that the method returns becomes the answer's top-level error code where
// the response has one; where it has none the connection is closed, since there
// is no way to say it.
func On[Req, Resp any](min, max int16, h func(ctx context.Context, r *Request, req *Req, resp *Resp) error) Entry {
	probe, ok := any(new(Req)).(kmsg.Request)
	if !ok {
		panic(fmt.Sprintf("server.On: %T is no kmsg.Request", new(Req)))
	}
	answer, ok := any(new(Resp)).(kmsg.Response)
	if !ok || answer.Key() != probe.Key() {
		panic(fmt.Sprintf("server.On: %T does not answer %T", new(Resp), new(Req)))
	}
	e := Entry{key: probe.Key(), min: min, max: max, kmsgMax: probe.MaxVersion(), cost: wire.Cost(probe.Key())}
	e.flexible = firstFlexible(probe)
	e.handle = func(ctx context.Context, r *Request) (kmsg.Response, error) {
		req, resp := new(Req), new(Resp)
		q, a := any(req).(kmsg.Request), any(resp).(kmsg.Response)
		q.SetVersion(r.Version)
		if err := wire.ParseBody(q, r.call.body); err != nil {
			return nil, err
		}
		if d, ok := a.(interface{ Default() }); ok {
			d.Default()
		}
		a.SetVersion(r.Version)
		return a, h(ctx, r, req, resp)
	}
	return e
}

func firstFlexible(r kmsg.Request) int16 {
	for v := int16(0); v <= r.MaxVersion(); v++ {
		r.SetVersion(v)
		if r.IsFlexible() {
			return v
		}
	}
	return r.MaxVersion() + 1
}

// Table of handlers. It is immutable; the zero value serves nothing.
type Table struct {
	entries []*Entry // by key, nil where nothing is served
}

// NewTable panics on a double key, an empty range, or a maximum above kmsg's.
func NewTable(entries ...Entry) Table {
	var t Table
	for _, e := range entries {
		name := kmsg.NameForKey(e.key)
		switch {
		case e.handle == nil:
			panic("server.NewTable: an entry that On did not make")
		case t.find(e.key) != nil:
			panic("server.NewTable: " + name + " is registered twice")
		case e.min < 0 || e.min > e.max:
			panic(fmt.Sprintf("server.NewTable: %s versions %d to %d", name, e.min, e.max))
		case e.max > e.kmsgMax:
			panic(fmt.Sprintf("server.NewTable: %s version %d, but kmsg knows %d", name, e.max, e.kmsgMax))
		}
		if n := int(e.key) + 1; n > len(t.entries) {
			t.entries = append(t.entries, make([]*Entry, n-len(t.entries))...)
		}
		t.entries[e.key] = &e
	}
	return t
}

func (t Table) find(key int16) *Entry {
	if key < 0 || int(key) >= len(t.entries) {
		return nil
	}
	return t.entries[key]
}

// Range is the versions of a key.
type Range struct {
	Key, Min, Max int16
}

// Served lists what the table serves, by key.
func (t Table) Served() []Range {
	var out []Range
	for _, e := range t.entries {
		if e != nil {
			out = append(out, Range{e.key, e.min, e.max})
		}
	}
	return out
}

// Advertised is Served as ApiVersions must tell it: Produce from version 0, though
// 0 to 2 close the connection, because librdkafka 2.0 to 2.8 take a higher minimum
// for a broker without compression (KAFKA-18659).
func (t Table) Advertised() []Range {
	out := slices.Clone(t.Served())
	for i := range out {
		if out[i].Key == wire.KeyProduce {
			out[i].Min = 0
		}
	}
	return out
}
