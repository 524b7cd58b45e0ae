package clock

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAdjusted(t *testing.T) {
	at := func(s float64) Time { return Time{Wall: 1000*second + int64(s*1e9), Mono: int64(s * 1e9)} }
	var a Adjusted
	if got := a.At(at(5)); got != at(5) {
		t.Errorf("the zero one shows %v", got)
	}
	a = a.Offset(-time.Hour)
	if got, want := a.At(at(5)), (Time{Wall: at(5).Wall - 3600*second, Mono: at(5).Mono}); got != want {
		t.Errorf("an hour behind: %v, want %v", got, want)
	}
	a = a.Rate(at(10), 100_000).Offset(0)
	if got := a.At(at(10)); got != at(10) {
		t.Errorf("at the begin of another rate: %v", got)
	}
	if got := a.At(at(20)); got != at(21) {
		t.Errorf("10 s at a tenth more: %v, want %v", got, at(21))
	}
	a = a.Rate(at(20), -500_000)
	if got := a.At(at(30)); got != at(26) {
		t.Errorf("then 10 s at half the speed: %v, want %v", got, at(26))
	}
	if got := a.Wait(time.Second); got != 2*time.Second {
		t.Errorf("a second at half the speed takes %v", got)
	}
	if got := a.Source(func() Time { return at(30) })(); got != at(26) {
		t.Errorf("as a source: %v", got)
	}
	if got := a.Rate(at(30), math.MinInt).At(at(40)); got != at(27) {
		t.Errorf("slower than allowed: %v, want %v", got, at(27))
	}
}

// TestAdjustedIsSetRight: a wall clock that has run fast or slow and is set right is
// right; the monotonic one is not, and goes on. What was gained stayed in both before,
// so that in the laboratory a node whose clock was said to be right again was off for
// the rest of its life (track record).
func TestAdjustedIsSetRight(t *testing.T) {
	at := func(s float64) Time { return Time{Wall: 1000*second + int64(s*1e9), Mono: int64(s * 1e9)} }
	for _, ppm := range []int{100_000, -100_000} {
		gained := int64(ppm) * 1000 * 10 // in 10 s
		a := Adjusted{}.Set(at(10), 0, ppm)
		if got, want := a.At(at(20)), (Time{at(20).Wall + gained, at(20).Mono + gained}); got != want {
			t.Errorf("%d ppm for 10 s: %v, want %v", ppm, got, want)
		}
		a = a.Set(at(20), 0, 0)
		if got, want := a.At(at(50)), (Time{at(50).Wall, at(50).Mono + gained}); got != want {
			t.Errorf("set right after %d ppm: %v, want %v", ppm, got, want)
		}
		a = a.Set(at(50), -time.Hour, 0)
		if got, want := a.At(at(60)).Wall, at(60).Wall-3600*second; got != want {
			t.Errorf("set an hour back after that: %v, want %v", got, want)
		}
	}
}

// The monotonic clock never goes back, whatever is adjusted meanwhile, and a
// timer that is set with Wait does not come early.
func TestAdjustedGoesForward(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var a Adjusted
		now := Time{Wall: rapid.Int64Range(0, 1e18).Draw(t, "wall"), Mono: rapid.Int64Range(-1e15, 1e15).Draw(t, "mono")}
		a = a.Rate(now, 0)
		shown := a.At(now)
		for range 20 {
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0:
				a = a.Rate(now, rapid.IntRange(-2_000_000, 2_000_000).Draw(t, "ppm"))
			case 1:
				a = a.Offset(time.Duration(rapid.Int64().Draw(t, "offset")))
			case 2:
				a = a.Set(now, time.Duration(rapid.Int64().Draw(t, "off")), rapid.IntRange(-2_000_000, 2_000_000).Draw(t, "ppm"))
			case 3:
				now = now.Add(time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "passed")))
			}
			next := a.At(now)
			if next.Mono < shown.Mono {
				t.Fatalf("from %d back to %d", shown.Mono, next.Mono)
			}
			shown = next
			d := time.Duration(rapid.Int64Range(0, 1e12).Draw(t, "wait"))
			// The gain is rounded, by a nanosecond at most at each end.
			if due := a.At(now.Add(a.Wait(d))).Mono - shown.Mono; due < int64(d)-2 || due > int64(d)+12 {
				t.Fatalf("a timer of %d comes after %d", d, due)
			}
		}
	})
	if got := (Adjusted{}).Rate(Time{}, -MaxRate).Wait(math.MaxInt64); got != math.MaxInt64 {
		t.Errorf("for ever at a tenth of the speed is %v", got)
	}
}
