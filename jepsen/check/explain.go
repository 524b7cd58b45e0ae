package check

import (
	"slices"

	"github.com/norn-dev/norn/jepsen/history"
)

// needs are the reasons of which an explanation must give one, by state.
var needs = map[history.State][]string{
	history.Waiting:   {"dependency", "unknown_dependency", "cycle"},
	history.Scheduled: {"not_before", "back_off"},
	history.Claimed:   {"claimed"},
	history.Completed: {"finished"},
	history.Dead:      {"finished"},
	history.Cancelled: {"finished"},
}

// explaining judges explanations.
type explaining struct{ *Checker }

// explained: an explanation says why, and shows cycles and pauses.
func (c explaining) explained(asked *history.Event, t *task, got *history.Item) {
	has := func(reason string) bool { return slices.Contains(got.Reasons, reason) }
	if want := needs[got.State]; want != nil && !slices.ContainsFunc(want, has) {
		c.fail(StateRule, t, "it is %s because of %v, which is none of %v", got.State, got.Reasons, want)
	}
	if got.State == history.Waiting && !has("cycle") && c.inCycle(asked, t, t, 0) {
		c.fail(StateRule, t, "it depends on itself, and the explanation says %v", got.Reasons)
	}
	if got.State == history.Ready && c.queue(t.queue()).paused < asked.At && !has("queue_paused") {
		c.fail(StateRule, t, "its queue is paused, and the explanation says %v", got.Reasons)
	}
}

// inCycle tells whether a chain of dependencies surely leads from a task to an
// end, through tasks that all wait.
func (c explaining) inCycle(asked *history.Event, from, end *task, depth int) bool {
	if from.spec == nil || !from.enqueued.before(asked.At) || c.maybeFinished(from) || depth > 8 {
		return false
	}
	for _, dep := range from.spec.Deps {
		if d := c.task(dep); d == end || c.inCycle(asked, d, end, depth+1) {
			return true
		}
	}
	return false
}
