//go:build !linux

package etcdstore

import (
	"net"
	"time"
)

func lostAfter(net.Conn, time.Duration) {}
