package session

import (
	"github.com/norn-dev/norn/clock"
)

// Ended is called when the handler of a claim has returned, or was killed. It is
// reported until that is acknowledged; until then the claim is held and renewed.
func (w *Worker) Ended(now clock.Time, c Claim, end End) {
	w.advance(now)
	if h := w.held[c]; h != nil && h.phase == running {
		w.running[h.queue]--
		w.finish(h, end)
		w.startWaiting()
	}
	w.leaveIfDone()
}

// finish makes a held claim an ended one, and reports it.
func (w *Worker) finish(h *held, end End) {
	if end.Kind == EndNone || end.Kind == EndNotRunning || end.Kind == EndChecked {
		end = End{Kind: EndReported} // no handler ends like that
	}
	h.phase, h.end = ended, end
	delete(w.byTask, h.claim.Task)
	w.report(h)
}

// report sends UpdateStatus(ended).
func (w *Worker) report(h *held) {
	w.send(&UpdateStatus{Claim: h.claim, End: h.end})
	w.again(&h.retry)
}

// statusAck forgets what is acknowledged.
//
// Failure: the status is repeated. Partial failure: it is written, and repeated;
// writing it again changes nothing. Delay: acknowledged is acknowledged. Replay: it
// is gone already. Identity: the claim. A claim that runs is never forgotten by an
// acknowledgement, which could only be forged.
func (w *Worker) statusAck(b *StatusAck) {
	if h := w.held[b.Claim]; h != nil && h.phase == ended {
		delete(w.held, b.Claim)
		w.lines.forget(b.Claim)
	}
	delete(w.denied, b.Claim)
}

// CheckPassed is called when a health check has run to its end. One that fails is
// not reported: it is missed.
func (w *Worker) CheckPassed(now clock.Time, number uint64) {
	w.advance(now)
	for i := range w.checks {
		if w.checks[i].number == number {
			w.checks[i].passed = true
			// Not repeated: heartbeats say it too, and another check follows.
			w.send(&UpdateStatus{Check: number, End: End{Kind: EndChecked}})
		}
	}
}

// Log keeps one line of output of a claim that is held, for whoever asks.
func (w *Worker) Log(now clock.Time, c Claim, text string) {
	w.advance(now)
	if w.held[c] != nil {
		w.lines.add(c, text)
	}
}

// Drain takes nothing new from now on, gives back what has not begun, and leaves
// when the rest has ended.
func (w *Worker) Drain(now clock.Time) {
	w.advance(now)
	w.drain()
	w.beat() // it says so
	w.leaveIfDone()
}

// Kill stops everything at once and leaves: what a program does on its second
// signal.
func (w *Worker) Kill(now clock.Time, why string) {
	w.advance(now)
	w.die(why)
	w.leaveIfDone()
}

// Holds tells whether the handler of a claim may go on right now. A program asks
// before each update: the machine may have been frozen since the last one.
func (w *Worker) Holds(now clock.Time, c Claim) bool {
	h := w.held[c]
	return h != nil && h.phase == running && h.stopped == CauseNone && now.Mono < h.deadline &&
		w.timeouts.Early(w.cfg.Stop).Health(w.state, w.stamps, now.Mono) != MustDie
}

// Deadline is the mono ns up to which the worker believes in a claim; 0 when it
// does not hold it.
func (w *Worker) Deadline(c Claim) int64 {
	if h := w.held[c]; h != nil {
		return h.deadline
	}
	return 0
}

// State is the worker's health as of the last step.
func (w *Worker) State() State { return w.state }

// Why says why the worker must die; empty: it need not.
func (w *Worker) Why() string { return w.why }

// Refused says why the dispatcher does not take the worker, with a line of text;
// Accepted when it does, or has not answered.
func (w *Worker) Refused() (Refusal, string) { return w.refused, w.refusal }

// Association is the number of the present stream; 0 before the first [Worker.Turn].
func (w *Worker) Association() uint64 { return w.association }

// Left tells that the worker has left: the dispatcher knows that it runs nothing
// and never will.
func (w *Worker) Left() bool { return w.left }
