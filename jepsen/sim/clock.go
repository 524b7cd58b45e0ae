package sim

import (
	"time"

	"github.com/norn-dev/norn/clock"
)

// origin is the wall time at which runs begin.
var origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()

// local is a clock: a monotonic one that began somewhere and runs a little
// fast or slow, and a wall clock that may be off and be set.
type local struct {
	began int64 // true time at which the monotonic clock began
	first int64 // what it showed then
	drift int64 // in millionths
	off   int64 // of the wall clock, ns
}

func (c *local) mono(now int64) int64 {
	d := now - c.began
	return c.first + d + d/1e6*c.drift
}

func (c *local) wall(now int64) int64 { return origin + now + c.off + now/1e6*c.drift }

func (c *local) time(now int64) clock.Time {
	return clock.Time{Wall: c.wall(now), Mono: c.mono(now)}
}

// whenMono is the true time at which the monotonic clock shows this much, or
// clock.Never.
func (c *local) whenMono(mono int64) int64 {
	if mono == clock.Never {
		return clock.Never
	}
	d := mono - c.first
	return c.began + d - d/1e6*c.drift + max(d/1e6, 0)
}

// whenWall is the same for the wall clock, as long as it is not set.
func (c *local) whenWall(wall int64) int64 {
	if wall == clock.Never {
		return clock.Never
	}
	d := wall - origin - c.off
	return d - d/1e6*c.drift + max(d/1e6, 0)
}
