package session

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
)

// Ended is called when the handler of a claim has returned, or was killed. It is
// reported until that is acknowledged; until then the claim is held and renewed. It
// is false when no such claim runs.
func (w *Worker) Ended(now clock.Time, c Claim, end End) bool {
	w.advance(now)
	h := w.has.all[c]
	runs := h != nil && h.phase == running
	if runs {
		learn(w, func() { w.pace.Ran(time.Duration(w.now.Mono - h.began)) })
		w.finish(h, end)
		w.startWaiting()
	}
	w.leaveIfDone()
	return runs
}

// finish makes a held claim an ended one, and reports it.
func (w *Worker) finish(h *held, end End) {
	if end.Kind == EndNone || end.Kind == EndNotRunning || end.Kind == EndChecked {
		end = End{Kind: EndReported} // no handler ends like that
	}
	w.has.finish(h, end)
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
	if h := w.has.all[b.Claim]; h != nil && h.phase == ended {
		delete(w.has.all, b.Claim)
		w.out.Acked = append(w.out.Acked, *b)
		w.lines.forget(b.Claim)
	}
	delete(w.denied, b.Claim)
}

// Forsake gives up the ends that keep a worker which must die from leaving though nothing of
// it runs any more: the copies of one partition may be away for long, and until it has left
// its program takes nothing of any. It does so once each was repeated for a while, and gives
// the claims, whose ends the program may report by itself. Not where an operator has ended
// the worker: then nothing is to follow.
//
// The dispatcher has heard of these ends, and frees none of them when the worker leaves. One
// that it has not heard of it frees: nothing of it runs.
func Forsake(w *Worker, now clock.Time) (over []Claim) {
	w.advance(now)
	if w.life.state != MustDie || w.final || w.left || len(w.has.byTask) > 0 || len(w.has.all)+len(w.denied) == 0 {
		w.waits = 0
		return nil
	}
	if w.waits == 0 {
		w.waits = w.now.Mono
	}
	if w.now.Mono < addNs(w.waits, 2*w.cfg.RetryMax) {
		return nil // a repetition is due before
	}
	for _, c := range w.has.sorted() {
		over = append(over, c)
		delete(w.has.all, c)
		w.lines.forget(c)
	}
	over = slices.AppendSeq(over, maps.Keys(w.denied))
	clear(w.denied)
	slices.SortFunc(over, Claim.Compare)
	over = slices.Compact(over)
	w.leaveIfDone()
	return over
}

// CheckPassed is called when a health check has run to its end. One that fails is
// not reported: it is missed.
func (w *Worker) CheckPassed(now clock.Time, number uint64) {
	w.advance(now)
	if w.life.pass(number) {
		// Not repeated: heartbeats say it too, and another check follows.
		w.send(&UpdateStatus{Check: number, End: End{Kind: EndChecked}})
	}
}

// Log keeps one line of output of a claim that is held, for whoever asks.
func (w *Worker) Log(now clock.Time, c Claim, text string) {
	w.advance(now)
	if w.has.all[c] != nil {
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

// Holds tells whether the handler of a claim may go on right now, and gives the mono
// ns up to which it may unless the claim is renewed. A program asks before each
// update: the machine may have been frozen since the last one.
func (w *Worker) Holds(now clock.Time, c Claim) (deadline int64, ok bool) {
	h := w.has.all[c]
	if h == nil || h.phase != running || !h.renewable(now.Mono) || w.life.at(now.Mono) == MustDie {
		return 0, false
	}
	return h.deadline, true
}

// Stamp gives the stamp for a frame that is sent now, also one without messages: the
// node can hand out tasks by it.
func (w *Worker) Stamp(now clock.Time) int64 {
	w.advance(now)
	w.stamp = max(w.stamp, w.now.Mono, 1)
	return w.stamp
}

// WorkerInfo is a worker as its program sees it, as of the last step.
type WorkerInfo struct {
	State       State
	Why         string // it must die; empty: it need not
	Final       bool   // an operator wants it to die
	Association uint64 // number of the present stream; 0 before the first Turn
	Joined      bool   // the dispatcher has its name
	Version     uint32 // of the protocol
	// Refused says why the dispatcher does not take the worker, and Text tells a
	// person; Accepted when it does, or has not answered.
	Refused Refusal
	Text    string
	// Heard is the mono ns at which the newest heartbeat was sent that was answered
	// at all. When it falls back by more than a few periods, turn to another node.
	Heard int64
	// Confirmed is the same for those that were answered by a node which has the worker's
	// name. When it alone falls back the node cannot keep the session, or not now.
	Confirmed int64
	Period    time.Duration // between heartbeats; 0: not told yet
	Draining  bool
	Running   []Claim // that wait or run, sorted
	// Left: its dispatcher knows that it runs nothing and never will.
	Left    bool
	Unacked int // endings that wait to be acknowledged
}

// Info gives the worker as it stands.
func (w *Worker) Info() WorkerInfo {
	return WorkerInfo{
		State: w.life.state, Why: w.why, Final: w.final, Association: w.association, Joined: w.joined, Version: w.version,
		Refused: w.refused, Text: w.refusal, Heard: w.heard, Confirmed: w.life.stamps.Heartbeat, Period: w.life.timeouts.Period, Draining: w.draining,
		Left: w.left, Running: w.has.live(), Unacked: len(w.has.all) - len(w.has.byTask) + len(w.denied),
	}
}
