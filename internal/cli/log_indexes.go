package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
)

// indexes compares the index files of a segment with its batches, as they come
// by. An entry must be that of a batch; an index may lack entries, for those of
// a running broker are behind, and it may name what was cut off the segment's
// end since.
type indexes struct {
	stem    string // path of the segment's files without suffix
	offsets []segment.OffsetEntry
	times   []segment.TimeEntry
	aborted []segment.Aborted
	largest int64 // timestamp so far
	wrong   map[string]string
	missing int // abort markers without an entry
	hasTxn  bool
}

func (r *report) openIndexes(f file) (*indexes, error) {
	x := &indexes{stem: strings.TrimSuffix(f.path, segment.LogSuffix), largest: -1, wrong: map[string]string{}}
	b, there, err := x.read(segment.IndexSuffix)
	if err != nil {
		return nil, err
	}
	if !there {
		r.note("%s has no index, and gets one when it is asked", f.path)
	}
	var rest int
	x.offsets, rest = segment.OffsetEntries(f.base, b)
	x.torn(segment.IndexSuffix, rest)
	// Apache Kafka makes the file of the last segment longer than its entries.
	if i := slices.IndexFunc(x.offsets, func(e segment.OffsetEntry) bool { return e == segment.OffsetEntry{Offset: f.base} }); i >= 0 {
		x.offsets = x.offsets[:i]
	}
	if b, _, err = x.read(segment.TimeIndexSuffix); err != nil {
		return nil, err
	}
	x.times, rest = segment.TimeEntries(f.base, b)
	x.torn(segment.TimeIndexSuffix, rest)
	if i := slices.IndexFunc(x.times, func(e segment.TimeEntry) bool { return e == segment.TimeEntry{Offset: f.base} }); i > 0 {
		x.times = x.times[:i]
	}
	if b, x.hasTxn, err = x.read(segment.TxnIndexSuffix); err != nil {
		return nil, err
	}
	x.aborted, rest = segment.AbortedEntries(b)
	x.torn(segment.TxnIndexSuffix, rest)
	return x, nil
}

func (x *indexes) read(suffix string) (b []byte, there bool, err error) {
	b, err = os.ReadFile(x.stem + suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	return b, true, err
}

func (x *indexes) torn(suffix string, rest int) {
	if rest > 0 {
		x.bad(suffix, "%d bytes after the last entry", rest)
	}
}

// bad keeps what is wrong first with an index.
func (x *indexes) bad(suffix, format string, args ...any) {
	if _, known := x.wrong[suffix]; !known {
		x.wrong[suffix] = fmt.Sprintf(format, args...)
	}
}

// batch looks at the entries up to the batch at pos, which is the next one.
func (x *indexes) batch(pos int64, b batch.Batch) {
	for len(x.offsets) > 0 && x.offsets[0].Position <= pos {
		if e := x.offsets[0]; e.Position < pos {
			x.bad(segment.IndexSuffix, "no batch begins at position %d, which stands for offset %d", e.Position, e.Offset)
		} else if e.Offset != b.LastOffset() {
			x.bad(segment.IndexSuffix, "position %d stands for offset %d, and its batch ends at %d", pos, e.Offset, b.LastOffset())
		}
		x.offsets = x.offsets[1:]
	}
	for len(x.times) > 0 && x.times[0].Offset <= b.LastOffset() {
		switch e := x.times[0]; {
		case e.Timestamp == -1: // Apache Kafka's word for an empty segment
		case e.Offset < b.BaseOffset():
			x.bad(segment.TimeIndexSuffix, "no batch holds offset %d, which stands for time %d", e.Offset, e.Timestamp)
		case e.Timestamp != b.MaxTimestamp():
			x.bad(segment.TimeIndexSuffix, "offset %d stands for time %d, and its batch has %d", e.Offset, e.Timestamp, b.MaxTimestamp())
		case e.Timestamp < x.largest:
			x.bad(segment.TimeIndexSuffix, "offset %d stands for time %d, and %d comes before it", e.Offset, e.Timestamp, x.largest)
		}
		x.times = x.times[1:]
	}
	x.largest = max(x.largest, b.MaxTimestamp())
	x.marker(b)
}

// marker looks at the entries of aborted transactions, one for each marker.
func (x *indexes) marker(b batch.Batch) {
	named := false
	for len(x.aborted) > 0 && x.aborted[0].Last <= b.LastOffset() {
		a := x.aborted[0]
		if a.Last < b.BaseOffset() || !b.Control() || b.ProducerID() != a.ProducerID || a.First > a.Last {
			x.bad(segment.TxnIndexSuffix, "no marker of producer %d ends its transaction at offset %d", a.ProducerID, a.Last)
		}
		named = true
		x.aborted = x.aborted[1:]
	}
	if b.Control() && !named && aborts(b) {
		x.missing++
	}
}

// aborts tells whether a control batch ends a transaction without effect.
func aborts(b batch.Batch) bool {
	it := batch.Records(b, maxBatch)
	defer it.Close()
	if !it.Next() {
		return false
	}
	kind, err := batch.ParseControlKey(it.Record().Key)
	return err == nil && kind == batch.ControlAbort
}

// close writes down what was found. Entries that are left name what lies
// behind the end.
func (x *indexes) close(r *report) {
	if r.Damage == "" && len(x.offsets)+len(x.times)+len(x.aborted) > 0 {
		r.note("the indexes of %s%s name %d batches behind its end", x.stem, segment.LogSuffix, len(x.offsets)+len(x.times)+len(x.aborted))
	}
	if x.missing > 0 {
		r.note("%d aborted transactions of %s%s are not in its index: a running broker keeps them in memory, and recovery finds them", x.missing, x.stem, segment.LogSuffix)
	}
	for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix, segment.TxnIndexSuffix} {
		if why, ok := x.wrong[suffix]; ok {
			r.wrong = append(r.wrong, x.stem+suffix)
			r.Indexes = append(r.Indexes, x.stem+suffix+": "+why)
		}
	}
}

// dropIndexes removes the wrong indexes below a log directory: offset and time
// index come from the batches again when somebody asks. The index of aborted
// transactions does not: recovery alone makes it.
func dropIndexes(dir string, reports []report) error {
	for _, r := range reports {
		if filepath.Dir(r.Directory) != filepath.Clean(dir) {
			continue
		}
		for _, name := range r.wrong {
			if strings.HasSuffix(name, segment.TxnIndexSuffix) {
				return fmt.Errorf("%s does not fit its segment: delete the directory %s to fetch it anew from a replica, or to begin empty", name, r.Directory)
			}
			stem := strings.TrimSuffix(strings.TrimSuffix(name, segment.TimeIndexSuffix), segment.IndexSuffix)
			for _, suffix := range []string{segment.IndexSuffix, segment.TimeIndexSuffix} {
				if err := os.Remove(stem + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
					return err
				}
			}
		}
	}
	return nil
}
