// Package invariant asserts what only this program itself could break. The
// checks run under the build tag "invariants" and under the race detector, and
// are compiled away otherwise:
//
//	if invariant.On {
//		invariant.Check(base <= next, "base %d above next %d", base, next)
//	}
//
// The guard keeps the arguments from being evaluated. What input from the
// network, a disk or an operator can cause is an error, never an assertion.
// All functions may be called concurrently.
package invariant

import "fmt"

// Check panics with the formatted message when ok is false and the checks are on.
func Check(ok bool, format string, args ...any) {
	if On && !ok {
		panic("invariant broken: " + fmt.Sprintf(format, args...))
	}
}
