package repair

import (
	"slices"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/repair/roots"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// growStep is how many facts are counted in one round of the loop.
const growStep = 2000

// trees are built once a cluster has more than one node: a node that is alone
// has nobody to compare with and does not pay for it.
//
// A tree is filled in steps of [growStep] facts from the store while new facts are counted as
// they come. A fact that is written behind the place of the scan is counted by the write, one
// before it by the scan.
type trees struct {
	env   *Env
	roots *roots.Machine
	todo  []ring.Partition
	scrub *antientropy.Scrubber // of the first of todo; nil: not begun
}

// changed begins to build what is missing.
func (t *trees) changed() {
	if len(t.todo) > 0 || t.env.View.Alone && !t.env.View.Company() {
		return
	}
	for p, v := range t.env.Partitions.Each() {
		if vnode.Tree(v) == nil && !t.env.View.Dropping[ring.Partition(p)] {
			t.todo = append(t.todo, ring.Partition(p))
		}
	}
	for _, p := range t.todo {
		vnode.Grow(t.env.Partitions.Use(p), &replica{env: t.env, p: p}) // from now on every fact is counted
	}
}

// work counts a bounded number of facts.
func (t *trees) work(now clock.Time) {
	for budget := growStep; len(t.todo) > 0 && budget > 0; {
		p := t.todo[0]
		if t.scrub == nil {
			t.scrub = vnode.Grow(t.env.Partitions.Use(p), &replica{env: t.env, p: p})
		}
		if t.scrub != nil {
			t.env.Partitions.Use(p) // the tree grows
			_, done := t.scrub.Step(t.env.Round.Tx, budget)
			if !done {
				return
			}
			budget -= growStep / 16 // so that many small ones end too
			vnode.Grown(t.env.Partitions.Use(p), t.env.Round.Tx)
			t.scrub = nil
		}
		t.todo = t.todo[1:]
		if len(t.todo) == 0 {
			t.todo = nil
			t.roots.Changed(now)
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
	if len(t.todo) > 0 && t.todo[0] == p {
		t.scrub = nil
	}
	t.todo = slices.DeleteFunc(t.todo, func(q ring.Partition) bool { return q == p })
}
