package metastore

import (
	"time"

	"golang.org/x/sys/unix"
)

// Boottime is CLOCK_BOOTTIME: unlike Go's monotonic clock it goes on while the
// machine sleeps, so a session does not outlive a suspended laptop or VM (safety 31).
func Boottime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("metastore: CLOCK_BOOTTIME: " + err.Error()) // every kernel since 2.6.39 has it
	}
	return time.Duration(ts.Nano())
}
