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
	rate, burst int64 // bytes per second, bytes
	level       int64 // bytes; negative is debt
	at          int64 // mono ns up to which the level is counted
	begun       bool
}

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
	b.level -= int64(n)
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
	if hi >= uint64(b.rate) {
		return math.MaxInt64
	}
	ns, rest := bits.Div64(hi, lo, uint64(b.rate))
	if rest > 0 {
		ns++
	}
	return time.Duration(min(ns, math.MaxInt64))
}

// fill adds what the time since the last call is worth, in whole bytes.
func (b *Bucket) fill(now clock.Time) {
	if !b.begun {
		b.at, b.begun = now.Mono, true
	}
	since := now.SinceMono(b.at)
	if since <= 0 {
		return
	}
	hi, lo := bits.Mul64(uint64(since), uint64(b.rate))
	if hi >= uint64(time.Second) {
		b.level, b.at = b.burst, now.Mono
		return
	}
	n, rest := bits.Div64(hi, lo, uint64(time.Second))
	if n >= uint64(b.burst-min(b.level, b.burst)) {
		b.level, b.at = b.burst, now.Mono
		return
	}
	b.level += int64(n)
	// The part of a byte that is left over counts next time.
	b.at = now.Mono - int64(rest/uint64(b.rate))
}
