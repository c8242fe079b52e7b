package producers

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

const (
	snapshotVersion = 1
	atCRC           = 2
	atCount         = 6 // and from here the checksum counts
	headerBytes     = 10
	entryBytes      = 46

	// Suffix ends the name of a snapshot file.
	Suffix       = ".snapshot"
	offsetDigits = 20

	// maxSnapshotBytes bounds a file that is read: some 23 million producers.
	maxSnapshotBytes = 1 << 30
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// FileName is the name of the snapshot as of an end offset.
func FileName(offset int64) string { return fmt.Sprintf("%0*d%s", offsetDigits, offset, Suffix) }

// ParseFileName is the inverse of FileName; ok is false for another file's name.
func ParseFileName(name string) (offset int64, ok bool) {
	digits, ok := strings.CutSuffix(name, Suffix)
	if !ok || len(digits) != offsetDigits || strings.TrimLeft(digits, "0123456789") != "" {
		return 0, false
	}
	offset, err := strconv.ParseInt(digits, 10, 64)
	return offset, err == nil
}

func snapshotSize(entries int) int { return headerBytes + entries*entryBytes }

func appendHeader(b []byte, count int) []byte {
	b = binary.BigEndian.AppendUint16(b, snapshotVersion)
	b = binary.BigEndian.AppendUint32(b, 0) // by seal
	return binary.BigEndian.AppendUint32(b, uint32(count))
}

func appendEntry(b []byte, e *Entry) []byte {
	last, _ := e.Last()
	b = binary.BigEndian.AppendUint64(b, uint64(e.ProducerID))
	b = binary.BigEndian.AppendUint16(b, uint16(e.Epoch))
	b = binary.BigEndian.AppendUint32(b, uint32(last.LastSeq))
	b = binary.BigEndian.AppendUint64(b, uint64(last.LastOffset))
	b = binary.BigEndian.AppendUint32(b, uint32(last.OffsetDelta))
	b = binary.BigEndian.AppendUint64(b, uint64(e.LastTimestampMs))
	b = binary.BigEndian.AppendUint32(b, uint32(e.CoordinatorEpoch))
	return binary.BigEndian.AppendUint64(b, uint64(e.TxnFirstOffset))
}

func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[atCRC:], crc32.Checksum(b[atCount:], castagnoli))
	return b
}

// Encode returns a snapshot file's content.
func Encode(entries []Entry) []byte {
	b := appendHeader(make([]byte, 0, snapshotSize(len(entries))), len(entries))
	for i := range entries {
		b = appendEntry(b, &entries[i])
	}
	return seal(b)
}

// Decode parses a snapshot file's content; name only names the file in errors,
// which are vfs.CorruptError. It does not keep b.
func Decode(name string, b []byte) ([]Entry, error) {
	if len(b) < headerBytes {
		return nil, vfs.Corruptf(name, int64(len(b)), "the file ends within its header of %d bytes", headerBytes)
	}
	if v := binary.BigEndian.Uint16(b); v != snapshotVersion {
		return nil, vfs.Corruptf(name, 0, "unknown version %d, expected %d", int16(v), snapshotVersion)
	}
	stored, sum := binary.BigEndian.Uint32(b[atCRC:]), crc32.Checksum(b[atCount:], castagnoli)
	if stored != sum {
		return nil, vfs.Corruptf(name, atCRC, "checksum is %08x, of the content %08x", stored, sum)
	}
	count := binary.BigEndian.Uint32(b[atCount:])
	if have := len(b) - headerBytes; uint64(count)*entryBytes != uint64(have) {
		return nil, vfs.Corruptf(name, atCount, "%d entries announced, and %d bytes where each has %d", int32(count), have, entryBytes)
	}
	entries := make([]Entry, count)
	seen := make(map[int64]struct{}, count)
	for i := range entries {
		at := headerBytes + i*entryBytes
		entries[i] = decodeEntry(b[at : at+entryBytes])
		e := &entries[i]
		if _, twice := seen[e.ProducerID]; twice {
			return nil, vfs.Corruptf(name, int64(at), "producer %d is listed twice", e.ProducerID)
		}
		seen[e.ProducerID] = struct{}{}
		if reason := e.impossible(); reason != "" {
			return nil, vfs.Corruptf(name, int64(at), "producer %d: %s", e.ProducerID, reason)
		}
	}
	return entries, nil
}

func decodeEntry(b []byte) Entry {
	e := Entry{
		ProducerID:       int64(binary.BigEndian.Uint64(b)),
		Epoch:            int16(binary.BigEndian.Uint16(b[8:])),
		LastTimestampMs:  int64(binary.BigEndian.Uint64(b[26:])),
		CoordinatorEpoch: int32(binary.BigEndian.Uint32(b[34:])),
		TxnFirstOffset:   max(int64(binary.BigEndian.Uint64(b[38:])), None),
	}
	last := Written{
		LastSeq:     int32(binary.BigEndian.Uint32(b[10:])),
		LastOffset:  int64(binary.BigEndian.Uint64(b[14:])),
		OffsetDelta: int32(binary.BigEndian.Uint32(b[22:])),
		TimestampMs: e.LastTimestampMs,
	}
	if last.LastOffset >= 0 {
		e.extend(last)
		e.batches[0], e.n = last, 1
	}
	return e
}

// impossible names what no writer could have meant, or is empty.
func (e *Entry) impossible() string {
	switch last, ok := e.Last(); {
	case e.ProducerID < 0:
		return "its id is negative"
	case e.Epoch < None:
		return fmt.Sprintf("epoch %d", e.Epoch)
	case ok && (last.OffsetDelta < 0 || last.FirstOffset() < 0):
		return fmt.Sprintf("last offset %d with offset delta %d", last.LastOffset, last.OffsetDelta)
	case ok && last.LastSeq < None:
		return fmt.Sprintf("last sequence %d", last.LastSeq)
	}
	return ""
}

// beingSaved is the name of a snapshot that is not whole yet. A crash may leave it;
// the next one of the log takes its place.
const beingSaved = "snapshot.tmp"

// Save writes the snapshot as of end offset into a log's directory and syncs
// the file. Its name is durable once the directory is synced too, which is left
// to the caller. An older snapshot of the same offset is replaced; a crash leaves
// the old one or the new. Callers serialize calls for one directory.
func Save(fsys vfs.FS, dir string, offset int64, data []byte) error {
	if err := vfs.PutFile(fsys, filepath.Join(dir, beingSaved), filepath.Join(dir, FileName(offset)), data); err != nil {
		return fmt.Errorf("write producer snapshot: %w", err)
	}
	return nil
}

// List returns the end offsets of the snapshots in a log's directory, ascending.
func List(fsys vfs.FS, dir string) ([]int64, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return nil, fmt.Errorf("list producer snapshots: %w", err)
	}
	var offsets []int64
	for _, name := range names {
		if offset, ok := ParseFileName(name); ok {
			offsets = append(offsets, offset)
		}
	}
	slices.Sort(offsets)
	return offsets, nil
}

// Load reads one snapshot. A damaged one is a vfs.CorruptError.
func Load(fsys vfs.FS, dir string, offset int64) ([]Entry, error) {
	name := filepath.Join(dir, FileName(offset))
	b, err := vfs.ReadFile(fsys, name, maxSnapshotBytes)
	if err != nil {
		return nil, fmt.Errorf("read producer snapshot: %w", err)
	}
	return Decode(name, b)
}

// Loaded is the outcome of LoadNewest.
type Loaded struct {
	Entries []Entry
	Offset  int64 // end offset of the snapshot; the least allowed one when none was found
	Found   bool
	// Damaged holds one error for each newer snapshot that was refused and removed.
	Damaged []error
}

// LoadNewest reads the newest good snapshot whose end offset lies in
// [least, most]: replay goes on from Loaded.Offset. Damaged ones on the way are
// removed, for the next start would meet them again.
func LoadNewest(fsys vfs.FS, dir string, least, most int64) (Loaded, error) {
	out := Loaded{Offset: least}
	offsets, err := List(fsys, dir)
	if err != nil {
		return out, err
	}
	for _, offset := range slices.Backward(offsets) {
		if offset < least || offset > most {
			continue
		}
		entries, err := Load(fsys, dir, offset)
		if errors.Is(err, vfs.ErrCorrupt) {
			out.Damaged = append(out.Damaged, err)
			if err := Delete(fsys, dir, offset); err != nil {
				return out, err
			}
			continue
		}
		if err != nil {
			return out, err
		}
		out.Entries, out.Offset, out.Found = entries, offset, true
		return out, nil
	}
	return out, nil
}

// Delete removes a snapshot; a missing one is no error.
func Delete(fsys vfs.FS, dir string, offset int64) error {
	err := fsys.Remove(filepath.Join(dir, FileName(offset)))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove producer snapshot: %w", err)
	}
	return nil
}

// DeleteAbove removes the snapshots whose end offset is above the given one, the
// highest first, as truncation needs it. It returns how many there were; the
// directory is not synced.
func DeleteAbove(fsys vfs.FS, dir string, offset int64) (int, error) {
	return deleteWhere(fsys, dir, func(o int64) bool { return o > offset })
}

// DeleteBelow removes the snapshots whose end offset is below the given one.
func DeleteBelow(fsys vfs.FS, dir string, offset int64) (int, error) {
	return deleteWhere(fsys, dir, func(o int64) bool { return o < offset })
}

// DeleteStray removes the snapshots that belong to no segment, by the base
// offsets of the segments, ascending. The newest snapshot stays when it lies
// above the last of them: a clean stop wrote it at the end of the log.
func DeleteStray(fsys vfs.FS, dir string, bases []int64) (int, error) {
	offsets, err := List(fsys, dir)
	if err != nil || len(offsets) == 0 {
		return 0, err
	}
	newest := offsets[len(offsets)-1]
	return deleteWhere(fsys, dir, func(o int64) bool {
		if o == newest && (len(bases) == 0 || o > bases[len(bases)-1]) {
			return false
		}
		_, found := slices.BinarySearch(bases, o)
		return !found
	})
}

func deleteWhere(fsys vfs.FS, dir string, doomed func(offset int64) bool) (int, error) {
	offsets, err := List(fsys, dir)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, offset := range slices.Backward(offsets) {
		if !doomed(offset) {
			continue
		}
		if err := Delete(fsys, dir, offset); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
