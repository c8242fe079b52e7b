package cli

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kgo"
)

func produce(c *cobra.Command, cl *client, topic string, files []string, pf produceFlags) error {
	if err := pf.check(files); err != nil {
		return err
	}
	opts, err := pf.options()
	if err != nil {
		return err
	}
	build, err := pf.builder(topic)
	if err != nil {
		return err
	}
	delimiter, err := unescape(pf.delimiter)
	if err != nil || delimiter == "" {
		return usagef("--delimiter %q is not a text", pf.delimiter)
	}
	k, err := cl.open(c.Context(), opts...)
	if err != nil {
		return err
	}
	defer k.Close()
	if pf.partition >= 0 {
		d, err := oneTopic(c.Context(), k, "topic", topic)
		if err != nil {
			return err
		}
		if _, ok := d.Partitions[pf.partition]; !ok {
			return usagef("--partition: topic %s has the partitions 0 to %d", topic, len(d.Partitions)-1)
		}
	}
	f := feeder{k: k, build: build, flags: pf, delimiter: []byte(delimiter), out: c.OutOrStdout()}
	f.ctx, f.cancel = context.WithCancelCause(c.Context())
	defer f.cancel(nil)
	f.progress = newProgress(c.ErrOrStderr(), c.InOrStdin(), "produced")
	defer f.progress.stop()
	return f.run(c.InOrStdin(), files)
}

// feeder sends what its inputs hold, and stops at the first failure.
type feeder struct {
	k         *kgo.Client
	build     func(text []byte) (*kgo.Record, error)
	flags     produceFlags
	delimiter []byte
	progress  *progress
	ctx       context.Context
	cancel    context.CancelCauseFunc

	mu    sync.Mutex
	first error
	out   io.Writer
}

func (f *feeder) run(in io.Reader, files []string) error {
	switch {
	case f.flags.tombstone:
		f.send(nil, "", 1)
	case len(files) == 0:
		f.read(in, "standard input")
	}
	for _, name := range files {
		if f.ctx.Err() != nil {
			break
		}
		in, err := os.Open(name)
		if err != nil {
			f.fail(err)
			break
		}
		f.read(in, name)
		_ = in.Close() // it was only read
	}
	flushErr := f.k.Flush(context.WithoutCancel(f.ctx))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first != nil {
		return f.first
	}
	if err := context.Cause(f.ctx); err != nil {
		return err
	}
	return flushErr
}

// fail keeps the first failure, and ends the rest.
func (f *feeder) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.first == nil {
		f.first = err
		f.cancel(err)
	}
}

func (f *feeder) read(in io.Reader, name string) {
	if f.flags.whole {
		text, err := io.ReadAll(in)
		if err != nil {
			f.fail(fmt.Errorf("read %s: %w", name, err))
			return
		}
		f.send(text, name, 1)
		return
	}
	lines := splitter{r: bufio.NewReaderSize(in, 256<<10), delimiter: f.delimiter}
	for n := 1; f.ctx.Err() == nil; n++ {
		text, err := lines.next()
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			f.fail(fmt.Errorf("read %s: %w", name, err))
			return
		}
		f.send(text, name, n)
	}
}

// send sends the n-th record of an input.
func (f *feeder) send(text []byte, name string, n int) {
	which := fmt.Sprintf("record %d", n)
	if name != "" && name != "standard input" {
		which += " in " + name
	}
	r, err := f.build(text)
	if err != nil {
		f.fail(fmt.Errorf("%s: %w", which, err))
		return
	}
	f.k.Produce(f.ctx, r, func(r *kgo.Record, err error) {
		if err == nil {
			f.progress.add(len(r.Key) + len(r.Value))
			err = f.report(r)
		} else {
			err = fmt.Errorf("%s was not stored: %w", which, produceHint(err))
		}
		if err != nil {
			f.fail(err)
		}
	})
}

// stored is where a record stands.
type stored struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
}

func (f *feeder) report(r *kgo.Record) error {
	if !f.flags.verbose {
		return nil
	}
	s := stored{r.Topic, r.Partition, r.Offset, r.Timestamp.UnixMilli()}
	line := fmt.Appendf(nil, "%s %d %d %d\n", s.Topic, s.Partition, s.Offset, s.Timestamp)
	if f.flags.output == "json" {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		line = append(text, '\n')
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	_, err := f.out.Write(line)
	return err
}

// splitter cuts a stream at a delimiter; the rest after the last one counts
// when it is not empty. A record may be of any length.
type splitter struct {
	r         *bufio.Reader
	delimiter []byte
}

func (s *splitter) next() ([]byte, error) {
	last := s.delimiter[len(s.delimiter)-1]
	var text []byte
	for {
		part, err := s.r.ReadSlice(last)
		text = append(text, part...)
		switch {
		case bytes.HasSuffix(text, s.delimiter):
			return text[:len(text)-len(s.delimiter)], nil
		case errors.Is(err, io.EOF) && len(text) > 0:
			return text, nil
		case err != nil && !errors.Is(err, bufio.ErrBufferFull):
			return nil, err
		}
	}
}
