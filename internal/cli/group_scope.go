package cli

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// scope is a choice of topics, with the partitions of each; nil means all.
type scope map[string][]int32

func (s scope) names() []string { return slices.Sorted(maps.Keys(s)) }

// parseScope reads topics given as TOPIC or TOPIC:PARTITION,...
func parseScope(list []string) (scope, error) {
	out := scope{}
	for _, text := range list {
		topic, ps, some := strings.Cut(text, ":")
		if topic == "" {
			return nil, usagef("--topic: %q names no topic", text)
		}
		before, again := out[topic]
		if !some {
			out[topic] = nil
			continue
		}
		if again && before == nil {
			continue // all of them already
		}
		for n := range strings.SplitSeq(ps, ",") {
			p, err := strconv.ParseInt(strings.TrimSpace(n), 10, 32)
			if err != nil || p < 0 {
				return nil, usagef("--topic %s: %q is not a partition; write TOPIC:0,1,2", text, n)
			}
			if !slices.Contains(before, int32(p)) {
				before = append(before, int32(p))
			}
		}
		slices.Sort(before)
		out[topic] = before
	}
	return out, nil
}

// offsetLine is a line of the CSV that Kafka's tool exports.
type offsetLine struct {
	topic     string
	partition int32
	offset    int64
}

// readOffsets reads topic,partition,offset, or group,topic,partition,offset, of
// which the lines of other groups are left out.
func readOffsets(name, group string) ([]offsetLine, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, usagef("--from-file: %w", err)
	}
	defer func() { _ = f.Close() }() // it was only read
	return parseOffsets(f, name, group)
}

func parseOffsets(in io.Reader, name, group string) ([]offsetLine, error) {
	r := csv.NewReader(in)
	r.FieldsPerRecord = -1
	r.TrimLeadingSpace = true
	var out []offsetLine
	for {
		fields, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, usagef("--from-file %s: %w", name, err)
		}
		line, _ := r.FieldPos(0)
		if len(fields) == 4 {
			if fields[0] != group {
				continue
			}
			fields = fields[1:]
		}
		if len(fields) != 3 {
			return nil, usagef("--from-file %s, line %d: it must be topic,partition,offset, or group,topic,partition,offset", name, line)
		}
		p, err1 := strconv.ParseInt(strings.TrimSpace(fields[1]), 10, 32)
		at, err2 := strconv.ParseInt(strings.TrimSpace(fields[2]), 10, 64)
		if err1 != nil || err2 != nil || p < 0 || at < 0 || fields[0] == "" {
			return nil, usagef("--from-file %s, line %d: the partition and the offset must be whole numbers from 0", name, line)
		}
		out = append(out, offsetLine{fields[0], int32(p), at})
	}
	if len(out) == 0 {
		return nil, usagef("--from-file %s: it has no offsets of the group %s", name, group)
	}
	return out, nil
}

// writeOffsets writes what readOffsets reads.
func writeOffsets(w io.Writer, moves []move) error {
	c := csv.NewWriter(w)
	for _, m := range moves {
		_ = c.Write([]string{m.Topic, strconv.Itoa(int(m.Partition)), strconv.FormatInt(m.New, 10)}) // a failed write shows in Error
	}
	c.Flush()
	return c.Error()
}

// parseDatetime reads a time of ISO 8601. Without a zone it is UTC, as for Kafka's tool.
func parseDatetime(s string) (time.Time, error) {
	for _, layout := range []string{"2006-01-02T15:04:05.999Z07:00", "2006-01-02T15:04:05.999Z0700", "2006-01-02T15:04:05.999Z07",
		"2006-01-02T15:04:05.999", "2006-01-02T15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, fmt.Errorf("%q is not a time such as 2006-01-02T15:04:05.000, which is UTC, or 2006-01-02T15:04:05+01:00", s)
}

var isoDuration = regexp.MustCompile(`^P(?:(\d+)D)?(T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)(?:\.(\d{1,9}))?S)?)?$`)

// parseDuration reads a duration of ISO 8601 in days, hours, minutes and
// seconds: the units that are always as long.
func parseDuration(s string) (time.Duration, error) {
	m := isoDuration.FindStringSubmatch(strings.ToUpper(s))
	if m == nil || len(s) < 3 || m[2] == "T" {
		return 0, fmt.Errorf("%q is not a duration such as PT90S, PT1H30M or P7D", s)
	}
	var total time.Duration
	for _, part := range []struct {
		n    string
		unit time.Duration
	}{{m[1], 24 * time.Hour}, {m[3], time.Hour}, {m[4], time.Minute}, {m[5], time.Second}, {(m[6] + "000000000")[:9], 1}} {
		if part.n == "" {
			continue
		}
		n, err := strconv.ParseInt(part.n, 10, 64)
		if err != nil || n > int64((1<<63-1-total)/part.unit) {
			return 0, fmt.Errorf("the duration %q is too long", s)
		}
		total += time.Duration(n) * part.unit
	}
	return total, nil
}
