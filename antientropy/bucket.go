package antientropy

import (
	"math"
	"math/bits"
	"time"

	"github.com/norn-dev/norn/clock"
)

// Bucket bounds bytes per second. It may be shared by all exchanges of one
// loop. Whoever sends may go into debt by one message and then waits until it
// is paid, so that no message is too large for it. Make one with [NewBucket].
type Bucket struct {
	rate, burst int64  // bytes per second, bytes
	level       int64  // bytes; negative is debt
	part        uint64 // of the next byte, in 10^-9
	at          int64  // mono ns up to which the level is counted
	begun       bool
}

// deepest bounds the debt, so that no sum overflows.
const deepest = -1 << 61

// NewBucket makes a full bucket that fills at a rate in bytes per second, up to
// a burst in bytes. Both are held at 1 at least.
func NewBucket(rate, burst int64) *Bucket {
	rate, burst = max(rate, 1), max(burst, 1)
	return &Bucket{rate: rate, burst: burst, level: burst}
}

// Take takes bytes out, into debt if need be.
func (b *Bucket) Take(now clock.Time, n int) {
	if b == nil {
		return
	}
	b.fill(now)
	b.level = max(b.level-min(int64(n), -deepest), deepest)
}

// Wait is how long it takes until something may be sent; 0 means now. A nil
// bucket never waits.
func (b *Bucket) Wait(now clock.Time) time.Duration {
	if b == nil {
		return 0
	}
	b.fill(now)
	if b.level > 0 {
		return 0
	}
	hi, lo := bits.Mul64(uint64(1-b.level), uint64(time.Second))
	lo, borrow := bits.Sub64(lo, b.part, 0)
	hi -= borrow
	if hi >= uint64(b.rate) {
		return math.MaxInt64
	}
	ns, rest := bits.Div64(hi, lo, uint64(b.rate))
	if rest > 0 {
		ns++
	}
	return time.Duration(min(ns, math.MaxInt64))
}

// fill adds what the time since the last call is worth.
func (b *Bucket) fill(now clock.Time) {
	if !b.begun {
		b.at, b.begun = now.Mono, true
	}
	since := now.SinceMono(b.at)
	if since <= 0 {
		return
	}
	hi, lo := bits.Mul64(uint64(since), uint64(b.rate))
	lo, carry := bits.Add64(lo, b.part, 0)
	hi += carry
	b.at = now.Mono
	if hi < uint64(time.Second) {
		n, rest := bits.Div64(hi, lo, uint64(time.Second))
		if n < uint64(b.burst)-uint64(b.level) { // wraps to what it is: burst >= level
			b.level, b.part = b.level+int64(n), rest
			return
		}
	}
	b.level, b.part = b.burst, 0
}
