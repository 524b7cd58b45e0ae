package core

import (
	"testing"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestAPausedLeaderExpiresNoClaim: a process stands still for longer than a lease, while
// the others elect and the worker renews its claim with the next leader. When it goes on,
// the first thing that it sees is that the claim has lapsed, as far as it knows (track
// record).
func TestAPausedLeaderExpiresNoClaim(t *testing.T) {
	r := newTrio(t)
	r.beside = func(c *Config) { c.Retry.MaxAttempts = 1 }
	r.collecting().elect()
	task, i := r.put(1, 1), r.leader(1)
	ask := r.send(i, claimUpTo(1))
	r.settle()
	grants, _ := r.granted(i, ask)
	r.peers[i].down = true
	r.elect()
	next := r.leader(1)
	renew := func() {
		t.Helper()
		if res := r.renew(next, task, grants[0].Token); res.Error != nil {
			t.Fatalf("after %v: %v", time.Duration(r.now.Mono), res.Error)
		}
	}
	for range 20 {
		renew()
		r.live(lease/4, time.Second, nothing)
	}
	r.peers[i].down = false
	if r.peers[i].core.vnodes.see(1).Leading() == 0 {
		t.Fatal("it knows already that it leads no more")
	}
	for range 10 {
		r.pass(100 * time.Millisecond)
	}
	r.tell()
	for range 10 {
		renew()
		r.live(lease/4, time.Second, nothing)
	}
	for n, p := range r.peers {
		if s := r.stateOf(n, task); s != nornv1.State_STATE_CLAIMED {
			t.Errorf("its worker has renewed the claim all the time, and by %s it is %v", p.self.Node, s)
		}
	}
}
