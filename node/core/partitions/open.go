package partitions

import (
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// Open opens a vnode over what a step has written so far.
func Open(p ring.Partition, cfg vnode.Config, view store.View, now clock.Time) (*vnode.Vnode, error) {
	return vnode.Open(p, cfg, reader{view}, now)
}

// reader finds the last key of a view.
type reader struct{ store.View }

func (r reader) Last(lower, upper []byte) ([]byte, bool) {
	for key := range r.Back(lower, upper) {
		return key, true
	}
	return nil, false
}

// Idle tells whether nothing is stored of a partition, and its vnode has nothing in memory but
// what is read when it is opened: it does not lead, and knows no claims and no queues.
func Idle(v *vnode.Vnode, view store.View) bool {
	tasks, _ := vnode.KeptAside(v)
	idle := tasks == 0 && v.Leading() == 0 && !vnode.Unflushed(v) && vnode.Empty(view, v.Partition)
	v.Held(func(id.ID, *claim.Record) { idle = false })
	v.Queues(func(string, *vnode.Counts) { idle = false })
	return idle
}
