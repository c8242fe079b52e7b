package cli

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/barnabas-mq/barnabas/internal/batch"
)

func logCommand() *cobra.Command {
	c := &cobra.Command{Use: "log", Short: "Look into log files, and check them, without a broker", Example: "  barnabas log verify barnabas-data"}
	c.AddCommand(logDumpCommand(), logVerifyCommand())
	return c
}

// maxBatch is more than any broker stores: a length above it is damage.
const maxBatch = 1 << 30

func logDumpCommand() *cobra.Command {
	var d dumper
	c := &cobra.Command{
		Use:   "dump FILE|DIR...",
		Short: "Print what stands in the files of a log directory",
		Long: `Print what stands in the files of a log directory: of a segment (*.log) one line
per batch, whose sum is checked, with --records one per record as well; the entries of
its indexes (*.index, *.timeindex, *.txnindex); the producers in a snapshot (*.snapshot); the lines
of checkpoints. A directory means its files.

It only reads, so a broker may have the files open; a batch that is being
written shows as a torn end. Damage ends a file with its position and exit code 1.`,
		Example: "  barnabas log dump barnabas-data/orders-0/00000000000000000000.log --records\n  barnabas log dump barnabas-data/orders-0 --from-offset 0 --to-offset 10 -o json\n  barnabas log dump barnabas-data/recovery-point-offset-checkpoint",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			files, err := filesIn(args)
			if err != nil {
				return err
			}
			d.out = bufio.NewWriterSize(c.OutOrStdout(), 64<<10)
			var errs []error
			for _, name := range files {
				if err := d.file(name); err != nil {
					errs = append(errs, err)
				}
			}
			return errors.Join(append(errs, d.out.Flush())...)
		},
	}
	f := c.Flags()
	f.BoolVar(&d.records, "records", false, "print the records too")
	f.Int64Var(&d.from, "from-offset", 0, "leave out batches and entries that end below this offset")
	f.Int64Var(&d.to, "to-offset", math.MaxInt64, "leave out batches and entries that begin above this offset")
	f.Int64Var(&d.producer, "producer", -1, "only batches and entries of this producer id")
	d.output.flag(c)
	return c
}

// filesIn lists what is to be dumped: files as they are named, and the files of
// directories in the order of their names.
func filesIn(args []string) ([]string, error) {
	var out []string
	for _, name := range args {
		info, err := os.Stat(name)
		if err != nil || !info.IsDir() {
			if _, known := dumps(name); !known {
				if err != nil {
					return nil, err
				}
				return nil, usagef("%s is not a file of a log directory: *.log, *.index, *.timeindex, *.txnindex, *.snapshot or a checkpoint", name)
			}
			out = append(out, name)
			continue
		}
		entries, err := os.ReadDir(name)
		if err != nil {
			return nil, err
		}
		found := len(out)
		for _, e := range entries {
			if _, known := dumps(e.Name()); known && !e.IsDir() {
				out = append(out, filepath.Join(name, e.Name()))
			}
		}
		if len(out) == found {
			return nil, usagef("%s holds no files of a log: name the directory of a partition", name)
		}
	}
	return out, nil
}

type dumper struct {
	out      *bufio.Writer
	records  bool
	from, to int64
	producer int64
	output   output
}

// dumps chooses what prints a file.
func dumps(name string) (func(d *dumper, name string, in io.Reader) error, bool) {
	f, ok := map[string]func(d *dumper, name string, in io.Reader) error{
		".log": (*dumper).segment, ".index": (*dumper).offsetIndex, ".timeindex": (*dumper).timeIndex,
		".txnindex": (*dumper).txnIndex, ".snapshot": (*dumper).snapshot,
	}[filepath.Ext(name)]
	if !ok && strings.HasSuffix(name, "-checkpoint") {
		return (*dumper).checkpoint, true
	}
	return f, ok
}

// wants tells whether the offsets from first to last, of a producer, were asked for.
func (d *dumper) wants(first, last, producer int64) bool {
	return last >= d.from && first <= d.to && (d.producer < 0 || d.producer == producer)
}

// dumpedBatch is a batch's header.
type dumpedBatch struct {
	Position      int64  `json:"position"`
	SizeBytes     int    `json:"size"`
	BaseOffset    int64  `json:"baseOffset"`
	LastOffset    int64  `json:"lastOffset"`
	Count         int32  `json:"count"`
	Epoch         int32  `json:"leaderEpoch"`
	Codec         string `json:"codec"`
	MaxTimestamp  int64  `json:"maxTimestamp"`
	LogAppendTime bool   `json:"logAppendTime"`
	ProducerID    int64  `json:"producerId"`
	ProducerEpoch int16  `json:"producerEpoch"`
	BaseSequence  int32  `json:"baseSequence"`
	Transactional bool   `json:"transactional"`
	Control       bool   `json:"control"`
	CRC           uint32 `json:"crc"`
}

// dumpedRecord is a record; what is no UTF-8 is base64 in JSON.
type dumpedRecord struct {
	Offset    int64 `json:"offset"`
	Timestamp int64 `json:"timestamp"`
	recordLine
	Marker string `json:"marker,omitempty"` // of a control record
}

func (d *dumper) file(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if d.output == "table" {
		_, _ = fmt.Fprintf(d.out, "%s\n", name)
	}
	dump, _ := dumps(name)
	return dump(d, name, f)
}

func (d *dumper) segment(name string, f io.Reader) error {
	in := bufio.NewReaderSize(f, 1<<20)
	var buf []byte
	for pos := int64(0); ; {
		var err error
		buf, err = readBatch(in, buf[:0])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = d.batch(pos, buf)
		}
		if err != nil {
			return fmt.Errorf("%s at position %d: %w", name, pos, err)
		}
		pos += int64(len(buf))
	}
}

var (
	errTorn = errors.New("the file ends within a batch")
	errSum  = errors.New("damage: the batch's sum is wrong")
)

// readBatch reads the bytes of the next batch. io.EOF: there is none.
func readBatch(in io.Reader, buf []byte) ([]byte, error) {
	const prefix = 12 // base offset and length
	buf = append(buf, make([]byte, prefix)...)
	if _, err := io.ReadFull(in, buf); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return buf, errTorn
		}
		return buf, err
	}
	length := int64(binary.BigEndian.Uint32(buf[8:]))
	if length+prefix < batch.HeaderSize || length > maxBatch {
		return buf, fmt.Errorf("damage: a batch of %d bytes", length)
	}
	// Grows with what is there, so that a wrong length costs no memory.
	body, err := io.ReadAll(io.LimitReader(in, length))
	if err == nil && int64(len(body)) < length {
		err = errTorn
	}
	return append(buf, body...), err
}

func (d *dumper) batch(pos int64, raw []byte) error {
	b, _, err := batch.Next(raw)
	if err != nil {
		return err
	}
	if !b.CRCValid() {
		return errSum
	}
	if !d.wants(b.BaseOffset(), b.LastOffset(), b.ProducerID()) {
		return nil
	}
	h := dumpedBatch{pos, len(b), b.BaseOffset(), b.LastOffset(), b.Count(), b.LeaderEpoch(), b.Codec().String(), b.MaxTimestamp(), b.LogAppendTime(),
		b.ProducerID(), b.ProducerEpoch(), b.BaseSequence(), b.Transactional(), b.Control(), b.CRC()}
	if d.output != "table" {
		d.object(h)
	} else {
		_, _ = fmt.Fprintf(d.out, "position %d size %d offsets %d-%d count %d epoch %d codec %s time %d producer %d/%d sequence %d%s%s crc %d\n",
			h.Position, h.SizeBytes, h.BaseOffset, h.LastOffset, h.Count, h.Epoch, h.Codec, h.MaxTimestamp, h.ProducerID, h.ProducerEpoch, h.BaseSequence,
			flagged(h.Transactional, " transactional"), flagged(h.Control, " control"), h.CRC)
	}
	if !d.records {
		return nil
	}
	it := batch.Records(b, maxBatch)
	defer it.Close()
	for it.Next() {
		r := it.Record()
		if at := b.Offset(r); at >= d.from && at <= d.to {
			d.record(b, r)
		}
	}
	return it.Err()
}

func (d *dumper) record(b batch.Batch, r *batch.Record) {
	rec := dumpedRecord{Offset: b.Offset(r), Timestamp: b.Timestamp(r)}
	if b.Control() {
		rec.Marker = "unknown"
		if kind, err := batch.ParseControlKey(r.Key); err == nil {
			rec.Marker = kind.String()
		}
	}
	rec.Key, rec.KeyBase64 = text(r.Key)
	rec.Value, rec.ValueBase64 = text(r.Value)
	for k, v := range r.Headers() {
		h := headerLine{Key: string(k)}
		h.Value, h.ValueBase64 = text(v)
		rec.Headers = append(rec.Headers, h)
	}
	if d.output != "table" {
		d.object(rec)
		return
	}
	_, _ = fmt.Fprintf(d.out, "  offset %d time %d headers %d key %s value %s", rec.Offset, rec.Timestamp, len(rec.Headers), quoted(r.Key), quoted(r.Value))
	for k, v := range r.Headers() {
		_, _ = fmt.Fprintf(d.out, " header %q=%s", k, quoted(v))
	}
	_, _ = fmt.Fprintf(d.out, "%s\n", flagged(b.Control(), " marker "+rec.Marker))
}

// object prints v as one line of JSON, or as one YAML document. A failed write
// shows when the writer is flushed.
func (d *dumper) object(v any) {
	text, err := json.Marshal(v)
	if err == nil && d.output == "yaml" {
		text, err = yaml.JSONToYAML(text)
		_, _ = d.out.WriteString("---\n")
	} else {
		text = append(text, '\n')
	}
	if err == nil {
		_, _ = d.out.Write(text)
	}
}

func flagged(on bool, word string) string {
	if on {
		return word
	}
	return ""
}

func quoted(p []byte) string {
	if p == nil {
		return "null"
	}
	return fmt.Sprintf("%q", p)
}
