package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// bootTime reads a clock that goes on while the machine is suspended, which Go's
// monotonic clock does not.
func bootTime() time.Duration {
	var ts unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts) != nil {
		return 0 // it stands still then, and the other clocks decide
	}
	return time.Duration(ts.Nano())
}
