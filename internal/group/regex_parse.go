package group

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// The bounds of a regular expression. To look for what it matches takes, for
// each topic, up to the product of its program and the topic's name; so what is
// larger than any that somebody wrote by hand is refused. (Apache Kafka takes all
// that its library can read, and looks beside the coordinator.)
const (
	regexBytes = 10_000
	regexSteps = 10_000
)

// Regex is a regular expression (RE2) that was read. To read one takes long, next
// to other commands: it is done before the command comes to the machine, and a
// look at the topics does it in steps of its own.
type Regex struct {
	re    *regexp.Regexp // nil: there is none that this version can read,
	why   string         // and why
	steps int            // of the program, about
}

// ReadRegex reads a regular expression.
func ReadRegex(text string) *Regex {
	if len(text) > regexBytes {
		return &Regex{why: fmt.Sprintf("it is longer than %d bytes", regexBytes)}
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return &Regex{why: strings.TrimPrefix(err.Error(), "error parsing regexp: ")}
	}
	steps := stepsOf(tree)
	if steps > regexSteps {
		return &Regex{why: "it is too complex"}
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return &Regex{why: strings.TrimPrefix(err.Error(), "error parsing regexp: ")}
	}
	re.Longest()
	return &Regex{re: re, steps: steps}
}

// stepsOf is about the length of an expression's program, in which repetitions
// are written out, and a little more for large classes of characters. The
// parser bounds it, so that it does not overflow.
func stepsOf(re *syntax.Regexp) int {
	steps := 1 + len(re.Rune)
	if re.Op == syntax.OpCharClass {
		steps = 1 + len(re.Rune)/32
	}
	for _, sub := range re.Sub {
		steps += stepsOf(sub)
	}
	if re.Op == syntax.OpRepeat {
		steps *= max(re.Min, re.Max, 1)
	}
	return steps
}

// matches says whether the expression matches all of a name. Of the matches that begin
// first it finds the longest.
func (x *Regex) matches(name string) bool {
	if x.re == nil {
		return false
	}
	at := x.re.FindStringIndex(name)
	return at != nil && at[0] == 0 && at[1] == len(name)
}
