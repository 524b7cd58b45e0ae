package worker

import "time"

// EventKind says what happened to a task.
type EventKind string

// Kinds of events. Every Started is followed by exactly one of the others but
// Stuck, unless its handler never returns; Released and Lost may come without one.
const (
	Started   EventKind = "started"
	Completed EventKind = "completed"
	Failed    EventKind = "failed"   // an attempt was used; Err says why
	Snoozed   EventKind = "snoozed"  // put off, no attempt used
	Released  EventKind = "released" // given back, no attempt used
	Lost      EventKind = "lost"     // someone else may have it, or it was cancelled
	// Stuck means that a handler has not returned within the Grace after the end
	// of its context. It is abandoned: its slot is taken until it returns, its task
	// fails now if it was over time, and otherwise goes on as its context says:
	// lost, cancelled, or, after a stop, kept until the lease runs out.
	Stuck EventKind = "stuck"
	// Unreported means that what came of the task could not be reported: the
	// lease will run out.
	Unreported EventKind = "unreported"
)

// Event is something that happened to a task.
type Event struct {
	Kind EventKind
	Task *Task
	Err  error         // the handler's error, or why it was lost or not reported
	Took time.Duration // since the handler was called
}

func (w *Worker) tell(e Event) {
	w.tel.happened(e)
	if w.cfg.OnEvent != nil {
		w.cfg.OnEvent(e)
	}
}
