package segment

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
)

// Suffixes of the files of a log, as Apache Kafka spells them.
const (
	LogSuffix       = ".log"
	IndexSuffix     = ".index"
	TimeIndexSuffix = ".timeindex"
	TxnIndexSuffix  = ".txnindex"
	SnapshotSuffix  = ".snapshot"
	DeletedSuffix   = ".deleted"
	CleanedSuffix   = ".cleaned"
	SwapSuffix      = ".swap"
	// SpareSuffix marks the file that the next segment will be made of. It is
	// ours; Apache Kafka ignores names that it does not know.
	SpareSuffix = ".spare"
)

// Name is the name of a segment's file: twenty digits and a suffix.
func Name(base int64, suffix string) string { return fmt.Sprintf("%020d%s", base, suffix) }

// ParseName splits a name made by Name. Names of any other form are not ok.
func ParseName(name string) (base int64, suffix string, ok bool) {
	digits, rest, found := strings.Cut(name, ".")
	if !found || len(digits) != 20 {
		return 0, "", false
	}
	base, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || base < 0 {
		return 0, "", false
	}
	return base, "." + rest, true
}

// Dir is the directory that holds a log's files. It is shared by the log's
// segments, so that renaming the directory moves them all.
type Dir struct{ path atomic.Pointer[string] }

// NewDir returns a Dir at path.
func NewDir(path string) *Dir {
	d := new(Dir)
	d.Set(path)
	return d
}

// Path is the present path.
func (d *Dir) Path() string { return *d.path.Load() }

// Set records that the directory was renamed to path. Open files stay open.
func (d *Dir) Set(path string) { d.path.Store(&path) }

// Join is the path of a file in the directory.
func (d *Dir) Join(name string) string { return filepath.Join(d.Path(), name) }
