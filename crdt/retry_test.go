package crdt

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestDelay(t *testing.T) {
	const s = time.Second
	half := func() float64 { return 0.5 }
	usual := Retry{Initial: s, Max: 3600 * s, Multiplier: 2000}
	jittered := usual
	jittered.Jitter = 200
	for _, c := range []struct {
		retry   Retry
		attempt int
		want    time.Duration
	}{
		{usual, -1, s}, {usual, 0, s}, {usual, 1, s}, {usual, 2, 2 * s}, {usual, 5, 16 * s}, {usual, 12, 2048 * s}, {usual, 13, 3600 * s}, {usual, math.MaxInt, 3600 * s},
		{jittered, 1, 900 * time.Millisecond}, {jittered, 13, 3240 * s},
		{Retry{Initial: s, Max: 10 * s, Multiplier: 1500}, 3, 2250 * time.Millisecond},
		{Retry{Initial: s, Max: 10 * s, Multiplier: 1000}, math.MaxInt, s},
		{Retry{Initial: s, Max: 10 * s, Multiplier: 0}, math.MaxInt, s},
		{Retry{Initial: 20 * s, Max: 10 * s, Multiplier: 2000}, 1, 10 * s},
		{Retry{Initial: -s, Max: 10 * s, Multiplier: 2000}, 9, 0},
		{Retry{Initial: s, Max: -s, Multiplier: 2000}, 9, 0},
		{Retry{}, 3, 0},
		{Retry{Initial: 1, Max: 10 * s, Multiplier: 1001}, math.MaxInt, 1},
		{Retry{Initial: math.MaxInt64, Max: math.MaxInt64, Multiplier: math.MaxUint32}, 3, math.MaxInt64},
		{Retry{Initial: 1e9, Max: math.MaxInt64, Multiplier: math.MaxUint32}, 99, math.MaxInt64},
		{Retry{Initial: 10 * s, Max: 10 * s, Jitter: math.MaxUint32}, 1, 5 * s},
	} {
		if got := c.retry.Delay(c.attempt, half); got != c.want {
			t.Errorf("%+v, attempt %d: %v, want %v", c.retry, c.attempt, got, c.want)
		}
	}
}

func TestDelayStaysInBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawRetry(t)
		attempt := rapid.IntRange(-1, 200).Draw(t, "attempt")
		draw := rapid.Float64Range(0, math.Nextafter(1, 0)).Draw(t, "random")
		plain := r
		plain.Jitter = 0
		full := plain.Delay(attempt, nil) // without jitter nothing is drawn
		if full < 0 || full > max(r.Max, 0) {
			t.Fatalf("%v is outside 0 to %v", full, r.Max)
		}
		if next := plain.Delay(attempt+1, nil); next < full {
			t.Fatalf("attempt %d waits %v, the next %v", attempt, full, next)
		}
		got := r.Delay(attempt, func() float64 { return draw })
		low := float64(full) * (1 - float64(min(r.Jitter, 1000))/1000)
		if got > full || got < 0 || float64(got) < low*(1-1e-9)-1 {
			t.Fatalf("%v is outside %v to %v", got, time.Duration(low), full)
		}
	})
}
