package wire

import (
	"errors"

	"github.com/twmb/franz-go/pkg/kerr"
)

// ErrUnsupported marks a key or version that is not served.
var ErrUnsupported = errors.New("unsupported")

// Code is the only translation of an error to a protocol code: nil is 0, a
// *kerr.Error anywhere in the chain its code, all else -1 UNKNOWN_SERVER_ERROR.
func Code(err error) int16 {
	if err == nil {
		return 0
	}
	if ke, ok := errors.AsType[*kerr.Error](err); ok && ke != nil {
		return ke.Code
	}
	return kerr.UnknownServerError.Code
}

// Known reports whether the protocol has a word for err: nil, or a *kerr.Error
// other than UNKNOWN_SERVER_ERROR. What is not known deserves a log line.
func Known(err error) bool {
	return Code(err) != kerr.UnknownServerError.Code
}
