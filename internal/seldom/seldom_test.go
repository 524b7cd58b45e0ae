package seldom

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestALineASecond: however many there are, at most one is said each second, and the counts
// add up.
func TestALineASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards said and at
		var said []int
		var at []time.Duration
		began := time.Now()
		var l Line
		closed := 0
		say := func(times int) {
			mu.Lock()
			defer mu.Unlock()
			said, at = append(said, times), append(at, time.Since(began))
		}
		check := func(lines, calls int) {
			t.Helper()
			mu.Lock()
			defer mu.Unlock()
			sum := 0
			for i, times := range said {
				sum += times
				if i > 0 && at[i]-at[i-1] < time.Second && i < len(said)-closed {
					t.Errorf("said at %v", at)
				}
			}
			if len(said) != lines || sum != calls || said[0] != 1 {
				t.Errorf("said %v, want %d lines for %d calls", said, lines, calls)
			}
			said, at = nil, nil
		}
		for range 2500 { // one each millisecond
			l.Say(say)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		check(4, 2500)
		l.Say(say)
		l.Say(say)
		l.Say(say)
		l.Close()
		l.Close()
		time.Sleep(10 * time.Second)
		closed = 1 // at the end nothing waits
		check(2, 3)
	})
}
