package antientropy

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/clock"
)

// However time passes, what is taken is at most the burst, the rate times the
// time, and the last message; and no more is waited for than is owed.
func TestBucketHoldsRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate, burst := rapid.Int64Range(1, 1<<30).Draw(t, "rate"), rapid.Int64Range(1, 1<<20).Draw(t, "burst")
		b := NewBucket(rate, burst)
		begin := clock.Time{Mono: rapid.Int64Range(math.MinInt64/4, math.MaxInt64/4).Draw(t, "begin")}
		now, taken, last := begin, 0.0, 0.0
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			if wait := b.Wait(now); wait > 0 {
				if rapid.Bool().Draw(t, "early") && b.Wait(now.Add(wait-1)) == 0 && wait > 1 {
					t.Fatalf("%v is too long", wait)
				}
				if now = now.Add(wait); b.Wait(now) > 0 {
					t.Fatalf("%v is too short", wait)
				}
			}
			last = float64(rapid.IntRange(0, 1<<20).Draw(t, "bytes"))
			taken += last
			b.Take(now, int(last))
			if most := float64(burst) + float64(rate)*now.SinceMono(begin.Mono).Seconds() + last + 1; taken > most*1.0001 {
				t.Fatalf("%v bytes taken, %v at most", taken, most)
			}
			now = now.Add(time.Duration(rapid.Int64Range(0, 1<<32).Draw(t, "pause")))
		}
	})
}

func TestBucketAtTheEnds(t *testing.T) {
	b := NewBucket(math.MaxInt64, math.MaxInt64)
	b.Take(clock.Time{Mono: math.MinInt64}, math.MaxInt64)
	if wait := b.Wait(clock.Time{Mono: math.MaxInt64}); wait != 0 {
		t.Errorf("full after ages, but wait %v", wait)
	}
	slow := NewBucket(0, 0)
	slow.Take(clock.Time{}, math.MaxInt64)
	if wait := slow.Wait(clock.Time{}); wait != math.MaxInt64 {
		t.Errorf("wait %v for a debt of ages", wait)
	}
	var none *Bucket
	none.Take(clock.Time{}, 1)
	if none.Wait(clock.Time{}) != 0 {
		t.Error("no bucket waits")
	}
}
