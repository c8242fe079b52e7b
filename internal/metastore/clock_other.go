//go:build !linux

package metastore

import "time"

var started = time.Now()

// Boottime stands in for CLOCK_BOOTTIME where there is none; where Go's
// monotonic clock stops in sleep, a session may outlive the sleep.
func Boottime() time.Duration { return time.Since(started) }
