package server

import "runtime"

// work is a goroutine of the connection: it handles k, or reads when k is nil, and
// goes on with whatever of the two is left to it.
func (c *conn) work(k *call) {
	defer c.srv.wg.Done()
	growForReading()
	for grown := false; ; {
		if k != nil {
			if !grown {
				growForHandling()
				grown = true
			}
			if !c.runLoop(k) {
				return
			}
		}
		if k = c.readOn(); k == nil {
			return
		}
	}
}

// growForReading makes room to read, 4 KiB of stack, while there is next to
// nothing on it. A request that waits has a goroutine of its own, whose stack
// would grow step by step, each time copied with all the frames that are on it:
// that was a tenth of all work where many requests wait.
//
//go:noinline
func growForReading() {
	var room [2 << 10]byte
	runtime.KeepAlive(&room)
}

// growForHandling makes room for most handlers, 8 KiB of stack; a goroutine that
// only reads does without.
//
//go:noinline
func growForHandling() {
	var room [6 << 10]byte
	runtime.KeepAlive(&room)
}
