package crdt

import "github.com/norn-dev/norn/internal/mutant"

// VisibleUpdates gives the logs of the task's claims, ascending by token and
// number. Of each claim only what is contiguous from number 0: update n+1 is
// hidden until update n is there, so that nobody reads a history with a hole
// (promise P6).
func (t *Task) VisibleUpdates() []Update {
	visible := make([]Update, 0, len(t.updates))
	token, next := uint64(0), uint64(0)
	for i, u := range t.updates {
		if i == 0 || u.Token != token {
			token, next = u.Token, 0
		}
		if u.Seq == next || mutant.GapShown.On() {
			visible = append(visible, u)
			next++
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
