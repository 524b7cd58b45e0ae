package node

import (
	"time"

	"github.com/norn-dev/norn/clock"
)

// systemClock reads this machine's clocks. Go's monotonic clock stops while
// the machine is suspended: on the side that waits for leases to lapse that
// only delays (protocol (d)).
type systemClock struct{ start time.Time }

func newSystemClock() *systemClock { return &systemClock{start: time.Now()} }

func (c *systemClock) now() clock.Time {
	t := time.Now()
	return clock.Time{Wall: t.UnixNano(), Mono: int64(t.Sub(c.start))}
}

// mono is the monotonic part alone, the cheaper of the two.
func (c *systemClock) mono() int64 { return int64(time.Since(c.start)) }
