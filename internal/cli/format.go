package cli

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kgo"
)

const formatHelp = `The format may hold:
  %s value   %S its size (-1: null)   %k key   %K its size (-1: null)
  %t topic   %p partition   %o offset   %T timestamp in milliseconds
  %h headers as name=value,...   %% a percent sign
  \n \r \t \0 \\ \xHH bytes`

// formatter writes a record.
type formatter func(dst []byte, r *kgo.Record) []byte

// parseFormat compiles a format in the manner of kcat.
func parseFormat(s string) (formatter, error) {
	s, err := unescape(s)
	if err != nil {
		return nil, err
	}
	var parts []formatter
	for s != "" {
		text, rest, found := strings.Cut(s, "%")
		if text != "" {
			parts = append(parts, func(dst []byte, _ *kgo.Record) []byte { return append(dst, text...) })
		}
		if !found {
			break
		}
		if rest == "" {
			return nil, fmt.Errorf("the format ends in a percent sign; write %%%% for one")
		}
		f, ok := verbs[rest[0]]
		if !ok {
			return nil, fmt.Errorf("the format has %%%c, which means nothing", rest[0])
		}
		parts = append(parts, f)
		s = rest[1:]
	}
	return func(dst []byte, r *kgo.Record) []byte {
		for _, f := range parts {
			dst = f(dst, r)
		}
		return dst
	}, nil
}

func size(p []byte) int64 {
	if p == nil {
		return -1
	}
	return int64(len(p))
}

var verbs = map[byte]formatter{
	'%': func(dst []byte, _ *kgo.Record) []byte { return append(dst, '%') },
	's': func(dst []byte, r *kgo.Record) []byte { return append(dst, r.Value...) },
	'S': func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, size(r.Value), 10) },
	'k': func(dst []byte, r *kgo.Record) []byte { return append(dst, r.Key...) },
	'K': func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, size(r.Key), 10) },
	't': func(dst []byte, r *kgo.Record) []byte { return append(dst, r.Topic...) },
	'p': func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, int64(r.Partition), 10) },
	'o': func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, r.Offset, 10) },
	'T': func(dst []byte, r *kgo.Record) []byte { return strconv.AppendInt(dst, r.Timestamp.UnixMilli(), 10) },
	'h': func(dst []byte, r *kgo.Record) []byte {
		for i, h := range r.Headers {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = append(append(append(dst, h.Key...), '='), h.Value...)
		}
		return dst
	},
}

// unescape turns \n, \r, \t, \0, \\ and \xHH into the bytes they stand for.
func unescape(s string) (string, error) {
	var out []byte
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' {
			out = append(out, s[i])
			continue
		}
		i++
		if i == len(s) {
			return "", fmt.Errorf("%q ends in a backslash; write two for one", s)
		}
		switch s[i] {
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case '0':
			out = append(out, 0)
		case '\\':
			out = append(out, '\\')
		case 'x':
			if i+2 >= len(s) {
				return "", fmt.Errorf("%q: two hexadecimal digits must follow \\x", s)
			}
			b, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
			if err != nil {
				return "", fmt.Errorf("%q: two hexadecimal digits must follow \\x", s)
			}
			out = append(out, byte(b))
			i += 2
		default:
			return "", fmt.Errorf("%q: \\%c means nothing", s, s[i])
		}
	}
	return string(out), nil
}
