package run

import (
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// lapse names a claim that ran out.
type lapse struct {
	task  id.ID
	token uint64
}

// lapses are the claims that clients were shown as run out.
type lapses map[lapse]bool

// of gives how many an event shows for the first time.
func (l lapses) of(e *history.Event) (n int) {
	for i := range e.Items {
		for _, c := range e.Items[i].Claims {
			if this := (lapse{e.Items[i].Task, c.Token}); c.Outcome == "expired" && !l[this] {
				l[this] = true
				n++
			}
		}
	}
	return n
}
