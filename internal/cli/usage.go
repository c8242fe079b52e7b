package cli

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// wrongFlag says of a flag what it takes, in words that are not those of a parser.
func wrongFlag(c *cobra.Command, err error) error {
	var value *pflag.InvalidValueError
	if errors.As(err, &value) {
		err = fmt.Errorf("--%s: %q %s", value.GetFlag().Name, value.GetValue(), wrongValue(value))
	}
	return usagef("%w; see `%s --help`", err, c.CommandPath())
}

func wrongValue(err *pflag.InvalidValueError) string {
	var number *strconv.NumError
	switch kind := err.GetFlag().Value.Type(); {
	case errors.As(err, &number) && errors.Is(number.Err, strconv.ErrRange):
		return "is out of the range of such numbers"
	case strings.HasPrefix(kind, "int"):
		return "is not a whole number"
	case strings.HasPrefix(kind, "float"):
		return "is not a number"
	case kind == "duration":
		return "is not a time such as 500ms, 30s or 1h30m"
	}
	return "is not allowed: " + err.Unwrap().Error()
}

// wrongArguments says which argument is missing, or which is too many.
func wrongArguments(c *cobra.Command, args []string) error {
	var wanted []string // as Use names them, without those that may be left out
	for _, w := range strings.Fields(c.Use)[1:] {
		if strings.ContainsAny(w[:1], "[(-") {
			break
		}
		wanted = append(wanted, strings.TrimSuffix(w, "..."))
	}
	if len(args) < len(wanted) {
		return usagef("%s is missing; usage: %s", wanted[len(args)], c.UseLine())
	}
	return usagef("%q is an argument too many; usage: %s", args[len(args)-1], c.UseLine())
}

// unknownCommand names a command that does not exist, and those that are like it.
func unknownCommand(of *cobra.Command, name string) error {
	of.SuggestionsMinimumDistance = 2
	msg := fmt.Sprintf("unknown command %q for %q", name, of.CommandPath())
	if near := of.SuggestionsFor(name); len(near) > 0 {
		msg += "; did you mean " + strings.Join(near, " or ") + "?"
	}
	return usagef("%s; see `%s --help`", msg, of.CommandPath())
}
