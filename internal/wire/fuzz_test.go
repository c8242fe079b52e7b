package wire

import (
	"errors"
	"reflect"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzRequest feeds every key and version of kmsg any bytes as header and body: no
// panic, no error of another kind, and what was read can be written.
func FuzzRequest(f *testing.F) {
	client := "client"
	eachVersion(func(req kmsg.Request) {
		f.Add(AppendRequest(nil, req, 7, &client)[LengthBytes:])
		for _, path := range arrays(reflect.TypeOf(req).Elem(), nil) {
			r := kmsg.RequestForKey(req.Key())
			r.SetVersion(req.GetVersion())
			fill(reflect.ValueOf(r).Elem(), path, 2)
			f.Add(AppendRequest(nil, r, 7, nil)[LengthBytes:])
		}
	})
	f.Add(append([]byte{0, 0, 0, 9, 0, 0, 0, 1, 0xff, 0xff, 0}, arrayBomb(1<<10, 8, 0, 0, 0, 0, 0, 1, 5, 0)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, req, err := ParseRequest(b)
		if err != nil {
			if !errors.Is(err, ErrMalformed) && !errors.Is(err, ErrUnsupported) {
				t.Fatalf("an error of another kind: %v", err)
			}
			return
		}
		req.AppendTo(nil)
		req.ResponseKind()
	})
}

// FuzzHeader: what is left of a frame is its tail, whatever the bytes.
func FuzzHeader(f *testing.F) {
	f.Add([]byte("\x00\x03\x00\x09\x00\x00\x00\x07\x00\x02me\x02\x00\x01a\x80\x01\x02bcX"), true)
	f.Add([]byte("\x00\x03\x00\x01\x00\x00\x00\x07\xff\xffX"), false)
	f.Add([]byte("\x00\x07\x00\x00\x00\x00\x00\x07"), false)
	f.Fuzz(func(t *testing.T, b []byte, flexible bool) {
		h, body, err := ParseHeader(b, flexible)
		if err != nil {
			if !errors.Is(err, ErrMalformed) {
				t.Fatal(err)
			}
			return
		}
		if len(h.ClientID)+len(body)+FixedHeaderBytes > len(b) || string(body) != string(b[len(b)-len(body):]) {
			t.Fatalf("%+v %q of %q", h, body, b)
		}
	})
}

// FuzzResponse: a client survives any answer.
func FuzzResponse(f *testing.F) {
	eachVersion(func(req kmsg.Request) {
		resp := req.ResponseKind()
		resp.SetVersion(req.GetVersion())
		f.Add(req.Key(), req.GetVersion(), AppendResponse(nil, resp, 1)[LengthBytes:])
	})
	f.Fuzz(func(t *testing.T, key, version int16, b []byte) {
		resp := kmsg.ResponseForKey(key)
		if resp == nil || version < 0 || version > resp.MaxVersion() {
			return
		}
		resp.SetVersion(version)
		if _, err := ParseResponse(b, resp); err != nil && !errors.Is(err, ErrMalformed) {
			t.Fatal(err)
		}
	})
}
