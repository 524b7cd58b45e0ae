package sysclock

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/config"
)

// TestAClockIsSetWrong: by an offset and by a rate, and its monotonic part never goes back.
func TestAClockIsSetWrong(t *testing.T) {
	c := New(&config.Config{TestClockOffset: -time.Hour})
	within := func(what string, got, want time.Duration) {
		t.Helper()
		if got < want-time.Minute || got > want+time.Minute {
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	within("an offset of -1h", time.Until(c.Wall()), -time.Hour)
	if c.Mono() > int64(time.Minute) {
		t.Errorf("an offset moves the monotonic clock by %v", time.Duration(c.Mono()))
	}
	c.Set(time.Hour, 100_000)
	within("an offset of 1h", time.Until(c.Wall()), time.Hour)
	if got := c.Real(11 * time.Second); got != 10*time.Second {
		t.Errorf("a clock that is a tenth too fast has gone on by 11s after %v", got)
	}
	before := c.Mono()
	c.Set(0, -100_000)
	if now := c.Mono(); now < before {
		t.Errorf("the monotonic clock went back by %v", time.Duration(before-now))
	}
	if right := New(&config.Config{}); right.Wrong.Load() != nil || right.Real(time.Second) != time.Second {
		t.Error("a clock is wrong without having been told to be")
	}
}
