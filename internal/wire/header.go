package wire

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// KeyProduce, KeyControlledShutdown and KeyApiVersions are the keys that the framing itself must know.
	KeyProduce            int16 = 0
	KeyControlledShutdown int16 = 7
	KeyApiVersions        int16 = 18

	// FixedHeaderBytes is what every request begins with: key, version, correlation.
	FixedHeaderBytes = 8
	// LengthBytes is the length prefix of a frame.
	LengthBytes = 4
)

// ErrMalformed marks bytes that are not a request or response of their key and version.
var ErrMalformed = errors.New("malformed")

// Header is a request's header. ClientID aliases the frame; nil means null.
type Header struct {
	Key, Version int16
	Correlation  int32
	ClientID     []byte
}

// ParseFixed reads what every header version has. It is all that may be read of
// a request whose version is unknown: even the header's own shape depends on it.
func ParseFixed(frame []byte) (Header, error) {
	if len(frame) < FixedHeaderBytes {
		return Header{}, fmt.Errorf("%w request header: %d bytes", ErrMalformed, len(frame))
	}
	return Header{
		Key:         int16(binary.BigEndian.Uint16(frame)),
		Version:     int16(binary.BigEndian.Uint16(frame[2:])),
		Correlation: int32(binary.BigEndian.Uint32(frame[4:])),
	}, nil
}

// ParseHeader reads a whole header; flexible tells whether key and version carry
// header v2. The body is what is left of the frame.
func ParseHeader(frame []byte, flexible bool) (h Header, body []byte, err error) {
	h, err = ParseFixed(frame)
	if err != nil {
		return h, nil, err
	}
	b := frame[FixedHeaderBytes:]
	if h.Key == KeyControlledShutdown && h.Version == 0 {
		return h, b, nil
	}
	if len(b) < 2 {
		return h, nil, fmt.Errorf("%w request header: no client id", ErrMalformed)
	}
	n := int(int16(binary.BigEndian.Uint16(b)))
	b = b[2:]
	switch {
	case n < -1 || n > len(b):
		return h, nil, fmt.Errorf("%w request header: client id of %d bytes", ErrMalformed, n)
	case n >= 0:
		h.ClientID, b = b[:n:n], b[n:]
	}
	if flexible {
		if b, err = skipTags(b); err != nil {
			return h, nil, err
		}
	}
	return h, b, nil
}

// skipTags steps over a tagged-field section; no tag of a request header is known.
func skipTags(b []byte) ([]byte, error) {
	count, b, ok := uvarint(b)
	// A tag is two bytes at the least, so a count cannot exceed half of what is left.
	if !ok || int64(count)*2 > int64(len(b)) {
		return nil, fmt.Errorf("%w request header: tags", ErrMalformed)
	}
	for ; count > 0; count-- {
		var size uint32
		if _, b, ok = uvarint(b); ok {
			size, b, ok = uvarint(b)
		}
		if !ok || int64(size) > int64(len(b)) {
			return nil, fmt.Errorf("%w request header: tags", ErrMalformed)
		}
		b = b[size:]
	}
	return b, nil
}

// uvarint reads the protocol's unsigned varint: at most five bytes, 32 bits.
func uvarint(b []byte) (v uint32, rest []byte, ok bool) {
	for i := 0; i < 5 && i < len(b); i++ {
		v |= uint32(b[i]&0x7f) << (7 * i)
		if b[i] < 0x80 {
			return v, b[i+1:], i < 4 || b[i] < 0x10
		}
	}
	return 0, nil, false
}

// AppendRequest appends a whole frame: length, header and body. A nil clientID is null.
func AppendRequest(dst []byte, r kmsg.Request, correlation int32, clientID *string) []byte {
	start := len(dst)
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.Key()))
	dst = binary.BigEndian.AppendUint16(dst, uint16(r.GetVersion()))
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	if r.Key() != KeyControlledShutdown || r.GetVersion() != 0 {
		if clientID == nil {
			dst = append(dst, 0xff, 0xff)
		} else {
			dst = binary.BigEndian.AppendUint16(dst, uint16(len(*clientID)))
			dst = append(dst, *clientID...)
		}
		if r.IsFlexible() {
			dst = append(dst, 0)
		}
	}
	dst = r.AppendTo(dst)
	PutLength(dst[start:])
	return dst
}

// PutLength sets the length prefix of a frame that is whole in memory.
func PutLength(frame []byte) {
	binary.BigEndian.PutUint32(frame, uint32(len(frame)-LengthBytes))
}

// AppendResponseHeader appends a length of zero, to be set later, and the response header.
func AppendResponseHeader(dst []byte, key int16, correlation int32, flexible bool) []byte {
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.BigEndian.AppendUint32(dst, uint32(correlation))
	if flexible && key != KeyApiVersions {
		dst = append(dst, 0)
	}
	return dst
}

// AppendResponse appends a whole frame: length, header and body.
func AppendResponse(dst []byte, r kmsg.Response, correlation int32) []byte {
	start := len(dst)
	dst = AppendResponseHeader(dst, r.Key(), correlation, r.IsFlexible())
	dst = r.AppendTo(dst)
	PutLength(dst[start:])
	return dst
}

// ParseResponse reads a response frame (without its length) into r, whose version is set.
func ParseResponse(frame []byte, r kmsg.Response) (correlation int32, err error) {
	if len(frame) < 4 {
		return 0, fmt.Errorf("%w response header: %d bytes", ErrMalformed, len(frame))
	}
	correlation = int32(binary.BigEndian.Uint32(frame))
	body := frame[4:]
	if r.IsFlexible() && r.Key() != KeyApiVersions {
		if body, err = skipTags(body); err != nil {
			return correlation, err
		}
	}
	if err := r.ReadFrom(body); err != nil {
		return correlation, fmt.Errorf("%w %s response v%d: %w", ErrMalformed, kmsg.NameForKey(r.Key()), r.GetVersion(), err)
	}
	return correlation, nil
}
