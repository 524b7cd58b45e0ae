package world

import (
	"testing"
	"time"
)

// TestASuspendedMachine: its monotonic clock stands still and its wall clock goes on; what
// is due meanwhile happens afterwards, at once where it is made to go on before its time.
func TestASuspendedMachine(t *testing.T) {
	const second = int64(time.Second)
	w := New(1)
	s := &w
	n := &Process{Clock: Local{Began: 0, First: 100}}
	var came []int64
	note := func() { came = append(came, s.Now) }
	s.AfterIn(n, time.Second, note)
	s.AfterIn(n, 5*time.Second, note)
	s.AfterIn(n, 20*time.Second, note)
	s.At(2*second, func() { n.Clock.Suspend(s.Now, 10*time.Second) })
	s.AfterIn(n, 3*time.Second, note)
	s.At(4*second, func() {
		if mono, wall := n.Clock.Mono(s.Now), n.Clock.Wall(s.Now); mono != 100+2*second || wall != Origin+4*second {
			t.Errorf("2 s into it the clocks show %d and %d", mono-100, wall-Origin)
		}
		if at := n.Clock.WhenMono(100 + 3*second); at < 13*second || at > 13*second+second/1000 {
			t.Errorf("a second more is at %v, want 13s and little more", time.Duration(at))
		}
		if n.Clock.Awake(s.Now) {
			t.Error("it is awake")
		}
	})
	s.At(7*second, func() { n.Clock.Resume(s.Now) })
	s.Run()
	if len(came) != 4 || came[0] != second || came[1] < 7*second || came[1] > 7*second+lookAgain || came[2] != came[1] || came[3] != 20*second {
		t.Errorf("what was due at 1, 3, 5 and 20 s came at %v", came)
	}
	if mono := n.Clock.Mono(s.Now); mono != 100+15*second || !n.Clock.Awake(s.Now) {
		t.Errorf("after it the monotonic clock shows %d", mono-100)
	}
}
