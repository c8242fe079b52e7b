package cli

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/magiconair/properties"
	"github.com/spf13/cobra"

	"github.com/barnabas-mq/barnabas/internal/batch"
	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/storage"
	"github.com/barnabas-mq/barnabas/internal/storage/segment"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

func logVerifyCommand() *cobra.Command {
	var repair bool
	var o output
	c := &cobra.Command{
		Use:   "verify DIR...",
		Short: "Check every batch of log or partition directories",
		Long: `Read every segment of log directories, or of single partitions, and check
lengths, sums and the order of offsets, and that every entry of the offset, time and
transaction indexes is that of a batch. It changes nothing, and may run beside
a broker. Exit code 1 when something is damaged; file and position are named.

A torn end, where a write was interrupted, is no damage: the next start cuts it.
--repair does what a start and an orderly stop would do, without a broker: it
cuts torn ends, removes indexes that are wrong, which are made anew when somebody
asks them, and marks the directory clean. It works on
whole log directories only, which no broker may have open. Damage elsewhere is
never cut.`,
		Example: "  barnabas log verify barnabas-data\n  barnabas log verify --repair barnabas-data",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			reports, err := verify(args)
			if err != nil {
				return err
			}
			damaged, indexes := 0, 0
			for _, r := range reports {
				if r.Damage != "" {
					damaged++
				}
				indexes += len(r.wrong)
			}
			if err := o.print(c.OutOrStdout(), reports, func(t *table) { drawReports(t, reports) }); err != nil {
				return err
			}
			switch {
			case damaged > 0 && repair:
				return fmt.Errorf("%d partitions are damaged and nothing was repaired: delete their directories to fetch them anew from a replica, or to begin empty", damaged)
			case damaged > 0:
				return fmt.Errorf("%d partitions are damaged", damaged)
			case repair:
				return repairDirs(c, args, reports)
			case indexes > 0:
				return fmt.Errorf("%d indexes do not fit their segments: `barnabas log verify --repair` removes them, and the broker makes them anew", indexes)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&repair, "repair", false, "bring log directories that were not closed in order into good order")
	o.flag(c)
	return c
}

// report is what was found in one partition.
type report struct {
	Directory string   `json:"directory"`
	Segments  int      `json:"segments"`
	Batches   int64    `json:"batches"`
	Records   int64    `json:"records"`
	Bytes     int64    `json:"bytes"`
	Start     int64    `json:"start"` // first offset in the files
	End       int64    `json:"end"`   // the offset after the last
	Notes     []string `json:"notes,omitempty"`
	Damage    string   `json:"damage,omitempty"`
	Indexes   []string `json:"wrongIndexes,omitempty"` // and what is wrong with each

	wrong []string // the files of Indexes
}

// state is one line on the partition.
func (r report) state() string {
	state := "ok"
	if len(r.Notes) > 0 {
		state += " (" + strings.Join(r.Notes, "; ") + ")"
	}
	if len(r.Indexes) > 0 {
		state = "WRONG INDEX: " + strings.Join(r.Indexes, "; ")
	}
	if r.Damage != "" {
		state = "DAMAGED: " + r.Damage
	}
	return state
}

func drawReports(t *table, all []report) {
	t.row("DIRECTORY", "SEGMENTS", "BATCHES", "RECORDS", "BYTES", "START", "END", "STATE")
	for _, r := range all {
		t.row(r.Directory, r.Segments, r.Batches, r.Records, r.Bytes, r.Start, r.End, r.state())
	}
}

// verify checks the partitions in or at each directory.
func verify(dirs []string) ([]report, error) {
	out := []report{}
	for _, dir := range dirs {
		partitions, err := partitionsIn(dir)
		if err != nil {
			return nil, err
		}
		for _, p := range partitions {
			r, err := verifyPartition(p)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, nil
}

// partitionsIn lists dir itself when it holds segments, else those below it that do.
func partitionsIn(dir string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*.log"))
	if err != nil {
		return nil, err
	}
	if len(names) > 0 {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		_, err := os.Stat(filepath.Join(dir, e.Name(), "partition.metadata"))
		if e.IsDir() && err == nil && !strings.HasSuffix(e.Name(), "-delete") {
			out = append(out, filepath.Join(dir, e.Name()))
		}
	}
	if len(out) == 0 {
		if _, err := os.Stat(filepath.Join(dir, "meta.properties")); err != nil {
			return nil, usagef("%s is neither a log directory nor a partition's", dir)
		}
	}
	return out, nil
}

func escapeGlob(s string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(s)
}

// file is one segment's data file.
type file struct {
	path string
	base int64
}

func verifyPartition(dir string) (report, error) {
	r := report{Directory: dir, Start: -1}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return r, err
	}
	var files []file
	for _, e := range entries {
		if base, suffix, ok := segment.ParseName(e.Name()); ok && suffix == ".log" {
			files = append(files, file{filepath.Join(dir, e.Name()), base})
		}
	}
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.base, b.base) })
	for i, f := range files {
		next := int64(-1)
		if i+1 < len(files) {
			next = files[i+1].base
		}
		if err := r.segment(f, next); err != nil {
			r.Damage = err.Error()
			break
		}
	}
	return r, nil
}

// segment checks one file; next is the base of the one after it, or -1. What
// lies at or above next is the dead tail of a truncation (it goes at the next
// start or stop), and what is torn at the very end was never acknowledged.
func (r *report) segment(f file, next int64) error {
	in, err := os.Open(f.path)
	if err != nil {
		return err
	}
	defer in.Close()
	r.Segments++
	if r.Start < 0 {
		r.Start, r.End = f.base, f.base
	}
	if f.base < r.End {
		return fmt.Errorf("%s begins at %d, below %d where the file before it ends", f.path, f.base, r.End)
	}
	r.End = f.base
	buffered := bufio.NewReaderSize(in, 1<<20)
	indexes, err := r.openIndexes(f)
	if err != nil {
		return err
	}
	defer func() { indexes.close(r) }()
	var buf []byte
	for pos := int64(0); ; pos += int64(len(buf)) {
		if next >= 0 && r.End >= next { // whatever follows is dead, torn or whole
			if _, err := buffered.Peek(1); err == nil {
				r.note("%s holds a dead tail from position %d on", f.path, pos)
			}
			return nil
		}
		buf, err = readBatch(buffered, buf[:0])
		if errors.Is(err, io.EOF) {
			return nil
		}
		var b batch.Batch
		if err == nil {
			b, err = r.check(buf)
		}
		switch {
		case err == nil && next >= 0 && b.BaseOffset() >= next:
			r.note("%s holds a dead tail from position %d on", f.path, pos)
			return nil
		case errors.Is(err, errTorn) && next < 0:
			r.note("%s is torn at position %d", f.path, pos)
			return nil
		case err != nil:
			return fmt.Errorf("%s at position %d: %w", f.path, pos, err)
		}
		r.Batches++
		r.Records += int64(b.Count())
		r.Bytes += int64(len(buf))
		r.End = b.NextOffset()
		indexes.batch(pos, b)
	}
}

func (r *report) check(raw []byte) (batch.Batch, error) {
	b, _, err := batch.Next(raw)
	switch {
	case err != nil:
		return nil, err
	case !b.CRCValid():
		return nil, errSum
	case b.BaseOffset() < r.End:
		return nil, fmt.Errorf("damage: a batch at offset %d after offset %d", b.BaseOffset(), r.End-1)
	case b.LastOffset() < b.BaseOffset():
		return nil, fmt.Errorf("damage: a batch from offset %d to %d", b.BaseOffset(), b.LastOffset())
	}
	return b, nil
}

func (r *report) note(format string, args ...any) {
	r.Notes = append(r.Notes, fmt.Sprintf(format, args...))
}

// repairDirs opens log directories as a start does, and closes them in order.
func repairDirs(c *cobra.Command, dirs []string, reports []report) error {
	for _, dir := range dirs {
		text, err := os.ReadFile(filepath.Join(dir, "meta.properties"))
		if err != nil {
			return usagef("--repair works on whole log directories, and %s has no meta.properties", dir)
		}
		props, err := properties.Load(text, properties.UTF8)
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Join(dir, "meta.properties"), err)
		}
		log := slog.New(slog.NewTextHandler(c.ErrOrStderr(), nil))
		m := storage.New(storage.ManagerConfig{Dirs: []string{dir}, NodeID: kafka.NodeID(props.GetInt("node.id", -1))}, vfs.Real, log, nil)
		if err := m.Claim(); err != nil {
			return err
		}
		if err := errors.Join(dropIndexes(dir, reports), m.Open(c.Context())); err != nil {
			return err
		}
		if err := m.Close(-1); err != nil {
			return err
		}
		if _, err := fmt.Fprintf(c.OutOrStdout(), "%s is in good order\n", dir); err != nil {
			return err
		}
	}
	return nil
}
