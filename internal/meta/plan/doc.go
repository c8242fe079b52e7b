// Package plan turns a wish and an image into transactions on the metadata
// store. Each states everything that it assumed, so that any broker may send
// it at any time: a compare that fails changes nothing, and is answered or
// planned again from a fresh image. It is pure; any goroutine may call it.
//
// A transaction whose outcome is unknown may have been applied or may yet be.
// Only the same transaction may be sent again; where that can succeed twice or
// fail because it succeeded before, the plan has a method that reads the
// answer.
//
// # Errors
//
// What the protocol refuses is a *Refusal: its message is the one that Apache
// Kafka gives, and it unwraps to the *kerr.Error. ErrStale says that the image
// was outrun.
package plan

import (
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
)

// Refusal is an answer of the protocol with its message.
type Refusal struct {
	Code    *kerr.Error
	Message string
}

func (r *Refusal) Error() string { return r.Message }

// Unwrap gives the *kerr.Error.
func (r *Refusal) Unwrap() error { return r.Code }

func refuse(code *kerr.Error, format string, args ...any) error {
	return &Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// ErrStale says that something which the plan assumed no longer holds, and
// that it is to be planned again from a newer image.
var ErrStale = errors.New("the metadata changed meanwhile")
