package checkpoint

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/barnabas-mq/barnabas/internal/vfs"
)

// version is the only version of the format that exists.
const version = 0

// MaxBytes bounds a checkpoint that is read: some four million partitions.
const MaxBytes = 256 << 20

// maxLineShown bounds how much of a bad line an error quotes.
const maxLineShown = 80

// AppendHeader appends the two lines that every checkpoint begins with.
func AppendHeader(b []byte, count int) []byte {
	b = append(strconv.AppendInt(b, version, 10), '\n')
	return append(strconv.AppendInt(b, int64(count), 10), '\n')
}

// ParseLines parses the frame of a checkpoint: version, count, and count lines
// of fields separated by spaces, each handed to entry with its line number
// from 1. file only names the file in errors, which are vfs.CorruptError. An
// error of entry ends the parse.
//
// An empty file is one without entries: Apache Kafka creates its checkpoints
// that way. A file whose last line has no end is refused: it may be the front
// part of a longer number.
func ParseLines(file string, data []byte, fields int, entry func(line int, f []string) error) error {
	if len(data) == 0 {
		return nil
	}
	p := &lineParser{file: file, rest: data}
	v, err := p.number("version")
	if err != nil {
		return err
	}
	if v != version {
		return vfs.CorruptLinef(file, p.line, "unknown version %d, expected %d", v, version)
	}
	count, err := p.number("number of entries")
	if err != nil {
		return err
	}
	for n := range count {
		line, err := p.next()
		if err != nil {
			return err
		}
		f := strings.Fields(line)
		if len(f) == 0 {
			return vfs.CorruptLinef(file, p.line, "empty line after %d of %d entries", n, count)
		}
		if len(f) != fields {
			return vfs.CorruptLinef(file, p.line, "%d fields in %s, expected %d", len(f), quote(line), fields)
		}
		if err := entry(p.line, f); err != nil {
			return err
		}
	}
	if len(p.rest) > 0 {
		return vfs.CorruptLinef(file, p.line+1, "more lines than the %d entries announced", count)
	}
	return nil
}

// ParseNumber parses a decimal number of bits bits that is not below least.
// Only what this package writes is accepted: no plus sign, no leading zeros.
func ParseNumber(file string, line int, what, s string, bits int, least int64) (int64, error) {
	n, err := strconv.ParseInt(s, 10, bits)
	if err != nil || strconv.FormatInt(n, 10) != s {
		return 0, vfs.CorruptLinef(file, line, "%s is %s, not a number of %d bits", what, quote(s), bits)
	}
	if n < least {
		return 0, vfs.CorruptLinef(file, line, "%s is %d, below %d", what, n, least)
	}
	return n, nil
}

func quote(s string) string {
	if len(s) > maxLineShown {
		s = s[:maxLineShown] + "..."
	}
	return strconv.Quote(s)
}

type lineParser struct {
	file string
	rest []byte
	line int // of the line returned last
}

func (p *lineParser) next() (string, error) {
	p.line++
	if len(p.rest) == 0 {
		return "", vfs.CorruptLinef(p.file, p.line, "the file ends here")
	}
	i := bytes.IndexByte(p.rest, '\n')
	if i < 0 {
		return "", vfs.CorruptLinef(p.file, p.line, "the file ends within the line %s", quote(string(p.rest)))
	}
	// A Java machine on Windows ends lines in CR LF.
	line := strings.TrimSuffix(string(p.rest[:i]), "\r")
	p.rest = p.rest[i+1:]
	return line, nil
}

func (p *lineParser) number(what string) (int64, error) {
	line, err := p.next()
	if err != nil {
		return 0, err
	}
	return ParseNumber(p.file, p.line, what, line, 32, 0)
}
