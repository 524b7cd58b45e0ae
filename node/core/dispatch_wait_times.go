package core

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/vnode"
)

// Waits counts first grants of tasks by how long these had to wait. A task that depends
// on others does not count: when it could have begun is not in its facts.
type Waits struct {
	Counts [len(WaitBounds) + 1]uint64 // the last: over all bounds
	Sum    time.Duration
}

// WaitBounds are the upper ends of the classes, inclusive.
var WaitBounds = [...]time.Duration{
	time.Millisecond, 5 * time.Millisecond, 25 * time.Millisecond, 100 * time.Millisecond, 500 * time.Millisecond,
	2500 * time.Millisecond, 10 * time.Second, time.Minute, 5 * time.Minute, 30 * time.Minute, 2 * time.Hour,
}

// add counts a grant that was just made. The clock that admitted the task may be ahead
// of this one: then it has not waited.
func (w *Waits) add(now clock.Time, d *vnode.Detail) {
	e := d.Task.Enqueued
	if len(d.Claims) != 1 || e == nil || len(e.Dependencies) > 0 {
		return
	}
	waited := time.Duration(max(now.Wall-max(d.Task.Admission(), e.NotBefore), 0))
	i := 0
	for i < len(WaitBounds) && waited > WaitBounds[i] {
		i++
	}
	w.Counts[i]++
	w.Sum += waited
}
