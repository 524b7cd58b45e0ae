package group

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
)

// TestSlowDisksHaveALeader: where all voters, or all but two, take for a sync about as long
// as they wait for a leader, somebody leads all the same, and most changes are made.
func TestSlowDisksHaveALeader(t *testing.T) {
	times, seeds, long := []time.Duration{750 * time.Millisecond, time.Second}, uint64(3), os.Getenv("NORN_TEST_SEEDS")
	if n, err := strconv.ParseUint(long, 10, 64); err == nil { // the table of docs/archive/performance.md
		times, seeds = []time.Duration{300 * time.Millisecond, 750 * time.Millisecond, time.Second, 1500 * time.Millisecond}, n
	}
	for _, slow := range times { // they wait for a second
		for _, fast := range []int{0, 2} {
			var looks, led, asked, done int
			for seed := range seeds {
				s := newSim(t, seed+2)
				s.grow(5)
				for _, n := range s.nodes[fast:] {
					n.slow = slow
				}
				s.run(time.Minute, nil)
				if old := s.leader(); old != nil {
					old.crash()
				}
				for end := s.now + int64(2*time.Minute); s.now < end; looks++ {
					s.run(100*time.Millisecond, nil)
					l := s.leader()
					if l == nil {
						continue
					}
					if led++; looks%30 == 0 {
						asked++
						change := register.ValueChange{Name: fmt.Sprint("v", looks), Data: []byte("x")}
						l.ask(register.Request{Values: []register.ValueChange{change}}, func(r register.Result) {
							if r.Err == nil {
								done++
							}
						})
					}
				}
			}
			t.Logf("%v a sync, %d of 5 fast: a leader %d times of %d, %d of %d changes made", slow, fast, led, looks, done, asked)
			if slow <= time.Second && (led < looks*3/4 || done < asked*3/4) {
				t.Errorf("%v a sync, %d of 5 fast: too rarely", slow, fast)
			}
		}
	}
}
