package crdt

import (
	"github.com/norn-dev/norn/clock"

	"github.com/norn-dev/norn/internal/mutant"
)

// State is where a task stands. It is computed and never stored beside the
// facts; the numbers are stored in tombstones and indexes: append only.
type State uint8

// States of a task.
const (
	StateUnknown   State = 0 // no enqueue is known here
	StateWaiting   State = 1 // a dependency is not completed
	StateScheduled State = 2 // its time has not come
	StateReady     State = 3 // may be claimed
	StateClaimed   State = 4 // a worker has it
	StateCompleted State = 5
	StateDead      State = 6 // out of attempts
	StateCancelled State = 7
)

// String gives the state as one lower-case word.
func (s State) String() string {
	switch s {
	case StateWaiting:
		return "waiting"
	case StateScheduled:
		return "scheduled"
	case StateReady:
		return "ready"
	case StateClaimed:
		return "claimed"
	case StateCompleted:
		return "completed"
	case StateDead:
		return "dead"
	case StateCancelled:
		return "cancelled"
	}
	return "unknown"
}

// Finished tells whether the state is completed, dead or cancelled.
func (s State) Finished() bool { return s >= StateCompleted && s <= StateCancelled }

// ClaimView is what the state of a task needs to know of its claims.
type ClaimView interface {
	// Held tells whether any claim is not lapsed, released or ended.
	Held(now clock.Time) bool
}

// State is the state of the task as a function of its facts, its claims and the
// clock. A nil c means that there are no claims.
func (t *Task) State(c ClaimView, now clock.Time) State {
	if s := t.Outcome(); s != StateUnknown {
		return s
	}
	switch {
	case t.Enqueued == nil:
		return StateUnknown
	case c != nil && c.Held(now):
		return StateClaimed
	case t.Waiting():
		return StateWaiting
	case t.NotBefore() > now.Wall:
		return StateScheduled
	}
	return StateReady
}

// Waiting tells whether dependencies hold the task back: it has some, and
// nobody has said yet that they do not matter any more.
func (t *Task) Waiting() bool {
	return t.Enqueued != nil && len(t.Enqueued.Dependencies) > 0 && t.unblocked == nil
}

// Outcome is how the task ended: completed, dead or cancelled, and
// StateUnknown while it has not. Completed wins over everything, then
// cancelled, then what holds for the present generation. A task that is only
// known to have been given up, without its enqueue, has no outcome yet.
func (t *Task) Outcome() State {
	collected := StateUnknown
	if t.tombstone != nil {
		collected = t.tombstone.Outcome
	}
	switch {
	case t.completion != nil && !(mutant.CancelWins.On() && t.cancelled != nil) || collected == StateCompleted:
		return StateCompleted
	case t.cancelled != nil || collected == StateCancelled:
		return StateCancelled
	case collected == StateDead:
		return StateDead
	case t.Enqueued == nil:
		return StateUnknown
	case t.givenUp() != nil:
		return StateDead
	case t.blocked() != nil:
		return StateCancelled
	}
	return StateUnknown
}

// Finished tells whether the task has an outcome. A dead one may come back by
// being requeued, and any of them may become completed.
func (t *Task) Finished() bool { return t.Outcome() != StateUnknown }

// Undoable tells whether a retry undoes how the task ended, perhaps one that is
// only not known here yet: it was given up, not completed, cancelled by somebody or
// collected.
func (t *Task) Undoable() bool {
	return t.Finished() && t.completion == nil && t.cancelled == nil && t.tombstone == nil
}

// RuledOut tells whether the task was given up though nobody has tried it.
func (t *Task) RuledOut() bool {
	return t.givenUp() != nil && len(t.counted)+len(t.putOff)+len(t.expired) == 0 && t.older == (Ends{}) && t.old == nil
}

// givenUp is the dead fact of the present generation, or of a later one whose
// requeue has not arrived; nil when there is none.
func (t *Task) givenUp() *Dead {
	if t.dead != nil && (t.dead.Generation == t.Generation() || t.dead.Generation > t.Generation() && !mutant.FutureEnd.On()) {
		return t.dead
	}
	return nil
}

// blocked is the same for being cancelled by a dependency.
func (t *Task) blocked() *DependencyCancelled {
	if t.depCancelled != nil && t.depCancelled.Generation >= t.Generation() {
		return t.depCancelled
	}
	return nil
}
