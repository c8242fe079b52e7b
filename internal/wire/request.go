package wire

import (
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ParseRequest reads a frame (without its length) of any key that kmsg knows, at
// any version of it. Byte fields alias the frame, strings do not.
func ParseRequest(frame []byte) (Header, kmsg.Request, error) {
	h, err := ParseFixed(frame)
	if err != nil {
		return h, nil, err
	}
	req := kmsg.RequestForKey(h.Key)
	if req == nil {
		return h, nil, fmt.Errorf("%w: key %d is unknown", ErrUnsupported, h.Key)
	}
	if h.Version < 0 || h.Version > req.MaxVersion() {
		return h, nil, fmt.Errorf("%w: %s version %d", ErrUnsupported, kmsg.NameForKey(h.Key), h.Version)
	}
	req.SetVersion(h.Version)
	h, body, err := ParseHeader(frame, req.IsFlexible())
	if err != nil {
		return h, nil, err
	}
	return h, req, ParseBody(req, body)
}

// ParseBody reads a body into req, whose version is set.
func ParseBody(req kmsg.Request, body []byte) error {
	if req.Key() == KeyProduce {
		if err := checkProduce(body, req.GetVersion()); err != nil {
			return err
		}
	}
	// Not UnsafeReadFrom: strings outlive the frame in sessions, images and answers.
	if err := req.ReadFrom(body); err != nil {
		return fmt.Errorf("%w %s request v%d: %w", ErrMalformed, kmsg.NameForKey(req.Key()), req.GetVersion(), err)
	}
	return nil
}
