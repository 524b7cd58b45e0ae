package clock

import (
	"math"
	"time"
)

// Never is the instant that does not come: what a wake-up time is when there
// is nothing to wake up for.
const Never int64 = math.MaxInt64

// Time is one instant as one process sees it.
type Time struct {
	Wall int64 // ns since the Unix epoch; crosses processes, may step
	Mono int64 // ns on this process's monotonic clock; means nothing elsewhere
}

// Add gives the instant d later, on both clocks.
func (t Time) Add(d time.Duration) Time {
	return Time{Wall: add(t.Wall, int64(d)), Mono: add(t.Mono, int64(d))}
}

// SinceMono is the time that has passed since a reading of the same process's
// monotonic clock. It is negative when the reading lies ahead.
func (t Time) SinceMono(mono int64) time.Duration {
	return time.Duration(sub(t.Mono, mono))
}

// add is a+b, held at the ends of the range.
func add(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}

// sub is a-b, held at the ends of the range.
func sub(a, b int64) int64 {
	diff := a - b
	switch {
	case a >= 0 && b < 0 && diff < 0:
		return math.MaxInt64
	case a < 0 && b > 0 && diff >= 0:
		return math.MinInt64
	}
	return diff
}
