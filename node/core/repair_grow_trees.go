package core

import (
	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// growStep is how many facts are counted in one round of the loop.
const growStep = 2000

// trees are built once a cluster has more than one node: a node that is alone
// has nobody to compare with and does not pay for it.
type trees struct {
	c     *Core
	todo  []ring.Partition
	scrub *antientropy.Scrubber // of the first of todo; nil: not begun
}

// changed begins to build what is missing.
func (t *trees) changed() {
	if len(t.todo) > 0 || t.c.view.Alone && !t.c.view.Company() {
		return
	}
	for p, v := range t.c.vnodes.Each() {
		if vnode.Tree(v) == nil && !t.c.view.Dropping[ring.Partition(p)] {
			t.todo = append(t.todo, ring.Partition(p))
		}
	}
	for _, p := range t.todo {
		vnode.Grow(t.c.vnodes.Use(p), &partition{c: t.c, p: p}) // from now on every fact is counted
	}
}

// work counts a bounded number of facts.
func (t *trees) work(now clock.Time) {
	for budget := growStep; len(t.todo) > 0 && budget > 0; {
		p := t.todo[0]
		if t.scrub == nil {
			t.scrub = vnode.Grow(t.c.vnodes.Use(p), &partition{c: t.c, p: p})
		}
		if t.scrub != nil {
			t.c.vnodes.Use(p) // the tree grows
			_, done := t.scrub.Step(t.c.round.Tx, budget)
			if !done {
				return
			}
			budget -= growStep / 16 // so that many small ones end too
			vnode.Grown(t.c.vnodes.Use(p), t.c.round.Tx)
			t.scrub = nil
		}
		t.todo = t.todo[1:]
		if len(t.todo) == 0 {
			t.todo = nil
			t.c.repairs.roots.Changed(now)
			t.changed()
		}
	}
}

// next is when there is more to do, mono ns.
func (t *trees) next() int64 {
	if len(t.todo) > 0 {
		return 0 // at once
	}
	return clock.Never
}

// forget leaves out a partition that is dropped.
func (t *trees) forget(p ring.Partition) {
	for i, q := range t.todo {
		if q == p {
			if i == 0 {
				t.scrub = nil
			}
			t.todo = append(t.todo[:i:i], t.todo[i+1:]...)
			return
		}
	}
}
