//go:build interop

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// opaque prints bytes that members tell each other: text as text, what
// consumers write as what it says, the rest in hexadecimal.
func (s *session) opaque(name string, x []byte) string {
	switch {
	case x == nil:
		return "null"
	case printable(x):
		return fmt.Sprintf("%q", s.plain(string(x)))
	}
	switch name {
	case "Metadata", "ProtocolMetadata":
		var m kmsg.ConsumerMemberMetadata
		if m.ReadFrom(x) == nil && bytes.Equal(m.AppendTo(nil), x) {
			return s.plain(fmt.Sprintf("subscription%+v", m))
		}
	case "MemberAssignment":
		var m kmsg.ConsumerMemberAssignment
		if m.ReadFrom(x) == nil && bytes.Equal(m.AppendTo(nil), x) {
			slices.SortFunc(m.Topics, func(a, b kmsg.ConsumerMemberAssignmentTopic) int { return strings.Compare(a.Topic, b.Topic) })
			return s.plain(fmt.Sprintf("assignment%+v", m))
		}
	}
	return fmt.Sprintf("x'%x'", x)
}

func printable(x []byte) bool {
	for _, b := range x {
		if b < ' ' || b > '~' {
			return false
		}
	}
	return true
}
