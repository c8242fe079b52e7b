package cli

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/spf13/cobra"
)

// moveFile is what Apache Kafka's kafka-reassign-partitions reads and writes.
type moveFile struct {
	Version    int             `json:"version"`
	Partitions []movePartition `json:"partitions"`
}

type movePartition struct {
	Topic     string   `json:"topic"`
	Partition *int32   `json:"partition"`
	Replicas  []int32  `json:"replicas"`
	LogDirs   []string `json:"log_dirs,omitempty"`
}

// topicsFile names topics, as --topics-to-move-json-file of Apache Kafka does.
type topicsFile struct {
	Version int `json:"version"`
	Topics  []struct {
		Topic string `json:"topic"`
	} `json:"topics"`
}

// readFile reads a file of arguments, - for the standard input.
func readFile(c *cobra.Command, name string, v any) error {
	text, err := []byte(nil), error(nil)
	if name == "-" {
		text, err = io.ReadAll(c.InOrStdin())
	} else {
		text, err = os.ReadFile(name)
	}
	if err != nil {
		return usagef("%w", err)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(v); err != nil {
		return usagef("%s is not a file in the format of kafka-reassign-partitions: %w", name, err)
	}
	return nil
}

// readMoves reads which partitions are to be where.
func readMoves(c *cobra.Command, name string) (map[partitionName][]int32, error) {
	f := moveFile{Version: 1}
	if err := readFile(c, name, &f); err != nil {
		return nil, err
	}
	if f.Version != 1 {
		return nil, usagef("%s has version %d, and only 1 is known", name, f.Version)
	}
	if len(f.Partitions) == 0 {
		return nil, usagef("%s names no partitions", name)
	}
	out, dirs := map[partitionName][]int32{}, false
	for _, p := range f.Partitions {
		if p.Topic == "" || p.Partition == nil || *p.Partition < 0 {
			return nil, usagef("%s: every entry needs a topic and a partition", name)
		}
		at := partitionName{p.Topic, *p.Partition}
		if _, twice := out[at]; twice {
			return nil, usagef("%s names %s twice", name, at)
		}
		if err := checkReplicas(p); err != "" {
			return nil, usagef("%s: %s %s", name, at, err)
		}
		out[at] = p.Replicas
		dirs = dirs || slices.ContainsFunc(p.LogDirs, func(d string) bool { return d != "any" })
	}
	if dirs { // as in the files that kafka-reassign-partitions gives to go back
		_, err := fmt.Fprintf(c.ErrOrStderr(), "%s names log_dirs, which are not looked at: each broker chooses the directory\n", name)
		return out, err
	}
	return out, nil
}

// checkReplicas says what is wrong with an entry.
func checkReplicas(p movePartition) string {
	sorted := slices.Sorted(slices.Values(p.Replicas))
	switch {
	case len(sorted) == 0:
		return "has no replicas"
	case len(slices.Compact(sorted)) != len(p.Replicas):
		return "names a broker twice"
	case len(p.LogDirs) != 0 && len(p.LogDirs) != len(p.Replicas):
		return fmt.Sprintf("has %d log_dirs for %d replicas", len(p.LogDirs), len(p.Replicas))
	}
	return ""
}

// writeMoves gives assignments in the file's format, sorted.
func writeMoves(of map[partitionName][]int32) moveFile {
	f := moveFile{Version: 1, Partitions: []movePartition{}}
	for _, at := range sortedPartitions(of) {
		n := at.partition
		f.Partitions = append(f.Partitions, movePartition{Topic: at.topic, Partition: &n, Replicas: of[at]})
	}
	return f
}
