package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceFlags are the flags of produce.
type produceFlags struct {
	keyDelimiter, delimiter string
	key                     string
	partition               int32
	acks, codec             string
	headers                 []string
	tombstones              bool
	maxBytes                int32
}

func produceCommand(cl *client) *cobra.Command {
	var pf produceFlags
	c := &cobra.Command{
		Use:   "produce TOPIC",
		Short: "Write the lines of standard input as records",
		Long: `Write each line of standard input as a record, without the line's end. The order
of the lines is kept within a partition. It returns when every record is
acknowledged; the first failure ends it with exit code 1.`,
		Example: "  barnabas produce orders < orders.jsonl\n  echo 'k1:hello' | barnabas produce orders -K :",
		Args:    cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := errors.Join(cl.orProperty(c.Flags(), "acks", "acks"), cl.orProperty(c.Flags(), "compression", "compression.type")); err != nil {
				return err
			}
			return produce(c, cl, args[0], pf)
		},
		ValidArgsFunction: cl.completeOneTopic,
	}
	f := c.Flags()
	f.StringVarP(&pf.keyDelimiter, "key-delimiter", "K", "", "what separates the key from the value in a line; a line without it has no key")
	f.StringVarP(&pf.delimiter, "delimiter", "D", `\n`, "what ends a record")
	f.StringVarP(&pf.key, "key", "k", "", "one key for all records")
	f.Int32VarP(&pf.partition, "partition", "p", -1, "partition; -1 chooses by key, or spreads")
	f.StringVarP(&pf.acks, "acks", "a", "all", "acknowledgement to wait for: all, 1 or 0")
	f.StringVarP(&pf.codec, "compression", "z", "none", "codec: none, gzip, snappy, lz4 or zstd")
	f.StringArrayVarP(&pf.headers, "header", "H", nil, "header name=value for all records; may be given many times")
	f.BoolVarP(&pf.tombstones, "tombstones", "Z", false, "an empty value is null")
	f.Int32Var(&pf.maxBytes, "max-bytes", 1000000, "bytes of a batch at most; raise it with the topic's max.message.bytes for larger lines")
	return c
}

func parseAcks(s string) (kgo.Acks, error) {
	switch s {
	case "all", "-1":
		return kgo.AllISRAcks(), nil
	case "1":
		return kgo.LeaderAck(), nil
	case "0":
		return kgo.NoAck(), nil
	}
	return kgo.Acks{}, errors.New("acks must be all, 1 or 0")
}

func parseCodec(s string) (kgo.CompressionCodec, error) {
	switch s {
	case "none":
		return kgo.NoCompression(), nil
	case "gzip":
		return kgo.GzipCompression(), nil
	case "snappy":
		return kgo.SnappyCompression(), nil
	case "lz4":
		return kgo.Lz4Compression(), nil
	case "zstd":
		return kgo.ZstdCompression(), nil
	}
	return kgo.NoCompression(), errors.New("the codec must be none, gzip, snappy, lz4 or zstd")
}

func (pf produceFlags) options() ([]kgo.Opt, error) {
	acks, err := parseAcks(pf.acks)
	if err != nil {
		return nil, usagef("--acks: %w", err)
	}
	codec, err := parseCodec(pf.codec)
	if err != nil {
		return nil, usagef("--compression: %w", err)
	}
	if pf.maxBytes < 1024 || pf.maxBytes > 1<<30 {
		return nil, usagef("--max-bytes must be from 1024 to %d", 1<<30)
	}
	opts := []kgo.Opt{
		kgo.RequiredAcks(acks), kgo.ProducerBatchCompression(codec), kgo.AllowAutoTopicCreation(),
		kgo.ProducerBatchMaxBytes(pf.maxBytes), kgo.BrokerMaxWriteBytes(max(100<<20, pf.maxBytes+1<<20)),
		kgo.MaxBufferedBytes(max(64<<20, 2*int(pf.maxBytes))), kgo.MaxBufferedRecords(100000),
	}
	if pf.acks != "all" && pf.acks != "-1" {
		opts = append(opts, kgo.DisableIdempotentWrite())
	}
	if pf.partition >= 0 {
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	}
	return opts, nil
}

func produce(c *cobra.Command, cl *client, topic string, pf produceFlags) error {
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
		d, err := oneTopic(c.Context(), k, topic)
		if err != nil {
			return err
		}
		if _, ok := d.Partitions[pf.partition]; !ok {
			return usagef("--partition: topic %s has the partitions 0 to %d", topic, len(d.Partitions)-1)
		}
	}
	return feed(c, k, []byte(delimiter), build)
}

// feed sends what standard input holds, and stops at the first failure.
func feed(c *cobra.Command, k *kgo.Client, delimiter []byte, build func([]byte) *kgo.Record) error {
	ctx, cancel := context.WithCancelCause(c.Context())
	defer cancel(nil)
	prog := newProgress(c.ErrOrStderr(), c.InOrStdin(), "produced")
	defer prog.stop()
	var mu sync.Mutex
	var first error
	line := 0
	lines := splitter{r: bufio.NewReaderSize(c.InOrStdin(), 256<<10), delimiter: delimiter}
	for ctx.Err() == nil {
		text, err := lines.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				cancel(fmt.Errorf("read standard input: %w", err))
			}
			break
		}
		line++
		n := line
		k.Produce(ctx, build(text), func(r *kgo.Record, err error) {
			if err == nil {
				prog.add(len(r.Key) + len(r.Value))
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if first == nil {
				first = fmt.Errorf("record %d was not stored: %w", n, produceHint(err))
				cancel(first)
			}
		})
	}
	flushErr := k.Flush(context.WithoutCancel(ctx))
	mu.Lock()
	defer mu.Unlock()
	if first != nil {
		return first
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return flushErr
}

// produceHint adds what to do about the commonest refusals.
func produceHint(err error) error {
	switch {
	case errors.Is(err, kerr.MessageTooLarge):
		return fmt.Errorf("%w: raise --max-bytes, and the topic's max.message.bytes", err)
	case errors.Is(err, kerr.UnknownTopicOrPartition):
		return fmt.Errorf("%w: create it with `barnabas topic create`", err)
	}
	return err
}

// builder turns a line into a record.
func (pf produceFlags) builder(topic string) (func([]byte) *kgo.Record, error) {
	separator, err := unescape(pf.keyDelimiter)
	if err != nil {
		return nil, usagef("--key-delimiter: %w", err)
	}
	var headers []kgo.RecordHeader
	for _, h := range pf.headers {
		name, v, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return nil, usagef("--header %q is not of the form name=value", h)
		}
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(v)})
	}
	if separator != "" && pf.key != "" {
		return nil, usagef("--key and --key-delimiter exclude each other")
	}
	return func(text []byte) *kgo.Record {
		r := &kgo.Record{Topic: topic, Value: text, Headers: headers, Partition: max(pf.partition, 0)}
		if pf.key != "" {
			r.Key = []byte(pf.key)
		}
		if separator != "" {
			if k, v, ok := bytes.Cut(text, []byte(separator)); ok {
				r.Key, r.Value = k, v
			}
		}
		if len(r.Value) == 0 && pf.tombstones {
			r.Value = nil
		}
		return r
	}, nil
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
