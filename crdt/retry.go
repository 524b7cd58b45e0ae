package crdt

import (
	"math/bits"
	"time"
)

// Delay is the back-off before the next try: attempt is the number of attempts
// that have been used up, from 1; below 1 counts as 1. random draws from
// [0, 1) and is called once, only if there is jitter.
//
// The delay is Initial × Multiplier^(attempt-1), at most Max, less a random
// part of its jitter share: with jitter 0.2 it lies between 80 % and 100 % of
// that. A multiplier below 1 counts as 1, jitter above 1 as 1, and what is
// negative as 0.
func (r Retry) Delay(attempt int, random func() float64) time.Duration {
	bound := uint64(max(r.Max, 0))
	d := min(uint64(max(r.Initial, 0)), bound)
	for n := 1; n < attempt && d < bound && r.Multiplier > 1000; n++ {
		next := bound
		if hi, lo := bits.Mul64(d, uint64(r.Multiplier)); hi == 0 {
			next = min(lo/1000, bound)
		}
		if next == d {
			break // too small to grow: 0, or a few nanoseconds
		}
		d = next
	}
	share := float64(min(r.Jitter, 1000)) / 1000
	if share == 0 {
		return time.Duration(d)
	}
	return time.Duration(d) - time.Duration(float64(d)*share*random())
}
