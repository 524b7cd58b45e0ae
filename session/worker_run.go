package session

import (
	"cmp"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
)

// getRunningTasks answers with everything that is held, also what has ended and
// waits to be acknowledged.
//
// Failure and partial failure: the dispatcher asks again. Delay: the answer names
// the request, and a dispatcher takes the first answer to its newest one only.
// Replay: it reads. Identity: checked by Step; that the association is the newest
// also says that nothing pushed by an earlier dispatcher will still begin.
func (w *Worker) getRunningTasks(b *GetRunningTasks) {
	all := make([]Held, 0, len(w.has.all))
	for _, c := range w.has.sorted() {
		h := w.has.all[c]
		all = append(all, Held{Claim: c, Queue: h.queue, Lease: h.lease, Ended: h.phase == ended})
	}
	w.send(&RunningTasks{Request: b.Request, Held: all})
}

// runTask takes a claim, or surely refuses it.
//
// Failure: nothing came, nothing is held. The dispatcher does not know, and asks.
// Partial failure: it is held, and the dispatcher does not know: it asks, and
// hears nothing against it.
// Delay: the deadline counts from a stamp of this worker, so a late one is refused
// when too little of the lease is left; one that the worker has denied is barred;
// one of an earlier association is dropped by Step.
// Replay: each push is decided once. A second copy of one that is held is
// confirmed again, and changes nothing; any other copy is dropped.
// Identity: instance and association by Step; the claim by task and token. The
// task under another token is not begun beside it.
func (w *Worker) runTask(b *RunTask) {
	if b.Push == 0 || w.pushes.decided(b.Push) {
		if w.has.all[b.Claim] != nil && b.Check == 0 {
			w.send(&RunReply{Push: b.Push, Claim: b.Claim})
		}
		return
	}
	w.pushes.decide(b.Push)
	if b.Check != 0 {
		w.runCheck(b)
		return
	}
	drift := max(b.Waited, 0)/1000 + 1 // of the node's clock while it waited
	deadline := clock.WorkerDeadline(b.Echo, b.Waited, b.Lease, clock.Margin(b.Lease, w.cfg.Stop+drift))
	why := w.refusalOf(b, deadline)
	w.send(&RunReply{Push: b.Push, Claim: b.Claim, Refused: why})
	if why != Accepted {
		return
	}
	w.has.add(&held{claim: b.Claim, queue: b.Queue, grant: b.Grant, lease: b.Lease, deadline: deadline, arrived: w.now.Mono})
	w.wake = min(w.wake, deadline)
	w.beatAt = min(w.beatAt, addNs(w.now.Mono, third(b.Lease)))
	w.startWaiting()
}

// refusalOf says why a claim is not taken.
func (w *Worker) refusalOf(b *RunTask, deadline int64) Refusal {
	now := accepts(w)
	q, serves := now.queue(b.Queue)
	_, runs := w.has.byTask[b.Claim.Task]
	barred := w.bars[b.Claim.Task]
	switch {
	case w.life.state != Healthy || !w.joined:
		return RefusedState
	case w.draining:
		return RefusedDraining
	case b.Claim.Token == 0 || b.Claim.Token <= barred.token && w.now.Mono < barred.until:
		return RefusedBarred
	case runs || w.has.all[b.Claim] != nil:
		return RefusedRunning
	case jammed(w), w.resting:
		return RefusedFull
	case !serves:
		return RefusedQueue
	case b.Echo > w.stamp || b.Waited < 0 || w.now.Mono >= deadline:
		return RefusedDeadline
	case len(w.has.byTask) >= now.Takes():
		return RefusedFull
	case q.Slots > 0 && w.has.taken(b.Queue) >= q.Slots+now.Prefetch:
		return RefusedFull
	case len(w.has.all)+len(w.denied) >= MaxTakes+maxUnacked:
		return RefusedBacklog
	}
	return Accepted
}

// runCheck begins a health check: a task like others but for its claim and its
// slot, which are not needed. It runs on a session that is new or unhealthy too,
// which could not become healthy otherwise. Its stamp is that of a frame sent
// before the dispatcher sent the check, so it is credited here as earlier than
// there.
func (w *Worker) runCheck(b *RunTask) {
	if w.life.state == MustDie || b.Echo > w.stamp || !w.life.begin(b.Check, b.Echo) {
		return
	}
	w.out.Start = append(w.out.Start, Start{Check: b.Check, Queue: b.Queue, Deadline: clock.Never, Grant: b.Grant})
}

// startWaiting begins what waits, in the order of arrival, as slots allow.
func (w *Worker) startWaiting() {
	if w.life.state != Healthy || jammed(w) || w.resting {
		return
	}
	for _, h := range w.has.begin(takes(w), w.now.Mono) {
		w.out.Start = append(w.out.Start, Start{Claim: h.claim, Queue: h.queue, Deadline: h.deadline, Grant: h.grant})
	}
	if w.cfg.Capacity.Prefetch == Adaptive && len(w.has.queued) > 0 {
		w.wake = min(w.wake, addNs(w.has.queued[0].arrived, AheadFor))
	}
}

// giveBackLate gives back what was claimed ahead and has waited for a slot for too long.
func giveBackLate(w *Worker) {
	if w.cfg.Capacity.Prefetch != Adaptive {
		return
	}
	for len(w.has.queued) > 0 {
		due := addNs(w.has.queued[0].arrived, AheadFor)
		if w.now.Mono < due {
			w.wake = min(w.wake, due)
			return
		}
		learn(w, w.pace.Late) // first: it says that it takes no more
		w.stop(w.has.queued[0], CauseShutdown)
	}
}

// learn tells what is known of runs something, and says so when more or less is taken because
// of it.
func learn(w *Worker, tell func()) {
	was := w.pace.Allows()
	if tell(); w.pace.Allows() != was && w.cfg.Capacity.Prefetch == Adaptive {
		w.beat()
	}
}

// notify is NotifyIfTasksNotRunning.
//
// Failure: the dispatcher asks again, later each time. Partial failure: the worker
// has barred and reports by itself until that is acknowledged.
// Delay: what is true when it arrives is reported; a claim that has ended and was
// acknowledged is reported as not running, which is true too, and the end that is
// known there beats it.
// Replay: bars and reports again; both are idempotent.
// Identity: instance and association by Step, claims by task and token. Whatever
// was pushed and not seen yet is barred before the answer leaves, so a late
// RunTask cannot make the answer a lie.
func (w *Worker) notify(b *Notify) {
	reply := &NotifyReply{Seq: b.Seq}
	for _, q := range b.Claims {
		switch h := w.has.all[q.Claim]; {
		case h == nil:
			if !w.denyNew(q.Claim, q.Lease) {
				return // no room: not answered, asked again
			}
		case h.phase == ended:
			reply.Ended = append(reply.Ended, q.Claim)
		}
	}
	w.send(reply)
}

// denyNew bars a claim that is not held, and reports it. It is false when there
// is no room to remember it.
func (w *Worker) denyNew(c Claim, lease time.Duration) bool {
	old, known := w.bars[c.Task]
	if !known && len(w.bars) >= maxBars || w.denied[c] == nil && len(w.has.all)+len(w.denied) >= MaxTakes+maxUnacked {
		return false
	}
	// A RunTask of this claim was granted before now, so its deadline is at most a
	// lease away, whatever it waited; a thousandth more for drift.
	if lease <= 0 || lease > clock.MaxLease {
		lease = clock.MaxLease
	}
	until := addNs(w.now.Mono, lease+clock.Margin(lease, time.Second))
	if mutant.NoBar.On() {
		until = w.now.Mono
	}
	w.bars[c.Task] = bar{token: max(old.token, c.Token), until: max(old.until, until)}
	if w.denied[c] == nil {
		w.denied[c] = &retry{}
	}
	w.deny(c)
	return true
}

// deny reports that a claim was not running.
func (w *Worker) deny(c Claim) {
	w.send(&UpdateStatus{Claim: c, End: End{Kind: EndNotRunning}})
	w.again(w.denied[c])
}

// killTask stops one claim.
//
// Failure: the dispatcher says it again in its answers to heartbeats. Partial
// failure: none, the end is reported as always. Delay and replay: the token says
// which claim is meant; a later one of the same task goes on. Before its RunTask it
// bars that, and reports that it was not running.
// Identity: instance, association, task and token.
func (w *Worker) killTask(b *KillTask) {
	if w.has.all[b.Claim] == nil {
		w.denyNew(b.Claim, b.Lease)
		return
	}
	w.stopClaim(b.Claim, b.Cause)
}

func (w *Worker) stopClaim(c Claim, cause Cause) {
	if h := w.has.all[c]; h != nil && h.phase != ended {
		w.stop(h, cmp.Or(cause, CauseKilled))
	}
}

// stop tells a handler to end; what has not begun ends at once, unharmed.
func (w *Worker) stop(h *held, cause Cause) {
	if h.phase == waiting {
		w.finish(h, End{Kind: EndReleased})
		return
	}
	if h.stopped != CauseNone {
		return
	}
	h.stopped = cause
	w.out.Stop = append(w.out.Stop, Stop{Claim: h.claim, Cause: cause})
}
