package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// slice is a range of a file, as storage hands them out.
type slice struct {
	f      *os.File
	off, n int
	bare   bool // has a descriptor
}

func (s slice) Len() int { return s.n }
func (s slice) File() (uintptr, int64, int, bool) {
	return s.f.Fd(), int64(s.off), s.n, s.bare
}
func (s slice) ReadAt(p []byte, off int64) error {
	_, err := s.f.ReadAt(p, int64(s.off)+off)
	return err
}

// fileOf writes n random bytes to a file.
func fileOf(t testing.TB, n int) (*os.File, []byte) {
	t.Helper()
	b := make([]byte, n)
	rnd := rand.NewChaCha8([32]byte{1})
	_, _ = rnd.Read(b)
	f, err := os.Create(filepath.Join(t.TempDir(), "log"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	if _, err := f.Write(b); err != nil {
		t.Fatal(err)
	}
	return f, b
}

// scattering answers every fetch with the parts.
func scattering(parts func() []wire.Part, done func()) *fake {
	f := &fake{}
	f.fetch = func(_ context.Context, r *Request, _ *kmsg.FetchRequest, _ *kmsg.FetchResponse) error {
		r.Scatter(parts(), done)
		return nil
	}
	return f
}

// The bytes are right and went out by sendfile, whatever the sizes and the order of parts.
func TestScatterBySendfile(t *testing.T) {
	if !rawSupported {
		t.Skip("no sendfile here")
	}
	file, content := fileOf(t, 3<<20)
	var dones atomic.Int32
	parts := []wire.Part{
		{Mem: []byte("header")}, {File: slice{file, 10, 1 << 20, true}}, {Mem: []byte("middle")}, {Mem: []byte{}}, {},
		{File: slice{file, 0, 100, true}}, {Mem: []byte("small before")}, {File: slice{file, 5 << 10, 2 << 20, true}},
		{File: slice{file, 77, 300 << 10, false}}, {Mem: []byte("end")},
	}
	want := slicesOf(content, []byte("header"), 10, 10+1<<20, []byte("middle"), 0, 100, []byte("small before"), 5<<10, 5<<10+2<<20, 77, 77+300<<10, []byte("end"))
	s := start(t, scattering(func() []wire.Part { return parts }, func() { dones.Add(1) }), nil)
	nc := dial(t, s)
	for i := range int32(3) {
		write(t, nc, frame(kmsg.NewPtrFetchRequest(), 12, i))
		b, err := wire.ReadFrame(nc, 16<<20, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, append([]byte{0, 0, 0, byte(i), 0}, want...)) {
			t.Fatalf("answer %d: other bytes than the file's", i)
		}
	}
	write(t, nc, frame(kmsg.NewPtrMetadataRequest(), 9, 9)) // in step, and the writer is past its call-backs
	expect(t, nc, 9, 9, kmsg.NewPtrMetadataResponse())
	if n := dones.Load(); n != 3 {
		t.Errorf("done called %d times", n)
	}
	if n := value(t, s.met.sendfileBytes); n != 3*(3<<20) {
		t.Errorf("%v bytes by sendfile, want all but the small and the bare one", n)
	}
	if n := value(t, s.met.copiedBytes); n != 3*(100+300<<10) {
		t.Errorf("%v bytes copied", n)
	}
}

// slicesOf joins byte slices, and ranges of content given as pairs of ints.
func slicesOf(content []byte, items ...any) (out []byte) {
	for i := 0; i < len(items); i++ {
		switch x := items[i].(type) {
		case []byte:
			out = append(out, x...)
		case int:
			out = append(out, content[x:items[i+1].(int)]...)
			i++
		}
	}
	return out
}

// Where there is no socket the same bytes go through memory.
func TestScatterByCopy(t *testing.T) {
	file, content := fileOf(t, 1<<20)
	parts := []wire.Part{{Mem: []byte("header")}, {File: slice{file, 10, 1<<20 - 10, true}}}
	inBubble(t, scattering(func() []wire.Part { return parts }, nil), nil, func(t *testing.T, s *Server, dial func() net.Conn, _ func() error) {
		nc := dial()
		go func() { _, _ = nc.Write(frame(kmsg.NewPtrFetchRequest(), 4, 1)) }()
		b, err := wire.ReadFrame(nc, 16<<20, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(b, append([]byte("\x00\x00\x00\x01header"), content[10:]...)) {
			t.Fatal("other bytes than the file's")
		}
		if n := value(t, s.met.sendfileBytes); n != 0 {
			t.Errorf("%v bytes by sendfile over a pipe", n)
		}
	})
}

// A file that ends before its range closes the connection: the peer must not take
// what follows for the rest (safety 12). done is called all the same.
func TestScatterShortFile(t *testing.T) {
	file, _ := fileOf(t, 100<<10)
	for name, bare := range map[string]bool{"sendfile": true, "copy": false} {
		t.Run(name, func(t *testing.T) {
			done := make(chan struct{}, 1)
			parts := []wire.Part{{Mem: []byte("header")}, {File: slice{file, 0, 200 << 10, bare}}}
			s := start(t, scattering(func() []wire.Part { return parts }, func() { done <- struct{}{} }), nil)
			nc := dial(t, s)
			write(t, nc, frame(kmsg.NewPtrFetchRequest(), 12, 1))
			if _, err := wire.ReadFrame(nc, 16<<20, nil); err == nil {
				t.Fatal("a whole answer out of half a file")
			}
			<-done
			if n := value(t, s.met.faults.WithLabelValues(faultShort)); n != 1 {
				t.Errorf("%v short answers counted", n)
			}
		})
	}
}

// done is called for answers that never go out: the peer is gone, the handler failed.
func TestScatterDoneWithoutSending(t *testing.T) {
	file, _ := fileOf(t, 100<<10)
	done := make(chan struct{}, 1)
	entered := make(chan struct{}, 1)
	f := &fake{}
	f.fetch = func(ctx context.Context, r *Request, _ *kmsg.FetchRequest, _ *kmsg.FetchResponse) error {
		r.Scatter([]wire.Part{{File: slice{file, 0, 100, true}}}, func() { done <- struct{}{} })
		entered <- struct{}{}
		<-ctx.Done()
		return errors.New("failed after all")
	}
	s := start(t, f, nil)
	nc := dial(t, s)
	write(t, nc, frame(kmsg.NewPtrFetchRequest(), 12, 1))
	<-entered
	nc.Close()
	<-done
}

// A reader slower than the slow-reader time for the whole, but never still for so
// long, is served to the end.
func TestScatterToSteadySlowReader(t *testing.T) {
	file, content := fileOf(t, 8<<20)
	parts := []wire.Part{{File: slice{file, 0, 8 << 20, true}}}
	s := start(t, scattering(func() []wire.Part { return parts }, nil), func(c *Config) {
		c.SlowReader = 300 * time.Millisecond
		c.SendBufferBytes = 64 << 10
	})
	nc := dial(t, s)
	_ = nc.(*net.TCPConn).SetReadBuffer(64 << 10)
	write(t, nc, frame(kmsg.NewPtrFetchRequest(), 4, 1))
	var got bytes.Buffer
	began := time.Now()
	tick := time.NewTicker(50 * time.Millisecond) // the pace of the reader under test
	defer tick.Stop()
	for got.Len() < 8<<20+8 {
		<-tick.C
		if _, err := io.CopyN(&got, nc, min(256<<10, int64(8<<20+8-got.Len()))); err != nil {
			t.Fatalf("after %d bytes and %v: %v", got.Len(), time.Since(began), err)
		}
	}
	if !bytes.Equal(got.Bytes()[8:], content) {
		t.Fatal("other bytes than the file's")
	}
	if time.Since(began) < time.Second {
		t.Fatal("the reader was not slow")
	}
}
