package sysclock

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/config"

	"pgregory.net/rapid"
)

// TestANapStopsTheMonotonicClock: what passes without a reading is missing from the
// monotonic clock when it is long enough, and stays away when nobody naps any more.
func TestANapStopsTheMonotonicClock(t *testing.T) {
	n := &nap{}
	n.least.Store(100)
	for _, c := range []struct{ mono, want, missed int64 }{
		{1000, 1000, 0}, {1099, 1099, 0}, {1198, 1198, 0}, {6198, 1198, 5000}, {6190, 1198, 5000}, {6250, 1250, 5000}, {6350, 1250, 5100},
	} {
		if got := n.at(c.mono); got != c.want || n.missed.Load() != c.missed {
			t.Errorf("at %d it shows %d and has missed %d, want %d and %d", c.mono, got, n.missed.Load(), c.want, c.missed)
		}
	}
	n.least.Store(0)
	if got := n.at(9000); got != 3900 {
		t.Errorf("without naps it shows %d at 9000, want 3900", got)
	}
}

// TestANapNeverGoesBack, whatever the order of readings: a goroutine may read the
// machine's clock before a nap and ask what to show after it.
func TestANapNeverGoesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n, now, shown := &nap{}, int64(1), int64(0)
		for range 50 {
			n.least.Store(rapid.SampledFrom([]int64{0, 50, 500}).Draw(t, "least"))
			now += rapid.Int64Range(0, 1000).Draw(t, "passed")
			got := n.at(now - rapid.Int64Range(0, now).Draw(t, "late"))
			if got < shown {
				t.Fatalf("from %d back to %d", shown, got)
			}
			shown = got
		}
	})
}

// TestAClockThatNaps: the wall clock goes on.
func TestAClockThatNaps(t *testing.T) {
	c := New(&config.Config{TestClockFile: "some"})
	c.Naps(0)
	if c.nap.Load() != nil {
		t.Error("a clock naps that was not told to")
	}
	c.Naps(time.Nanosecond) // whatever passes is a nap
	first := c.Now()
	for c.Now().Wall == first.Wall { // a machine's clock may be coarse
	}
	if now := c.Now(); now.Mono != first.Mono || now.Wall <= first.Wall {
		t.Errorf("from %v to %v", first, now)
	}
	if c.Mono() != first.Mono {
		t.Errorf("the monotonic part alone shows %d, not %d", c.Mono(), first.Mono)
	}
	if right := New(&config.Config{}); right.nap.Load() != nil {
		t.Error("a clock of no test naps")
	}
}
