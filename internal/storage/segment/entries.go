package segment

// The entries of index files, for who looks into them without a broker. A file
// that does not end with a whole entry has a rest; the numbers are taken as
// they are.

// OffsetEntry is an entry of an offset index: the last offset of a batch, and
// where the batch begins in the data file.
type OffsetEntry struct{ Offset, Position int64 }

// TimeEntry is an entry of a time index: the largest timestamp so far, and the
// last offset of the first batch that has it.
type TimeEntry struct{ Timestamp, Offset int64 }

// OffsetEntries reads the content of the .index file of the segment at base.
func OffsetEntries(base int64, b []byte) (all []OffsetEntry, rest int) {
	for ; len(b) >= offsetEntry; b = b[offsetEntry:] {
		all = append(all, OffsetEntry{base + int64(be32(b)), int64(be32(b[4:]))})
	}
	return all, len(b)
}

// TimeEntries reads the content of the .timeindex file of the segment at base.
func TimeEntries(base int64, b []byte) (all []TimeEntry, rest int) {
	for ; len(b) >= timeEntry; b = b[timeEntry:] {
		all = append(all, TimeEntry{be64(b), base + int64(be32(b[8:]))})
	}
	return all, len(b)
}

// AbortedEntries reads the content of a .txnindex file.
func AbortedEntries(b []byte) (all []Aborted, rest int) {
	for ; len(b) >= txnEntry; b = b[txnEntry:] {
		all = append(all, parseTxn(b))
	}
	return all, len(b)
}
