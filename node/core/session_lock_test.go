package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// TestSessionSameLock: who comes back with the lock of a worker that died has its name
// at once, by whichever node, and what the dead one held is free: long before its lease is
// over, or anybody would have missed it. An earlier life that turns up late gets nothing.
func TestSessionSameLock(t *testing.T) {
	for _, node := range []int{0, 1} {
		r := newTrio(t)
		lock := func(c *session.WorkerConfig) { c.Identity.Lock, c.Capacity.Lease = "file x", time.Hour }
		dead := r.newHand("w", 0, 1, lock)
		task := r.stock(1, 1)[0]
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(dead.running) == 1 }, dead)
		dead.gone = true
		r.check(r.peers[0].core.Step(r.now, message.Gone{Conn: dead.conn}))
		r.turn(0)
		r.live(time.Second, 100*time.Millisecond, nothing) // it began later
		heir := r.newHand("w", node, 1, lock)
		joined := r.days(10*time.Second, 50*time.Millisecond, func() bool { return heir.m.Info().Joined }, heir)
		freed := r.days(10*time.Second, 50*time.Millisecond, func() bool { return r.stateOf(1, task) == nornv1.State_STATE_SCHEDULED }, heir)
		if t.Logf("by node %d: joined after %v, free %v later", node, joined, freed); joined > 2*time.Second || freed > time.Second {
			t.Errorf("by node %d: joined after %v, free %v later", node, joined, freed)
		}
		r.days(time.Minute, time.Second, func() bool { return len(heir.running) == 1 }, heir)
		dead.gone = false // a packet of it is late: it was frozen, say, and lost its lock
		dead.turn(1 - node)
		r.days(10*time.Second, 50*time.Millisecond, func() bool { return dead.m.Info().State == session.MustDie }, heir, dead)
		if len(dead.stops) != 1 || heir.m.Info().State != session.Healthy || len(heir.stops) > 0 {
			t.Errorf("by node %d: the dead one stops %v, the living one is %+v", node, dead.stops, heir.m.Info())
		}
		if c := r.peers[node].core.Stats(); c.Sessions < 1 || c.SessionCounts.Pushes != 1+uint64(1-node) {
			t.Errorf("by node %d: counted %+v", node, c.SessionCounts)
		}
	}
}

// TestSessionNoLock: without a lock nothing proves that a silent worker is dead. Its name
// and its tasks wait.
func TestSessionNoLock(t *testing.T) {
	r := newTrio(t)
	silent := r.newHand("w", 0, 1, func(c *session.WorkerConfig) { c.Capacity.Lease = time.Hour })
	task := r.stock(1, 1)[0]
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(silent.running) == 1 }, silent)
	silent.gone = true
	next := r.newHand("w", 1, 1)
	r.days(20*time.Second, 500*time.Millisecond, func() bool { return next.m.Info().Refused == session.RefusedName }, next)
	if s := r.stateOf(1, task); s != nornv1.State_STATE_CLAIMED || next.m.Info().Joined {
		t.Errorf("the task is %v, the newcomer %+v", s, next.m.Info())
	}
}

// TestSessionBump: where that is allowed, the name of a worker that is unhealthy is taken
// at once by who asks the same node for it. The one before is told to die, and what it
// runs is its own until it says so or its lease is over.
func TestSessionBump(t *testing.T) {
	for _, bump := range []bool{true, false} {
		r := newTrio(t)
		r.bump = bump
		for i := range r.peers {
			r.open(i)
		}
		r.elect()
		old := r.newHand("w", 0, 1, func(c *session.WorkerConfig) { c.Capacity.Lease = time.Hour })
		task := r.stock(1, 1)[0]
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(old.running) == 1 }, old)
		old.gone = true
		next := r.newHand("w", 0, 1)
		r.days(20*time.Second, 500*time.Millisecond, func() bool { return next.m.Info().Refused == session.RefusedName }, next)
		began := r.now
		r.days(2*time.Minute, 500*time.Millisecond, func() bool { return next.m.Info().Joined }, next)
		took := time.Duration(r.now.Mono - began.Mono)
		t.Logf("allowed: %v; joined after %v more", bump, took)
		if allowed := took < 20*time.Second; allowed != bump {
			t.Errorf("allowed: %v; it joined %v after it was refused", bump, took)
		}
		if !bump {
			continue
		}
		if s := r.stateOf(1, task); s != nornv1.State_STATE_CLAIMED || len(next.running) > 0 {
			t.Errorf("the task is %v", s)
		}
		old.gone = false
		r.days(10*time.Second, 500*time.Millisecond, func() bool { return old.m.Info().State == session.MustDie && len(old.stops) == 1 }, old, next)
		old.end(old.starts[0], session.EndReleased)
		r.days(20*time.Second, 500*time.Millisecond, func() bool { return len(next.running) == 1 }, old, next)
		if next.m.Info().State != session.Healthy || len(next.stops) > 0 {
			t.Errorf("the newcomer is %+v", next.m.Info())
		}
	}
}

// TestSessionHandedOver: the node that a worker has left forgets it as soon as it is with
// another one, whatever it believed to be running.
func TestSessionHandedOver(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 1)
	r.stock(1, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	r.check(r.peers[0].core.Step(r.now, message.Gone{Conn: h.conn}))
	r.turn(0)
	h.turn(1)
	r.days(10*time.Second, 50*time.Millisecond, func() bool { return r.peers[0].core.Stats().Sessions == 0 }, h)
	if c := r.peers[0].core.Stats().SessionCounts; c.HandedOver != 1 || c.Lost != 0 {
		t.Errorf("counted %+v", c)
	}
	r.days(30*time.Second, time.Second, func() bool { return r.peers[1].core.Stats().SessionCounts.Renewals > 0 }, h)
	if len(h.starts) != 1 || len(h.stops) > 0 {
		t.Errorf("started %v, stopped %v", h.starts, h.stops)
	}
}

// TestAnOrderFollowsTheWorker: what an operator wants of a worker whose connection has just
// ended it hears from the node that it turns to: the one that was told has answered that it
// will be done.
func TestAnOrderFollowsTheWorker(t *testing.T) {
	for _, action := range []nornv1.WorkerAction{nornv1.WorkerAction_WORKER_ACTION_KILL, nornv1.WorkerAction_WORKER_ACTION_DRAIN} {
		r := newTrio(t)
		h := r.newHand("w", 0, 1)
		r.stock(1, 1)
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
		r.tell()
		r.check(r.peers[0].core.Step(r.now, message.Gone{Conn: h.conn}))
		r.turn(0)
		if got := ask[*nornv1.WorkersReply](r, 1, &nornv1.SetWorkerRequest{Name: "w", Action: action, Reason: "old"}).GetWorkers(); len(got) != 1 || got[0].GetNode() != r.peers[0].core.cfg.Self.Node {
			t.Fatalf("%v: told %v", action, got)
		}
		h.turn(1)
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return h.m.Info().Final || h.m.Info().Draining }, h)
		if i := h.m.Info(); i.Final != (action == nornv1.WorkerAction_WORKER_ACTION_KILL) || i.Final && i.Why != "told to: old" {
			t.Errorf("%v: %+v", action, i)
		}
	}
}
