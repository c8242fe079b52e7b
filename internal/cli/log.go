package cli

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/barnabas-mq/barnabas/internal/batch"
)

func logCommand() *cobra.Command {
	c := &cobra.Command{Use: "log", Short: "Look into log files, and check them, without a broker"}
	c.AddCommand(logDumpCommand(), logVerifyCommand())
	return c
}

// maxBatch is more than any broker stores: a length above it is damage.
const maxBatch = 1 << 30

func logDumpCommand() *cobra.Command {
	var records bool
	var o output
	c := &cobra.Command{
		Use:   "dump FILE...",
		Short: "Print the batches of segment files (*.log), and check their sums",
		Long: `Print one line per batch of each segment file, with --records one per record as
well. It only reads, so a broker may have the files open; a batch that is being
written shows as a torn end. Damage ends a file with its position and exit code 1.`,
		Example: "  barnabas log dump barnabas-data/orders-0/00000000000000000000.log --records",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			out := bufio.NewWriterSize(c.OutOrStdout(), 64<<10)
			d := dumper{out: out, records: records, output: o}
			var errs []error
			for _, name := range args {
				if err := d.file(name); err != nil {
					errs = append(errs, err)
				}
			}
			return errors.Join(append(errs, out.Flush())...)
		},
	}
	c.Flags().BoolVar(&records, "records", false, "print the records too")
	o.flag(c)
	return c
}

type dumper struct {
	out     *bufio.Writer
	records bool
	output  output
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

// dumpedRecord is a record; keys and values are base64 in JSON.
type dumpedRecord struct {
	Offset    int64  `json:"offset"`
	Timestamp int64  `json:"timestamp"`
	Key       []byte `json:"key"`
	Value     []byte `json:"value"`
	Headers   int    `json:"headers"`
}

func (d *dumper) file(name string) error {
	if filepath.Ext(name) != ".log" {
		return usagef("%s is not a segment file (*.log)", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	if d.output == "table" {
		_, _ = fmt.Fprintf(d.out, "%s\n", name)
	}
	var buf []byte
	for pos := int64(0); ; {
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
		rec := dumpedRecord{b.Offset(r), b.Timestamp(r), r.Key, r.Value, r.HeaderCount()}
		if d.output != "table" {
			d.object(rec)
		} else {
			_, _ = fmt.Fprintf(d.out, "  offset %d time %d headers %d key %s value %s\n", rec.Offset, rec.Timestamp, rec.Headers, quoted(rec.Key), quoted(rec.Value))
		}
	}
	return it.Err()
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
