package message

import "time"

// Decision is what was decided about a task.
type Decision uint8

// Decisions that are counted. A failure, or an expiry, with which a task dies is both.
const (
	DecidedEnqueued Decision = iota
	DecidedClaimed
	DecidedCompleted
	DecidedFailed
	DecidedDead
	DecidedExpired
	DecidedCancelled
	DecidedRetried     // by hand
	Decisions      int = iota
)

// Decided is what this node has decided about a task of a queue, and not what it has heard
// from another one: over all nodes each decision is told once.
type Decided struct {
	Queue string
	Kind  string // of the task; empty: it has none, or it is not known here
	What  Decision
	// Wait is of a claim: for how long its task was ready. Negative: not known.
	Wait time.Duration
	// Run is of the end of a claim: how long it was held. Negative: not known.
	Run time.Duration
	// Age is of the end of a task: since its enqueue. Negative: not known, or it goes on.
	Age time.Duration
}
