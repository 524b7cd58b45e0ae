package world

import (
	"time"

	"github.com/norn-dev/norn/clock"
)

// Origin is the wall time at which runs begin.
var Origin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()

// Local is a clock: a monotonic one that began somewhere and runs a little
// fast or slow, and a wall clock that may be off and be set.
type Local struct {
	Began int64 // true time at which the monotonic clock began
	First int64 // what it showed then
	Drift int64 // in millionths
	Off   int64 // of the wall clock, ns
	Until int64 // true time until which its machine is suspended: the monotonic one stands still
}

// Suspend stops the monotonic clock for some time.
func (c *Local) Suspend(now int64, d time.Duration) {
	c.Began += int64(d)
	c.Until = now + int64(d)
}

// Resume has it go on, if it stands still.
func (c *Local) Resume(now int64) {
	if c.Until > now {
		c.Began -= c.Until - now
		c.Until = now
	}
}

// Awake tells whether the machine is not suspended.
func (c *Local) Awake(now int64) bool { return c.Until <= now }

// Mono is the monotonic clock at a true time, in ns.
func (c *Local) Mono(now int64) int64 {
	d := max(now, c.Until) - c.Began
	return c.First + d + d/1e6*c.Drift
}

// Wall is the wall clock at a true time, in ns.
func (c *Local) Wall(now int64) int64 { return Origin + now + c.Off + now/1e6*c.Drift }

// Time is what both clocks show at a true time.
func (c *Local) Time(now int64) clock.Time {
	return clock.Time{Wall: c.Wall(now), Mono: c.Mono(now)}
}

// WhenMono is the true time at which the monotonic clock shows this much, or
// clock.Never.
func (c *Local) WhenMono(mono int64) int64 {
	if mono == clock.Never {
		return clock.Never
	}
	d := mono - c.First
	return c.Began + d - d/1e6*c.Drift + max(d/1e6, 0)
}

// WhenWall is the same for the wall clock, as long as it is not set.
func (c *Local) WhenWall(wall int64) int64 {
	if wall == clock.Never {
		return clock.Never
	}
	d := wall - Origin - c.Off
	return d - d/1e6*c.Drift + max(d/1e6, 0)
}
