package clock

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestAddMovesBothClocks(t *testing.T) {
	got := Time{Wall: 100, Mono: 7}.Add(5 * time.Nanosecond)
	if want := (Time{Wall: 105, Mono: 12}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := (Time{Mono: 7}).SinceMono(10); got != -3 {
		t.Errorf("a reading ahead of now is %v ago, want -3ns", got)
	}
}

func TestSumsSaturate(t *testing.T) {
	for _, c := range []struct{ got, want int64 }{
		{Time{Wall: math.MaxInt64 - 1}.Add(2).Wall, math.MaxInt64},
		{Time{Mono: Never}.Add(time.Hour).Mono, Never},
		{Time{Wall: math.MinInt64 + 1}.Add(-2).Wall, math.MinInt64},
		{int64(Time{Mono: math.MaxInt64}.SinceMono(-1)), math.MaxInt64},
		{int64(Time{Mono: 0}.SinceMono(math.MinInt64)), math.MaxInt64},
		{int64(Time{Mono: -2}.SinceMono(math.MaxInt64)), math.MinInt64},
		{int64(Time{Mono: math.MinInt64}.SinceMono(1)), math.MinInt64},
		{Lease{Learned: 5, Duration: math.MaxInt64}.LapseAt(time.Second), Never},
	} {
		if c.got != c.want {
			t.Errorf("got %d, want %d", c.got, c.want)
		}
	}
}

func TestSumsAreExactWithinRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := rapid.Int64Range(math.MinInt64/2, math.MaxInt64/2).Draw(t, "a")
		b := rapid.Int64Range(math.MinInt64/2, math.MaxInt64/2).Draw(t, "b")
		if add(a, b) != a+b || sub(a, b) != a-b {
			t.Fatalf("%d and %d: sum %d, difference %d", a, b, add(a, b), sub(a, b))
		}
	})
}
