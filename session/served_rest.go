package session

import (
	"time"

	"github.com/norn-dev/norn/id"
)

// A worker that does not take what it is given, or gives it back as it comes, would be given
// the same again at once, for ever: tasks come to who waits for them. So it rests, twice as
// long each time, and what it gave back goes to others; then it is tried with one task.
const (
	firstRest = 250 * time.Millisecond
	maxRest   = 16 * time.Second
	// manyRests is after how many rests in a row a worker is shown as one that refuses.
	manyRests = 3
	// runningRest is for how long a task is put off, the first time, that was handed to a
	// worker whose handler has not returned though its claim is over: it needs its grace, or
	// never does. Twice as long each time, up to maxRunningRest.
	runningRest, maxRunningRest = time.Second, 8 * time.Second
	// maxPutOff bounds the tasks of a worker that this is known of.
	maxPutOff = 1024
)

// rest is what keeps tasks away from a worker.
//
// Invariant: until is the end of the newest rest, the length of which follows from row.
type rest struct {
	row    int     // rests since a task has ended well
	until  int64   // mono ns
	last   Refusal // the newest one; Accepted: it gave a task back
	total  uint64  // tasks that it did not take, or gave back
	putOff map[id.ID]putOff
}

type putOff struct {
	wait time.Duration
	at   int64 // mono ns when the task was refused last
}

// length is how long the newest rest is.
func (r *rest) length() time.Duration {
	return min(firstRest<<min(max(r.row-1, 0), 20), maxRest)
}

// refused counts a task that the worker did not take, or gave back. Those that were under
// way to it when a rest began are of the same one.
func (r *rest) refused(now int64, why Refusal) {
	r.last, r.total = why, r.total+1
	if now < r.until {
		return
	}
	r.row++
	r.until = addNs(now, r.length())
}

// ended looks at how a task has ended that the worker was given by this node.
func (r *rest) ended(now int64, e *entry, end End) {
	switch end.Kind {
	case EndCompleted:
		r.row = 0
	case EndFailed:
		if !end.Uncounted {
			r.row = 0
		}
	case EndReleased, EndNotRunning:
		if e.push != 0 && e.cancel == CauseNone {
			r.refused(now, Accepted)
		}
	}
}

// quiet forgets rests that are long over: nothing was refused since.
func (r *rest) quiet(now int64) {
	if r.row > 0 && now >= addNs(r.until, max(r.length(), 4*time.Second)) {
		r.row = 0
	}
}

// putsOff is for how long a task is put off that the worker still runs under an earlier claim.
// That is about the task, not the worker: only its first time counts as a refusal.
func (r *rest) putsOff(now int64, task id.ID) time.Duration {
	p, known := r.putOff[task]
	if known && now < addNs(p.at, 4*maxRunningRest) {
		p.wait = min(2*p.wait, maxRunningRest)
		r.total, r.last = r.total+1, RefusedRunning
	} else {
		p.wait = runningRest
		r.refused(now, RefusedRunning)
	}
	p.at = now
	if r.putOff == nil {
		r.putOff = make(map[id.ID]putOff)
	}
	if !known && len(r.putOff) >= maxPutOff {
		for other, o := range r.putOff { // Any order: each by itself.
			if now >= addNs(o.at, 4*maxRunningRest) {
				delete(r.putOff, other)
			}
		}
	}
	if known || len(r.putOff) < maxPutOff {
		r.putOff[task] = p
	}
	return p.wait
}
