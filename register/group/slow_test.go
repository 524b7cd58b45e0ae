package group

import (
	"fmt"
	"testing"
	"time"

	"github.com/norn-dev/norn/register"
)

// TestSlowDisksHaveALeader: where all voters, or all but two, take for a sync about as long
// as they wait for a leader, somebody leads all the same, and most changes are made.
func TestSlowDisksHaveALeader(t *testing.T) {
	for _, slow := range []time.Duration{750 * time.Millisecond, time.Second} { // they wait for a second
		for _, fast := range []int{0, 2} {
			var looks, led, asked, done int
			for seed := range uint64(3) {
				s := newSim(t, seed+1)
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
			if led < looks*3/4 || done < asked*3/4 {
				t.Errorf("%v a sync, %d of 5 fast: a leader %d times of %d, %d of %d changes made", slow, fast, led, looks, done, asked)
			}
		}
	}
}
