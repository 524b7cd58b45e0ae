package clock

import "time"

// MaxRate bounds how much faster or slower an [Adjusted] clock may run, parts
// per million: at a tenth of its speed it still goes forward.
const MaxRate = 900_000

// Adjusted is a clock that is wrong on purpose: it shows another one's time,
// set off and run at another rate. It is a value: what changes it gives a new
// one, and it is shared as any value is. The zero Adjusted shows its source as
// it is. It is for tests only: nothing in a cluster may trust such a clock.
type Adjusted struct {
	ppm    int64
	from   int64 // mono of the source since which the rate runs
	gained int64 // ns gained by rates before that
	offset int64
}

// At gives what the adjusted clock shows when its source shows t. The rate
// works on both clocks, the offset on the wall clock alone. The monotonic one
// never goes back.
func (a Adjusted) At(t Time) Time {
	gained := add(a.gained, rated(sub(t.Mono, a.from), a.ppm))
	return Time{Wall: add(add(t.Wall, gained), a.offset), Mono: add(t.Mono, gained)}
}

// Offset gives the clock with its wall clock set to d off its source and what
// it has gained.
func (a Adjusted) Offset(d time.Duration) Adjusted {
	a.offset = int64(d)
	return a
}

// Rate gives the clock that from t of its source on runs ppm parts per million
// faster than that (slower if negative), within [MaxRate]. What it has gained
// so far stays.
func (a Adjusted) Rate(t Time, ppm int) Adjusted {
	a.gained = add(a.gained, rated(sub(t.Mono, a.from), a.ppm))
	a.from, a.ppm = t.Mono, int64(min(max(ppm, -MaxRate), MaxRate))
	return a
}

// Set gives the clock whose wall clock is off by d at t of its source, whatever it
// has gained before, and that runs at another rate from then on, as with Rate: the
// monotonic one keeps what it has gained.
func (a Adjusted) Set(t Time, d time.Duration, ppm int) Adjusted {
	a = a.Rate(t, ppm)
	a.offset = sub(int64(d), a.gained)
	return a
}

// Source gives a clock source that shows another one adjusted.
func (a Adjusted) Source(source func() Time) func() Time {
	return func() Time { return a.At(source()) }
}

// Wait gives how long the source takes while the adjusted clock goes on by d,
// rounded up: what to set a timer of the source to.
func (a Adjusted) Wait(d time.Duration) time.Duration {
	if d <= 0 {
		return d
	}
	speed := 1_000_000 + a.ppm
	whole, rest := int64(d)/speed, int64(d)%speed
	if whole > int64(Never)/1_000_000-1 {
		return time.Duration(Never)
	}
	return time.Duration(whole*1_000_000 + (rest*1_000_000+speed-1)/speed)
}

// rated is what a rate gains in d, rounded towards zero.
func rated(d, ppm int64) int64 {
	const million = 1_000_000
	return d/million*ppm + d%million*ppm/million
}
