package core

import (
	"maps"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// doubts are dependencies that have failed as far as is known here, and that other nodes
// lead. What has failed may have been retried since, by its leader, with a majority that
// this node is none of: a task that came after that must not be cancelled for it, which
// stays. So the leader is asked, each second, until it says the same or the retry is heard
// of here. A completion is final, whoever says it.
type doubts struct {
	l   *links
	all map[id.ID]bool
	at  int64 // mono ns of the next round of questions
}

// stands tells whether the outcome of a dependency that is kept here may be acted on.
// Past a number of doubts it may: then it is as old as it is.
func (d *doubts) stands(dependency id.ID, outcome crdt.State) bool {
	if outcome == crdt.StateUnknown || outcome == crdt.StateCompleted || d.sure(dependency) {
		return true
	}
	if !d.all[dependency] {
		if len(d.all) >= maxWatched {
			return true
		}
		d.all[dependency] = true
		d.l.watches.ask(dependency)
	}
	return false
}

// sure tells whether nobody knows better.
func (d *doubts) sure(task id.ID) bool {
	return d.l.c.routes.alone || d.l.c.vnode(task).Leading() != 0
}

// work asks again, and lets go of what is no doubt any more.
func (d *doubts) work(now clock.Time) {
	if len(d.all) == 0 || now.Mono < d.at {
		return
	}
	d.at = now.Mono + int64(watchEvery)
	for _, task := range slices.SortedFunc(maps.Keys(d.all), id.ID.Compare) {
		outcome := crdt.StateUnknown
		if d.l.holds(task) {
			var err error
			if outcome, err = d.l.outcome(task); !d.l.c.check(err) {
				return
			}
		}
		switch {
		case outcome == crdt.StateUnknown || outcome == crdt.StateCompleted:
			delete(d.all, task) // its dependents hear of it as of any other
		case d.sure(task):
			delete(d.all, task)
			d.l.queue(task)
		default:
			d.l.watches.ask(task)
		}
	}
}

// next is when work wants to be called, mono ns.
func (d *doubts) next() int64 {
	if len(d.all) == 0 {
		return clock.Never
	}
	return d.at
}
