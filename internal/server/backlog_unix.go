//go:build unix

package server

import (
	"errors"
	"net"
	"syscall"
)

// setBacklog bounds the connections that wait to be accepted. Listening again
// is how a system is told another bound than the one that package net asks for.
func setBacklog(ln *net.TCPListener, n int) error {
	raw, err := ln.SyscallConn()
	if err != nil {
		return err
	}
	var called error
	err = raw.Control(func(fd uintptr) { called = syscall.Listen(int(fd), n) })
	return errors.Join(err, called)
}
