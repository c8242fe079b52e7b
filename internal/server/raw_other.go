//go:build !linux

package server

import "errors"

// rawSupported: off Linux every connection goes through package net, and files
// through memory.
const rawSupported = false

func (c *conn) sendFile(uintptr, int64, int) (int, error) {
	return 0, errors.ErrUnsupported
}

func (w *writer) tryWrite(*conn, []byte) int { return 0 }

func (w *writer) flushMore(c *conn) error { return w.flush(c) }

func (c *conn) tryRead(uintptr) bool { return true }
