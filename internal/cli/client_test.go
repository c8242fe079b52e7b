package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"
)

func fakeCluster(t *testing.T) string {
	t.Helper()
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c.ListenAddrs()[0]
}

// run runs one command line within the test.
func run(t *testing.T, in string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var out, errs bytes.Buffer
	code = App{Version: "test", In: strings.NewReader(in), Out: &out, Err: &errs}.Run(ctx, args)
	if ctx.Err() != nil {
		t.Fatalf("%q did not end", args)
	}
	return code, out.String(), errs.String()
}

// A broker that lacks a request is told from one that refuses.
func TestRequestsThatTheBrokerLacks(t *testing.T) {
	v := kversion.Stable()
	for _, r := range []kmsg.Request{kmsg.NewPtrDescribeConfigsRequest(), kmsg.NewPtrIncrementalAlterConfigsRequest(), kmsg.NewPtrCreatePartitionsRequest()} {
		v.SetMaxKeyVersion(r.Key(), -1)
	}
	c, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.MaxVersions(v))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	addr := c.ListenAddrs()[0]
	if code, out, errs := run(t, "", "topic", "describe", "t", "-b", addr); code != 0 || !strings.Contains(out, "PARTITION") {
		t.Errorf("describe without DescribeConfigs: exit %d, %q %q", code, out, errs)
	}
	for _, args := range [][]string{{"alter", "t", "--set", "retention.ms=5"}, {"add-partitions", "t", "--to", "3"}} {
		code, _, errs := run(t, "", append([]string{"topic", "-b", addr}, args...)...)
		if code != 1 || !strings.Contains(errs, "the broker does not know the request") {
			t.Errorf("%q: exit %d, %q", args, code, errs)
		}
	}
}

// A log that ends in a control record is seen to end, whatever the isolation.
func TestConsumeToTheEndOfATransaction(t *testing.T) {
	addr := fakeCluster(t)
	k, err := kgo.NewClient(kgo.SeedBrokers(addr), kgo.TransactionalID("x"), kgo.DefaultProduceTopic("t"))
	if err != nil {
		t.Fatal(err)
	}
	defer k.Close()
	for i, commit := range []kgo.TransactionEndTry{kgo.TryCommit, kgo.TryAbort} {
		if err := k.BeginTransaction(); err != nil {
			t.Fatal(err)
		}
		if err := k.ProduceSync(t.Context(), kgo.StringRecord(fmt.Sprint("record ", i))).FirstErr(); err != nil {
			t.Fatal(err)
		}
		if err := k.EndTransaction(t.Context(), commit); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := run(t, "", "consume", "t", "-e", "-b", addr)
	if code != 0 || out != "record 0\nrecord 1\n" {
		t.Errorf("exit %d, %q %q", code, out, errs)
	}
}

func TestProduceLongLines(t *testing.T) {
	addr := fakeCluster(t)
	long := strings.Repeat("0123456789", 300000)
	code, _, errs := run(t, long+"\nshort\n", "produce", "t", "-b", addr)
	if code != 1 || !strings.Contains(errs, "record 1 was not stored") || !strings.Contains(errs, "raise --max-bytes") {
		t.Errorf("exit %d, %q", code, errs)
	}
	if code, _, errs := run(t, "", "topic", "alter", "t", "--set", "max.message.bytes=4000000", "-b", addr); code != 0 {
		t.Fatal(errs)
	}
	if code, _, errs := run(t, long+"\nshort\n", "produce", "t", "--max-bytes", "4000000", "-b", addr); code != 0 {
		t.Fatal(errs)
	}
	code, out, errs := run(t, "", "consume", "t", "-n", "2", "-O", "-2", "-b", addr)
	if code != 0 || out != long+"\nshort\n" {
		t.Errorf("exit %d, %d bytes, %q", code, len(out), errs)
	}
}

func TestSplitter(t *testing.T) {
	for _, c := range []struct {
		in, delimiter string
		want          []string
	}{
		{"", "\n", nil},
		{"a\nb", "\n", []string{"a", "b"}},
		{"a\n\n", "\n", []string{"a", ""}},
		{"a\r\nb\nc\r\n", "\r\n", []string{"a", "b\nc"}},
		{strings.Repeat("x", 5000) + "--" + strings.Repeat("-y", 5000), "--", []string{strings.Repeat("x", 5000), strings.Repeat("-y", 5000)}},
	} {
		s := splitter{bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(c.in)), 16), []byte(c.delimiter)}
		var got []string
		for {
			text, err := s.next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(text))
		}
		if fmt.Sprint(got) != fmt.Sprint(c.want) || len(got) != len(c.want) {
			t.Errorf("%.20q by %q: %d records, want %d", c.in, c.delimiter, len(got), len(c.want))
		}
	}
	broken := splitter{bufio.NewReader(iotest.ErrReader(errors.New("gone"))), []byte("\n")}
	if _, err := broken.next(); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a read error: %v", err)
	}
}

func TestUnescape(t *testing.T) {
	for in, want := range map[string]string{`a\n\t\r\0\\\x41`: "a\n\t\r\x00\\A", "": ""} {
		if got, err := unescape(in); err != nil || got != want {
			t.Errorf("%q: %q %v", in, got, err)
		}
	}
	for _, in := range []string{`\`, `\q`, `\x1`, `\xzz`} {
		if _, err := unescape(in); err == nil {
			t.Errorf("%q is taken", in)
		}
	}
}
