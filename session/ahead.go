package session

import "time"

const (
	// AheadFor is within what time a task that was claimed ahead begins. One that has waited
	// for a slot for longer is given back: somebody else may have one.
	AheadFor = 100 * time.Millisecond
	// aheadRuns is of how many runs a worker must know how long they took, and of how many of
	// the last ones it goes by.
	aheadRuns, aheadKnown = 16, 4
)

// Adaptive, as the number of tasks to prefetch, means: as many as there are slots while
// [Ahead] allows it, else none.
const Adaptive = -1

// Ahead judges whether a worker may claim tasks ahead, one for each of its slots. A task that
// waits behind a running one begins when that ends, so that all of the last runs must have
// been short. A worker that knows too little, or whose tasks are long, claims none: a task
// that it only holds could run elsewhere. It is a pure function of what it is told.
type Ahead struct {
	last [aheadRuns]time.Duration
	n    int // runs known, in all
}

// Ran notes how long a handler took.
func (a *Ahead) Ran(took time.Duration) {
	a.last[a.n%aheadRuns] = took
	a.n++
}

// Late notes that a task which was claimed ahead did not begin in time: what was known of
// runs is of the past.
func (a *Ahead) Late() { a.n = 0 }

// Allows tells whether tasks may be claimed ahead.
func (a *Ahead) Allows() bool {
	if a.n < aheadKnown {
		return false
	}
	for _, took := range a.last[:min(a.n, aheadRuns)] {
		if took > AheadFor {
			return false
		}
	}
	return true
}
