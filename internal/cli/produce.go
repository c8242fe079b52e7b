package cli

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

// produceFlags are the flags of produce.
type produceFlags struct {
	keyDelimiter, delimiter   string
	key, timestamp            string
	input, output             string
	partition                 int32
	acks, codec, partitioner  string
	headers                   []string
	emptyIsNull, tombstone    bool
	whole, verbose, keepPlace bool
	maxBytes                  int32
}

func produceCommand(cl *client) *cobra.Command {
	var pf produceFlags
	c := &cobra.Command{
		Use:   "produce TOPIC [FILE...]",
		Short: "Write lines of standard input, or of files, as records",
		Long: `Write each line of standard input, or of the files, as a record, without the
line's end; --delimiter ends a record elsewhere, --whole makes each file one record. The
order of the lines is kept within a partition. It returns when every record is
acknowledged; the first failure ends it with exit code 1. Records are written once,
however often they must be sent (an idempotent producer), unless --acks is 0 or 1.

With --input json each line is a record as ` + "`consume -o json`" + ` prints it: key, value,
headers and timestamp are taken from it, the partition with --keep-partition. A key
or value that is neither a text nor null is taken as the JSON that it is.`,
		Example: "  echo 'k1:hello' | barnabas produce orders -K : -H source=shop\n  barnabas produce orders -z zstd orders.txt\n  barnabas produce orders -k k1 --tombstone\n  barnabas consume orders -e -o json | barnabas produce copy --input json -v",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := errors.Join(cl.orProperty(c.Flags(), "acks", "acks"), cl.orProperty(c.Flags(), "compression", "compression.type")); err != nil {
				return err
			}
			return produce(c, cl, args[0], args[1:], pf)
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault // files
			}
			return cl.completeTopics(c, args, prefix)
		},
	}
	f := c.Flags()
	f.StringVarP(&pf.input, "input", "i", "lines", "what the input holds: lines, or json: a line of JSON per record")
	f.StringVarP(&pf.keyDelimiter, "key-delimiter", "K", "", "what separates the key from the value in a line; a line without it has no key")
	f.StringVarP(&pf.delimiter, "delimiter", "D", `\n`, "what ends a record")
	f.BoolVar(&pf.whole, "whole", false, "each file, or standard input, is one record")
	f.StringVarP(&pf.key, "key", "k", "", "one key for all records")
	f.BoolVar(&pf.tombstone, "tombstone", false, "write one record with --key and a null value, and read no input")
	f.BoolVarP(&pf.emptyIsNull, "empty-is-null", "Z", false, "an empty value is null")
	f.StringVar(&pf.timestamp, "timestamp", "", "one time for all records: milliseconds since 1970, 2006-01-02T15:04:05Z, or -1h (default now)")
	f.StringArrayVarP(&pf.headers, "header", "H", nil, "header name=value for all records; may be given many times")
	f.Int32VarP(&pf.partition, "partition", "p", -1, "partition; -1 chooses by key, or spreads")
	f.BoolVar(&pf.keepPlace, "keep-partition", false, "with --input json, write to the partition that the line names")
	f.StringVar(&pf.partitioner, "partitioner", "sticky", "how records without a key are spread: sticky, a batch at a time, or roundrobin")
	f.StringVarP(&pf.acks, "acks", "a", "all", "acknowledgement to wait for: all, 1 or 0")
	f.StringVarP(&pf.codec, "compression", "z", "none", "codec: none, gzip, snappy, lz4 or zstd")
	f.Int32Var(&pf.maxBytes, "max-bytes", 1000000, "bytes of a batch at most; raise it with the topic's max.message.bytes for larger lines")
	f.BoolVarP(&pf.verbose, "verbose", "v", false, "print topic, partition, offset and time of each record as it is stored")
	f.StringVarP(&pf.output, "output", "o", "text", "with --verbose, text, or json: a line of JSON per record")
	for flag, words := range map[string][]string{"input": {"lines", "json"}, "output": {"text", "json"}, "acks": {"all", "1", "0"},
		"compression": {"none", "gzip", "snappy", "lz4", "zstd"}, "partitioner": {"sticky", "roundrobin"}} {
		_ = c.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	}
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

// check refuses what does not go together.
func (pf produceFlags) check(files []string) error {
	switch {
	case pf.input != "lines" && pf.input != "json":
		return usagef("--input must be lines or json")
	case pf.output != "text" && pf.output != "json":
		return usagef("--output must be text or json")
	case pf.keyDelimiter != "" && pf.key != "":
		return usagef("--key and --key-delimiter exclude each other")
	case pf.input == "json" && (pf.key != "" || pf.keyDelimiter != "" || pf.whole || len(pf.headers) > 0 || pf.timestamp != "" || pf.emptyIsNull):
		return usagef("with --input json the lines say everything: leave out --key, --key-delimiter, --header, --timestamp, --whole and --empty-is-null")
	case pf.keepPlace && (pf.input != "json" || pf.partition >= 0):
		return usagef("--keep-partition goes with --input json, and without --partition")
	case pf.tombstone && pf.key == "":
		return usagef("--tombstone needs --key")
	case pf.tombstone && len(files) > 0:
		return usagef("--tombstone reads no input: leave out the files")
	}
	return nil
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
	switch {
	case pf.partition >= 0 || pf.keepPlace:
		opts = append(opts, kgo.RecordPartitioner(kgo.ManualPartitioner()))
	case pf.partitioner == "roundrobin":
		opts = append(opts, kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	case pf.partitioner != "sticky":
		return nil, usagef("the partitioner must be sticky or roundrobin")
	}
	return opts, nil
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

// builder turns the text of a record into a record.
func (pf produceFlags) builder(topic string) (func(text []byte) (*kgo.Record, error), error) {
	separator, err := unescape(pf.keyDelimiter)
	if err != nil {
		return nil, usagef("--key-delimiter: %w", err)
	}
	headers, err := parseHeaders(pf.headers)
	if err != nil {
		return nil, err
	}
	var at time.Time
	if pf.timestamp != "" {
		ms, err := parseMoment(pf.timestamp, time.Now())
		if err != nil {
			return nil, usagef("--timestamp: %w", err)
		}
		at = time.UnixMilli(ms)
	}
	if pf.input == "json" {
		return func(text []byte) (*kgo.Record, error) {
			r, err := parseLine(text)
			if err != nil {
				return nil, err
			}
			r.Topic = topic
			switch {
			case pf.partition >= 0:
				r.Partition = pf.partition
			case pf.keepPlace && r.Partition < 0:
				return nil, errors.New("it names no partition to keep")
			}
			return r, nil
		}, nil
	}
	return func(text []byte) (*kgo.Record, error) {
		r := &kgo.Record{Topic: topic, Value: text, Headers: headers, Partition: max(pf.partition, 0), Timestamp: at}
		if pf.key != "" {
			r.Key = []byte(pf.key)
		}
		if separator != "" {
			if k, v, ok := strings.Cut(string(text), separator); ok {
				r.Key, r.Value = []byte(k), []byte(v)
			}
		}
		if len(r.Value) == 0 && pf.emptyIsNull || pf.tombstone {
			r.Value = nil
		}
		return r, nil
	}, nil
}

func parseHeaders(list []string) (headers []kgo.RecordHeader, err error) {
	for _, h := range list {
		name, v, ok := strings.Cut(h, "=")
		if !ok || name == "" {
			return nil, usagef("--header %q is not of the form name=value", h)
		}
		headers = append(headers, kgo.RecordHeader{Key: name, Value: []byte(v)})
	}
	return headers, nil
}
