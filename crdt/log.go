package crdt

import "github.com/norn-dev/norn/internal/mutant"

// Contiguous is how far the log of a claim is visible, of claims that are read one after
// the other: update Next of the claim with this token comes next.
type Contiguous struct{ Token, Next uint64 }

// Shows tells whether an update is visible, and goes on behind it. Updates come ascending
// by token and number. Of each claim only what is contiguous from number 0 is visible:
// update n+1 is hidden until update n is there, so that nobody reads a history with a hole
// (promise P6).
func (c *Contiguous) Shows(u *Update) bool {
	if u.Token != c.Token {
		c.Token, c.Next = u.Token, 0
	}
	if u.Seq != c.Next && !mutant.GapShown.On() {
		return false
	}
	c.Next++
	return true
}

// VisibleUpdates gives the logs of the task's claims, ascending by token and
// number, as far as they are visible.
func (t *Task) VisibleUpdates() []Update {
	visible := make([]Update, 0, len(t.updates))
	var log Contiguous
	for i := range t.updates {
		if log.Shows(&t.updates[i]) {
			visible = append(visible, t.updates[i])
		}
	}
	return visible
}

// Checkpoint is where a claim with this token may go on: the last visible
// update, captured output apart, of the newest earlier claim that has one. It
// is nil when there is none.
func (t *Task) Checkpoint(beforeToken uint64) []byte {
	var data []byte
	for _, u := range t.VisibleUpdates() {
		if u.Token < beforeToken && !u.Output {
			data = u.Data
		}
	}
	return data
}
