package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/session"
)

// The way to a worker that has left is forgotten, though its program and the connection
// live on: others may come and go on the same one.
func TestStreamsOfWorkersThatHaveLeft(t *testing.T) {
	r := newTrio(t)
	for range 5 {
		h := r.newHand("w", 0, 1)
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return h.m.Info().State == session.Healthy }, h)
		h.m.Drain(r.now)
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return h.m.Info().Left }, h)
		h.gone = true
		for _, from := range h.open { // which nobody waits for any more
			r.check(r.peers[0].core.Step(r.now, Cancel{From: from}))
			r.turn(0)
		}
	}
	r.live(10*time.Minute, time.Second, nothing)
	s := r.peers[0].core.sessions
	if len(s.streams) != 0 || len(s.conns) != 0 || len(s.open) != 0 {
		t.Errorf("%d streams, of %d connections, with %d requests are kept; there are %d sessions", len(s.streams), len(s.conns), len(s.open), s.d.Open())
	}
}
