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
	until int64 // true time until which its machine is suspended: the monotonic one stands still
}

// suspend stops the monotonic clock for some time.
func (c *local) suspend(now int64, d time.Duration) {
	c.began += int64(d)
	c.until = now + int64(d)
}

// resume has it go on, if it stands still.
func (c *local) resume(now int64) {
	if c.until > now {
		c.began -= c.until - now
		c.until = now
	}
}

// awake tells whether the machine is not suspended.
func (c *local) awake(now int64) bool { return c.until <= now }

func (c *local) mono(now int64) int64 {
	d := max(now, c.until) - c.began
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
