package session

import (
	"time"

	"github.com/norn-dev/norn/clock"
)

// beat sends a heartbeat and sets the time of the next one: after Period, or
// earlier where a lease needs it, because a claim is renewed at a third of it.
func (w *Worker) beat() {
	w.beatAt = clock.Never
	if w.life.state == MustDie || w.left || w.association == 0 {
		return
	}
	next := w.life.timeouts.Period
	if !w.joined && (next == 0 || next > w.cfg.FirstPeriod) {
		next = w.cfg.FirstPeriod
	}
	var claims []Claim
	spare := MaxTakes - len(w.has.byTask) // for what has ended: a longer list is refused, with all that comes with it
	for _, c := range w.has.sorted() {
		h := w.has.all[c]
		if !h.renewable(w.now.Mono) || h.phase == ended && spare <= 0 {
			continue
		}
		if h.phase == ended {
			spare--
		}
		claims = append(claims, c)
		next = min(next, third(h.lease))
	}
	w.stamp++ // each heartbeat has a stamp of its own
	w.send(&Heartbeat{
		Identity: w.cfg.Identity, MinVersion: MinVersion, MaxVersion: MaxVersion, Capacity: takes(w),
		Timeouts: w.life.timeouts, Stop: w.cfg.Stop, Grace: w.cfg.Grace, Settled: w.life.stamps.Settled, Draining: w.draining,
		Checked: w.life.passed(), Set: w.set, Claims: claims, Trouble: w.trouble, Resting: w.resting,
	})
	w.beatAt = addNs(w.now.Mono, max(next, minBeat))
}

// minBeat bounds how often heartbeats are sent, whatever a node says.
const minBeat = 100 * time.Millisecond

// third is when to renew a lease.
func third(lease time.Duration) time.Duration { return max(lease/3, minBeat) }

// heartbeatReply takes the answer to a heartbeat.
//
// Failure: without an answer nothing is counted; heartbeats go on, and the worker
// turns unhealthy and dies by its own clock.
// Partial failure: the dispatcher has counted a heartbeat whose answer is lost. It
// then believes in the worker for longer than the worker does: the safe side.
// Delay: what counts is when the heartbeat was sent, which the answer echoes; a
// late one proves only what was true then. Time-outs are taken from answers in the
// order of their heartbeats.
// Replay: changes nothing, everything in it is a maximum or was done before.
// Identity: instance and association, checked by Step. A dispatcher that the
// worker has turned away from can confirm nothing.
func (w *Worker) heartbeatReply(b *HeartbeatReply) {
	if b.Echo > w.stamp || w.life.state == MustDie {
		return // it was never sent
	}
	w.heard = max(w.heard, b.Echo)
	if b.Refused != Accepted {
		w.refused, w.refusal = b.Refused, b.Text
		if b.Refused == RefusedDead {
			w.die("it was declared lost")
		}
		return
	}
	w.refused, w.refusal = Accepted, ""
	for _, c := range b.Cancelled {
		w.stopClaim(c.Claim, c.Cause)
	}
	if b.Set.Version >= w.set.Version {
		w.set = b.Set
	}
	if b.Drain {
		w.drain()
	}
	if b.Good && Negotiate(b.Version, b.Version, MinVersion, MaxVersion) != 0 && !b.Timeouts.IsZero() && b.Timeouts.fits() {
		w.confirm(b)
	}
}

// confirm counts a heartbeat as answered by a dispatcher that has the name.
func (w *Worker) confirm(b *HeartbeatReply) {
	if b.Echo >= w.echoed {
		w.echoed, w.life.timeouts, w.version = b.Echo, b.Timeouts, b.Version
	}
	if !w.life.stamps.Settled {
		// The first check is not due before the dispatcher could send one.
		w.life.stamps.Settled, w.life.stamps.Check = true, b.Echo
	}
	w.life.stamps.Heartbeat = max(w.life.stamps.Heartbeat, b.Echo)
	w.life.credited(b.Checked)
	if !w.joined {
		w.joined = true
		w.repeatSoon() // what the last dispatcher has not acknowledged
		w.beatAt = min(w.beatAt, addNs(w.now.Mono, w.life.timeouts.Period))
	}
	w.judge()
	w.startWaiting()
}

// renewed takes renewals.
//
// Failure: without an answer the deadline stays; the next heartbeat asks again.
// Partial failure: renewed at the leader, unknown here: the worker gives up early.
// Delay: the lease counts from the stamp of the heartbeat that asked.
// Replay: a deadline never moves back, a claim is stopped once.
// Identity: claims that are not held are skipped.
func (w *Worker) renewed(b *Renewed) {
	if b.Echo > w.stamp {
		return
	}
	for _, r := range b.Items {
		h := w.has.all[r.Claim]
		switch {
		case h == nil, r.Lost == CauseNone && r.Lease <= 0:
		case r.Lost != CauseNone:
			if h.phase != ended {
				w.stop(h, r.Lost)
			}
		default:
			h.lease = r.Lease
			h.deadline = max(h.deadline, clock.WorkerDeadline(b.Echo, 0, r.Lease, clock.Margin(r.Lease, w.cfg.Stop)))
			// A short lease cannot wait for the next heartbeat as planned.
			w.beatAt = min(w.beatAt, addNs(w.now.Mono, third(r.Lease)))
		}
	}
}

// die makes the worker must_die: everything is stopped, nothing begins any more,
// and once all has ended it leaves. A program may then begin as a new instance. It is
// what RequestSuicide comes to.
//
// Failure: the dispatcher says it again with each heartbeat, and without any the worker
// dies by its own clock. Partial failure: it dies, and the dispatcher waits for its word
// of leaving, or counts from its last frame. Delay: the word to die is for one instance;
// one that was accepted since has another. Replay: it dies once. Identity: instance and
// association by Step.
func (w *Worker) die(why string) {
	if w.life.state == MustDie {
		return
	}
	w.life.state, w.why, w.beatAt = MustDie, why, clock.Never
	for _, c := range w.has.sorted() {
		if h := w.has.all[c]; h.phase != ended {
			w.stop(h, CauseShutdown)
		}
	}
}

// leaveIfDone says that the worker leaves once nothing holds it, and says it again
// until that is acknowledged.
func (w *Worker) leaveIfDone() {
	if (w.draining || w.life.state == MustDie) && !w.left && w.now.Mono >= w.leave.at && len(w.has.all) == 0 && len(w.denied) == 0 {
		w.send(&Leave{Dying: w.life.state == MustDie})
		w.again(&w.leave)
	}
}

// repeatSoon makes everything that waits for an acknowledgement due now.
func (w *Worker) repeatSoon() {
	// Any order: each gets the same time.
	for _, h := range w.has.all {
		h.retry = retry{}
	}
	// Any order: each gets the same time.
	for _, r := range w.denied {
		*r = retry{}
	}
	if w.leave.at != 0 {
		w.leave.at = 1
	}
	w.wake = w.now.Mono
	w.due()
}

// drain takes nothing new, gives back what has not begun, and leaves when the rest
// has ended.
func (w *Worker) drain() {
	if w.draining {
		return
	}
	w.draining = true
	w.giveBack()
}

// giveBack releases what has not begun.
func (w *Worker) giveBack() {
	for len(w.has.queued) > 0 {
		w.stop(w.has.queued[0], CauseShutdown)
	}
}
