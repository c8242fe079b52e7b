package etcdstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// newZap is a zap logger that writes into logger, one level down: etcd's
// information is our debugging. fatal is told what etcd would have ended the
// process for.
func newZap(logger *slog.Logger, fatal func(error)) *zap.Logger {
	return newZapWatch(logger, fatal, nil)
}

// newZapWatch also notes that the member was removed from its cluster, which
// etcd says nowhere else: it stops.
func newZapWatch(logger *slog.Logger, fatal func(error), removed *atomic.Bool) *zap.Logger {
	hook := fatalHook(fatal)
	return zap.New(slogCore{handler: logger.Handler(), removed: removed}, zap.WithFatalHook(hook), zap.WithPanicHook(hook))
}

// removedMessage is logged, at this level, when a removed member stops.
const (
	removedMessage = "data-dir used by this member must be removed"
	removedLevel   = zapcore.WarnLevel
)

// fatalHook runs in the goroutine that logged the end of the process.
type fatalHook func(error)

// OnWrite reports and never returns. Goexit instead would run deferred unlocks
// and closes, and let the rest of the member go on from there.
func (h fatalHook) OnWrite(ce *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New("etcd: " + ce.Message)
	for _, f := range fields {
		if cause, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	h(err)
	select {}
}

// unfit are warnings that do not apply to an embedded member, or come at each
// start because it elects itself before etcd's first look at the file's version.
var unfit = map[string]bool{
	"Running http and grpc server on single port. This is not recommended for production.": true,
	"setting up serving from embedded etcd failed.":                                        true, // says only that it stopped: what fails earlier is an error of the start
	"failed to update storage version":                                                     true,
	"simple token is not cryptographically signed":                                         true, // nobody logs in
	"Failed to detect schema version":                                                      true, // of a database that is new
}

// slogCore is a zapcore.Core over a slog.Handler.
type slogCore struct {
	handler slog.Handler
	removed *atomic.Bool // nil: not watched
}

func slogLevel(l zapcore.Level) slog.Level {
	switch l {
	case zapcore.DebugLevel:
		return slog.LevelDebug - 4
	case zapcore.InfoLevel:
		return slog.LevelDebug
	case zapcore.WarnLevel:
		return slog.LevelInfo
	case zapcore.ErrorLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}

func (c slogCore) Enabled(l zapcore.Level) bool {
	return c.removed != nil && l == removedLevel || c.shown(l)
}

func (c slogCore) shown(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), slogLevel(l))
}

func (c slogCore) With(fields []zapcore.Field) zapcore.Core {
	return slogCore{handler: c.handler.WithAttrs(attrs(fields)), removed: c.removed}
}

func (c slogCore) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if e.Message == removedMessage && c.removed != nil {
		c.removed.Store(true)
	}
	if unfit[e.Message] {
		e.Level = zapcore.DebugLevel
	}
	if c.shown(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c slogCore) Write(e zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(e.Time, slogLevel(e.Level), "etcd: "+e.Message, 0)
	r.AddAttrs(attrs(fields)...)
	return c.handler.Handle(context.Background(), r)
}

func (slogCore) Sync() error { return nil }

func attrs(fields []zapcore.Field) []slog.Attr {
	out := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		enc := zapcore.NewMapObjectEncoder()
		f.AddTo(enc)
		for k, v := range enc.Fields {
			out = append(out, slog.Any(k, v))
		}
	}
	return out
}
