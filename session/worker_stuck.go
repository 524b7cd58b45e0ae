package session

import "github.com/norn-dev/norn/clock"

// Stuck tells a worker that the handler of a claim does not return though its context has
// ended, and with false that it has after all. Until then it has its slot, also where its
// claim is over. While all slots are taken so, nothing is taken, and what waits for one is
// given back: it would be held, and renewed, for as long as nobody can tell. It tells
// whether that is so.
func Stuck(w *Worker, now clock.Time, c Claim, stuck bool) (all bool) {
	w.advance(now)
	if stuck {
		w.stuck[c] = struct{}{}
	} else {
		delete(w.stuck, c)
	}
	w.beat() // it says so, before what it gives back makes room there
	if jammed(w) {
		w.giveBack()
	}
	w.startWaiting()
	return jammed(w)
}

// jammed tells whether every slot is taken by a handler that hangs.
func jammed(w *Worker) bool { return len(w.stuck) >= w.cfg.Capacity.Slots }

// takes is what the worker takes now: without the slots of handlers that hang and whose
// claims are over here. Where none is left it serves no queue.
func takes(w *Worker) Capacity {
	c := accepts(w)
	if w.cfg.Capacity.Prefetch == Adaptive && !w.pace.Allows() {
		c.Prefetch = 0
	}
	return c
}

// accepts is what it takes at most: what was on its way when it wanted less is no refusal.
func accepts(w *Worker) Capacity {
	c := w.cfg.Capacity
	if c.Prefetch == Adaptive {
		c.Prefetch = min(c.Slots, MaxTakes-c.Slots)
	}
	if jammed(w) {
		c.Queues = nil
		return c
	}
	// Any order: they are counted.
	for k := range w.stuck {
		if h := w.has.all[k]; h == nil || h.phase == ended {
			c.Slots--
		}
	}
	return c
}

// Trouble tells a worker why its tasks cannot be begun, "" when they can again. While it
// rests because of that it takes nothing, and what has not begun is given back; afterwards
// it is handed one task at a time, to try.
func Trouble(w *Worker, now clock.Time, why string, resting bool) {
	w.advance(now)
	if w.trouble == why && w.resting == resting {
		return
	}
	w.trouble, w.resting = why, resting
	w.beat() // it says so, before what it gives back makes room there
	if resting {
		w.giveBack()
	}
	w.startWaiting()
}
