package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/session"
)

// TestARenewalThatIsNotDecidedSaysNothing: the node that leads the task stands back for a while. Its
// worker goes on for as long as its claim lasts.
func TestARenewalThatIsNotDecidedSaysNothing(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 1)
	r.stock(1, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	p := r.part(h.starts[0].Task)
	e := r.peers[r.leader(p)].core.elector
	renewed := 0
	h.deaf = func(m session.Message) bool {
		if b, is := m.Body.(*session.Renewed); is {
			for _, x := range b.Items {
				if renewed++; x.Lease <= 0 && x.Lost == session.CauseNone {
					t.Errorf("told: %+v", x)
				}
			}
		}
		return false
	}
	e.Stall(true)
	until := r.now.Add(12 * time.Second) // two heartbeats, and its lease is not over
	r.days(time.Minute, 250*time.Millisecond, func() bool { return r.now.Mono >= until.Mono }, h)
	if len(h.stops) > 0 || renewed > 0 {
		t.Errorf("%d renewals while nobody leads, stopped: %v", renewed, h.stops)
	}
	e.Stall(false)
	r.days(20*time.Second, 250*time.Millisecond, func() bool { return renewed > 0 }, h)
	if len(h.running) != 1 || len(h.stops) > 0 {
		t.Errorf("it runs %d, stopped: %v", len(h.running), h.stops)
	}
}
