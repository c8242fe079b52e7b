package check

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// A scanner takes a line of JSON apart. It knows no more of JSON than the text
// form needs: encoding/json takes several times as long for a history. The
// first error stays.
type scanner struct {
	b     []byte
	i     int
	err   error
	known map[string]string // one copy of each word that comes again and again
}

func (s *scanner) wrong(want string) error {
	return fmt.Errorf("column %d: not %s", s.i+1, want)
}

func (s *scanner) fail(want string) {
	if s.err == nil {
		s.err = s.wrong(want)
	}
}

func (s *scanner) space() {
	for s.i < len(s.b) && (s.b[s.i] == ' ' || s.b[s.i] == '\t' || s.b[s.i] == '\r') {
		s.i++
	}
}

// found takes the character if it comes next.
func (s *scanner) found(c byte) bool {
	s.space()
	if s.err == nil && s.i < len(s.b) && s.b[s.i] == c {
		s.i++
		return true
	}
	return false
}

func (s *scanner) expect(c byte) {
	if !s.found(c) {
		s.fail(fmt.Sprintf("the %q that is due", c))
	}
}

// raw takes a string; what it gives back may be part of the line.
func (s *scanner) raw() []byte {
	s.expect('"')
	if s.err != nil {
		return nil
	}
	start := s.i
	for ; s.i < len(s.b); s.i++ {
		switch c := s.b[s.i]; {
		case c == '"':
			s.i++
			return s.b[start : s.i-1]
		case c == '\\' || c < ' ' || c > '~':
			return s.escaped(start)
		}
	}
	s.fail("the end of a string")
	return nil
}

// escaped takes a string that holds more than plain letters.
func (s *scanner) escaped(start int) []byte {
	for ; s.i < len(s.b) && s.b[s.i] != '"'; s.i++ {
		if s.b[s.i] == '\\' {
			s.i++
		}
	}
	var out string
	if s.i >= len(s.b) || json.Unmarshal(s.b[start-1:s.i+1], &out) != nil {
		s.fail("a string")
		return nil
	}
	s.i++
	return []byte(out)
}

// text takes a string of which there are few in a history.
func (s *scanner) text() string {
	b := s.raw()
	if t, ok := s.known[string(b)]; ok {
		return t
	}
	t := string(b)
	s.known[t] = t
	return t
}

// word takes one of the names and gives its number.
func (s *scanner) word(names []string) int {
	b := s.raw()
	for i, n := range names {
		if n == string(b) && n != "" {
			return i
		}
	}
	s.fail(fmt.Sprintf("one of %q", names))
	return 0
}

// number takes a whole number of so many bits.
func (s *scanner) number(bits int) int64 {
	minus := s.found('-')
	start, n := s.i, uint64(0)
	for ; s.i < len(s.b) && s.b[s.i] >= '0' && s.b[s.i] <= '9'; s.i++ {
		if n > 1<<63/10 {
			s.fail("a number of 64 bits")
			return 0
		}
		n = n*10 + uint64(s.b[s.i]-'0')
	}
	limit := uint64(1)<<(bits-1) - 1
	if minus {
		limit++
	}
	zeros := s.i-start > 1 && s.b[start] == '0'
	if s.i == start || n > limit || zeros {
		s.fail(fmt.Sprintf("a whole number of %d bits", bits))
		return 0
	}
	if minus {
		return -int64(n)
	}
	return int64(n)
}

func (s *scanner) sum() uint32 {
	n := s.number(33)
	if n < 0 {
		s.fail("a number of 32 bits without a sign")
	}
	return uint32(n)
}

func (s *scanner) bool() bool {
	s.space()
	for _, w := range []string{"true", "false"} {
		if bytes.HasPrefix(s.b[s.i:], []byte(w)) {
			s.i += len(w)
			return w == "true"
		}
	}
	s.fail("true or false")
	return false
}
