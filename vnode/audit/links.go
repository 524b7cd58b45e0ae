package audit

import (
	"fmt"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
	"github.com/norn-dev/norn/vnode/index"
)

// Links compares the edges and blockers of all partitions with the facts:
// every unfinished task is registered with everything it depends on, every
// waiting one has something left to wait for, and nothing waits for a task that
// is completed, unless its dependents are still being told. It reads
// everything: for tests and the simulator. The error wraps [vnode.ErrDamaged].
func Links(view store.View, partitions int) error {
	a := &linkAudit{view: view, partitions: partitions, edges: make(map[[2]id.ID]bool), blocks: make(map[[2]id.ID]bool)}
	for p := range partitions {
		if err := a.partition(ring.Partition(p)); err != nil {
			return err
		}
	}
	for p := range partitions {
		if err := a.stored(ring.Partition(p)); err != nil {
			return err
		}
	}
	return a.missing()
}

type linkAudit struct {
	view       store.View
	partitions int
	edges      map[[2]id.ID]bool // dependency, dependent: true once seen
	blocks     map[[2]id.ID]bool // task, dependency
}

func (a *linkAudit) load(task id.ID) (*crdt.Task, error) {
	return vnode.LoadTask(a.view, ring.Of(task, a.partitions), task)
}

// partition notes what the tasks of one partition need.
func (a *linkAudit) partition(p ring.Partition) error {
	for task, ok := vnode.NextTask(a.view, p, id.ID{}); ok; task, ok = vnode.NextTask(a.view, p, task) {
		t, err := vnode.LoadTask(a.view, p, task)
		if err != nil {
			return err
		}
		if t.Enqueued == nil || t.Finished() {
			continue
		}
		left := vnode.Blockers(a.view, p, task)
		if t.Waiting() != (len(left) > 0) {
			return fmt.Errorf("%w: %s waiting: %v, and has %d blockers", vnode.ErrDamaged, task, t.Waiting(), len(left))
		}
		for _, d := range t.Enqueued.Dependencies {
			a.edges[[2]id.ID{d, task}] = false
		}
		for _, d := range left {
			a.blocks[[2]id.ID{task, d}] = false
			dep, err := a.load(d)
			if err != nil {
				return err
			}
			told := !vnode.HasKey(a.view, index.AppendTask(nil, index.News, ring.Of(d, a.partitions), d))
			if dep.Outcome() == crdt.StateCompleted && told {
				return fmt.Errorf("%w: %s waits for %s, which is completed", vnode.ErrDamaged, task, d)
			}
		}
	}
	return nil
}

// stored compares what is there.
func (a *linkAudit) stored(p ring.Partition) error {
	count := uint64(0)
	for table, want := range map[byte]map[[2]id.ID]bool{index.Edges: a.edges, index.Waiting: a.blocks} { // Any order: each is checked by itself.
		prefix := index.AppendPrefix(nil, table, p)
		for key := range a.view.Scan(prefix, index.After(prefix)) {
			pair := [2]id.ID{id.ID(key[index.PrefixSize:]), id.ID(key[index.PrefixSize+id.Size:])}
			if table == index.Edges {
				count++
			}
			dependent := pair[0]
			if table == index.Edges {
				dependent = pair[1]
			}
			if vnode.HasKey(a.view, index.AppendTask(nil, index.Releases, ring.Of(dependent, a.partitions), dependent)) {
				continue // about to go
			}
			if _, ok := want[pair]; !ok {
				return fmt.Errorf("%w: %c entry of %s and %s should not be there", vnode.ErrDamaged, table, pair[0], pair[1])
			}
			want[pair] = true
		}
	}
	_, _, edges, err := vnode.Noted(a.view, p)
	if err == nil && edges != count {
		err = fmt.Errorf("%w: %d edges on record, %d found", vnode.ErrDamaged, edges, count)
	}
	return err
}

func (a *linkAudit) missing() error {
	for pair, seen := range a.edges { // Any order: whichever is missing is reported.
		if !seen {
			return fmt.Errorf("%w: %s is not registered with %s", vnode.ErrDamaged, pair[1], pair[0])
		}
	}
	return nil
}
