package server

import (
	"context"
	"errors"
	"reflect"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/barnabas-mq/barnabas/internal/wire"
)

// invoke calls the handler; a panic in it, or in the decoding of what a stranger
// sent, costs this connection and nothing else.
func (c *conn) invoke(k *call) (resp kmsg.Response, err error) {
	defer func() {
		if p := recover(); p != nil {
			resp, err = nil, c.panicked(k, p)
		}
	}()
	if k.entry == nil {
		return c.unsupportedApiVersions(), nil
	}
	return k.entry.handle(&c.hctx, &k.Request)
}

// unsupportedApiVersions is the one down-level answer of the protocol: body v0,
// UNSUPPORTED_VERSION and the range of ApiVersions itself, so that the client can
// ask again (KIP-511).
func (c *conn) unsupportedApiVersions() kmsg.Response {
	resp := kmsg.NewPtrApiVersionsResponse()
	resp.SetVersion(0)
	resp.ErrorCode = kerr.UnsupportedVersion.Code
	e := c.srv.table.find(wire.KeyApiVersions)
	row := kmsg.NewApiVersionsResponseApiKey()
	row.ApiKey, row.MinVersion, row.MaxVersion = e.key, e.min, e.max
	resp.ApiKeys = append(resp.ApiKeys, row)
	return resp
}

// failed makes an answer out of a handler's error; nil closes the connection.
func (c *conn) failed(k *call, resp kmsg.Response, err error) kmsg.Response {
	k.scattered = false
	switch {
	case errors.Is(err, errPanic):
	case errors.Is(err, wire.ErrMalformed):
		c.srv.met.fault(faultMalformed)
		c.srv.logs.garbage.Warn(c.srv.log, "request cannot be read, connection closed", "remote", c.info.Remote, "err", err)
	case errors.Is(err, context.Canceled) && c.ctx.Err() != nil:
		// The peer left or the server stops: nobody reads the answer.
	default:
		if !wire.Known(err) {
			c.srv.met.fault(faultHandler)
			c.srv.logs.failed.Error(c.srv.log, "request failed", "api", kmsg.NameForKey(k.Key), "version", k.Version, "err", err)
		}
		if setErrorCode(resp, wire.Code(err)) {
			return resp
		}
	}
	k.silent, k.hangUp = true, true
	return nil
}

// setErrorCode puts a code into a response's top-level field, where its schema has one.
func setErrorCode(resp kmsg.Response, code int16) bool {
	if resp == nil {
		return false
	}
	f := reflect.ValueOf(resp).Elem().FieldByName("ErrorCode")
	if !f.IsValid() || f.Kind() != reflect.Int16 {
		return false
	}
	f.SetInt(int64(code))
	return true
}
