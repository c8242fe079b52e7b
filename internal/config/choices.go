package config

import (
	"slices"
	"strings"
)

// Choices are the words that a value, or each entry of a list, may be; nil where there
// are too many to list.
func (k *Key) Choices() []string {
	if k.Type == Boolean {
		return []string{"true", "false"}
	}
	words, ok := strings.CutPrefix(k.Check.Allowed, "out of: ")
	if !ok {
		return nil
	}
	words, _, _ = strings.Cut(words, " (")
	// A colon is that of a form, which is no word.
	return slices.DeleteFunc(strings.Split(words, ", "), func(w string) bool { return strings.Contains(w, ":") })
}
