// Package checkpoint reads and writes the text files in which a log directory
// remembers one offset for each of its partitions, byte for byte as Apache
// Kafka's:
//
//	0                    version
//	2                    number of lines that follow
//	orders 0 5120        topic, partition, offset
//	orders 1 4711
//
// A file is replaced as a whole: after a crash it is the old one or the new
// one. Reading is strict: anything else than such a file is a vfs.CorruptError
// that names file and line, and nothing of it is used.
//
// Functions keep no state; callers serialize writes of one file.
package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strconv"

	"github.com/barnabas-mq/barnabas/internal/kafka"
	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// The files of a log directory.
const (
	// RecoveryPoint holds the offset below which each log is on disk.
	RecoveryPoint = "recovery-point-offset-checkpoint"
	// LogStart holds the start of each log that begins above its first segment.
	LogStart = "log-start-offset-checkpoint"
	// HighWatermark holds the last known high watermarks.
	HighWatermark = "replication-offset-checkpoint"
	// Cleaner holds the offset up to which each compacted log was cleaned.
	Cleaner = "cleaner-offset-checkpoint"
)

// Read returns the offsets in a file; a missing file holds none.
func Read(fsys vfs.FS, name string) (map[kafka.TopicPartition]int64, error) {
	data, err := vfs.ReadFile(fsys, name, MaxBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return map[kafka.TopicPartition]int64{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read checkpoint: %w", err)
	}
	return Parse(name, data)
}

// Write puts offsets in place of the file's content; durable when it returns nil.
func Write(fsys vfs.FS, name string, offsets map[kafka.TopicPartition]int64) error {
	if err := vfs.ReplaceFile(fsys, name, Format(offsets)); err != nil {
		return fmt.Errorf("write checkpoint: %w", err)
	}
	return nil
}

// Format returns the content of a file, its lines sorted by topic and partition.
func Format(offsets map[kafka.TopicPartition]int64) []byte {
	order := slices.SortedFunc(maps.Keys(offsets), func(a, b kafka.TopicPartition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	b := AppendHeader(nil, len(offsets))
	for _, tp := range order {
		b = append(append(b, tp.Topic...), ' ')
		b = append(strconv.AppendInt(b, int64(tp.Partition), 10), ' ')
		b = append(strconv.AppendInt(b, offsets[tp], 10), '\n')
	}
	return b
}

// Parse parses what Format returns; name only names the file in errors.
func Parse(name string, data []byte) (map[kafka.TopicPartition]int64, error) {
	offsets := map[kafka.TopicPartition]int64{}
	err := ParseLines(name, data, 3, func(line int, f []string) error {
		partition, err := ParseNumber(name, line, "partition", f[1], 32, 0)
		if err != nil {
			return err
		}
		offset, err := ParseNumber(name, line, "offset", f[2], 64, 0)
		if err != nil {
			return err
		}
		tp := kafka.TopicPartition{Topic: f[0], Partition: int32(partition)}
		if _, twice := offsets[tp]; twice {
			return vfs.CorruptLinef(name, line, "partition %s is listed twice", tp)
		}
		offsets[tp] = offset
		return nil
	})
	if err != nil {
		return nil, err
	}
	return offsets, nil
}
