package worker

import "time"

// EventKind says what happened to a task.
type EventKind string

// Kinds of events. Every Started is followed by exactly one of the others,
// unless its handler is abandoned; Released and Lost may come without one.
const (
	Started   EventKind = "started"
	Completed EventKind = "completed"
	Failed    EventKind = "failed"   // an attempt was used; Err says why
	Snoozed   EventKind = "snoozed"  // put off, no attempt used
	Released  EventKind = "released" // given back, no attempt used
	Lost      EventKind = "lost"     // someone else may have it, or it was cancelled
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
	if w.cfg.OnEvent != nil {
		w.cfg.OnEvent(e)
	}
}
