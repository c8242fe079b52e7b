//go:build !unix

package server

import "net"

// setBacklog leaves the bound that package net asked for.
func setBacklog(*net.TCPListener, int) error { return nil }
