package sim

import (
	"testing"
	"time"
)

// TestASuspendedMachine: its monotonic clock stands still and its wall clock goes on; what
// is due meanwhile happens afterwards, at once where it is made to go on before its time.
func TestASuspendedMachine(t *testing.T) {
	const second = int64(time.Second)
	w := newWorld(1)
	s := &sim{world: w}
	n := &node{s: s, clock: local{began: 0, first: 100}}
	var came []int64
	note := func() { came = append(came, s.now) }
	n.later(time.Second, note)
	n.later(5*time.Second, note)
	n.later(20*time.Second, note)
	s.at(2*second, func() { n.clock.suspend(s.now, 10*time.Second) })
	n.later(3*time.Second, note)
	s.at(4*second, func() {
		if mono, wall := n.clock.mono(s.now), n.clock.wall(s.now); mono != 100+2*second || wall != origin+4*second {
			t.Errorf("2 s into it the clocks show %d and %d", mono-100, wall-origin)
		}
		if at := n.clock.whenMono(100 + 3*second); at < 13*second || at > 13*second+second/1000 {
			t.Errorf("a second more is at %v, want 13s and little more", time.Duration(at))
		}
		if n.clock.awake(n.s.now) {
			t.Error("it is awake")
		}
	})
	s.at(7*second, func() { n.clock.resume(s.now) })
	s.run()
	if len(came) != 4 || came[0] != second || came[1] < 7*second || came[1] > 7*second+lookAgain || came[2] != came[1] || came[3] != 20*second {
		t.Errorf("what was due at 1, 3, 5 and 20 s came at %v", came)
	}
	if mono := n.clock.mono(s.now); mono != 100+15*second || !n.clock.awake(n.s.now) {
		t.Errorf("after it the monotonic clock shows %d", mono-100)
	}
}
