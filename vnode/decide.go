package vnode

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Decide lets the leader write a fact that only a leader writes (unblocked,
// cancelled by a dependency, requeued): decide sees the task as it stands and
// gives the fact, or false to leave everything as it is. It returns the state
// of the task afterwards.
func (v *Vnode) Decide(tx store.Tx, task id.ID, now clock.Time, decide func(*crdt.Task) (crdt.Fact, bool)) (crdt.State, error) {
	t, err := LoadTask(tx, v.Partition, task)
	if err != nil {
		return 0, err
	}
	if t.Enqueued == nil {
		return t.Outcome(), nil
	}
	was := v.stands(tx, t)
	f, ok := decide(t)
	if !ok {
		return was.state, nil
	}
	old, err := v.shelf.get(tx, task, f.Key)
	if err != nil {
		return 0, err
	}
	v.leave(tx, task, &was)
	v.shelf.put(tx, f, old)
	defer v.cfg.OnFact(task)
	if err := v.settle(tx, task, 0, now); err != nil {
		return 0, err
	}
	t, err = LoadTask(tx, v.Partition, task)
	if err != nil {
		return 0, err
	}
	return v.stands(tx, t).state, nil
}

// Collected tells whether a tombstone is all that is left of a task.
func Collected(view store.View, p ring.Partition, task id.ID) bool {
	_, ok := view.Get(appendFact(nil, p, task, crdt.Key{Kind: crdt.KindTombstone}))
	return ok
}
