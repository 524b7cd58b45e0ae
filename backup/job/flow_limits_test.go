package job

import (
	"testing"
	"time"
)

// TestFlow: requests become smaller and waits longer down and up to a limit, one for all that were under way; answers that
// come soon bring both back, those of a slow cluster and of small requests do not.
func TestFlow(t *testing.T) {
	f := newFlow()
	is := func(bytes int, wait time.Duration, why string) {
		t.Helper()
		if b, w := f.next(); b != bytes || w != wait {
			t.Errorf("%s: %d bytes, %s; not %d, %s", why, b, w, bytes, wait)
		}
	}
	for range 4 {
		f.late(requestBytes, restoreTime)
	}
	is(requestBytes/2, 2*restoreTime, "four of one size")
	for range 10 {
		f.late(f.next())
	}
	is(leastBytes, longestTime, "the limit")
	for range 10 * soonAnswers {
		f.answered(leastBytes, longestTime/2)
		f.answered(leastBytes/4, 0)
	}
	is(leastBytes, longestTime, "slow and small answers")
	for range soonAnswers {
		f.answered(leastBytes, 0)
	}
	is(leastBytes+leastBytes/4, longestTime-longestTime/4, "some that came soon")
	for range 40 * soonAnswers {
		f.answered(requestBytes, 0)
	}
	is(requestBytes, restoreTime, "as at first")
}
