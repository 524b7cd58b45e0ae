package node

import (
	"testing"
	"time"
)

// TestNextLook: the nearer the limit, the sooner the disk is looked at again.
func TestNextLook(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		free uint64
		want time.Duration
	}{
		{1 << 40, 5 * time.Second}, {100*mib + 5*fillRate, 5 * time.Second}, {100*mib + fillRate, time.Second},
		{100 * mib, leastLook}, {99 * mib, 89 * mib * time.Second / fillRate}, {10 * mib, leastLook}, {0, leastLook},
	} {
		if got := nextLook(c.free, 100*mib, 10*mib, 5*time.Second); got != c.want {
			t.Errorf("%d bytes free: %s, want %s", c.free, got, c.want)
		}
	}
	if got := nextLook(0, 0, 0, 10*time.Millisecond); got != 10*time.Millisecond {
		t.Errorf("the longest is shorter: %s", got)
	}
}
