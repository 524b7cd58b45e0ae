package vnode

import (
	"encoding/binary"
	"fmt"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// AuditLinks compares the edges and blockers of all partitions with the facts:
// every unfinished task is registered with everything it depends on, every
// waiting one has something left to wait for, and nothing waits for a task that
// is completed, unless its dependents are still being told. It reads
// everything: for tests and the simulator. The error wraps ErrDamaged.
func AuditLinks(view store.View, partitions int) error {
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
	return LoadTask(a.view, ring.Of(task, a.partitions), task)
}

// partition notes what the tasks of one partition need.
func (a *linkAudit) partition(p ring.Partition) error {
	for task, ok := NextTask(a.view, p, id.ID{}); ok; task, ok = NextTask(a.view, p, task) {
		t, err := LoadTask(a.view, p, task)
		if err != nil {
			return err
		}
		if t.Enqueued == nil || t.Finished() {
			continue
		}
		left := Blockers(a.view, p, task)
		if t.Waiting() != (len(left) > 0) {
			return fmt.Errorf("%w: %s waiting: %v, and has %d blockers", ErrDamaged, task, t.Waiting(), len(left))
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
			told := !hasKey(a.view, appendTask(nil, tableNews, ring.Of(d, a.partitions), d))
			if dep.Outcome() == crdt.StateCompleted && told {
				return fmt.Errorf("%w: %s waits for %s, which is completed", ErrDamaged, task, d)
			}
		}
	}
	return nil
}

// stored compares what is there.
func (a *linkAudit) stored(p ring.Partition) error {
	count := uint64(0)
	for table, want := range map[byte]map[[2]id.ID]bool{tableEdges: a.edges, tableWaiting: a.blocks} { // Any order: each is checked by itself.
		prefix := appendPrefix(nil, table, p)
		for key := range a.view.Scan(prefix, after(prefix)) {
			pair := [2]id.ID{id.ID(key[prefixSize:]), id.ID(key[prefixSize+id.Size:])}
			if table == tableEdges {
				count++
			}
			dependent := pair[0]
			if table == tableEdges {
				dependent = pair[1]
			}
			if hasKey(a.view, appendTask(nil, tableReleases, ring.Of(dependent, a.partitions), dependent)) {
				continue // about to go
			}
			if _, ok := want[pair]; !ok {
				return fmt.Errorf("%w: %c entry of %s and %s should not be there", ErrDamaged, table, pair[0], pair[1])
			}
			want[pair] = true
		}
	}
	b, ok := a.view.Get(appendPrefix(nil, tablePartition, p))
	if !ok {
		b = (&partitionRecord{}).appendTo(nil)
	}
	if n := binary.BigEndian.Uint64(b[len(b)-8:]); n != count {
		return fmt.Errorf("%w: %d edges on record, %d found", ErrDamaged, n, count)
	}
	return nil
}

func (a *linkAudit) missing() error {
	for pair, seen := range a.edges { // Any order: whichever is missing is reported.
		if !seen {
			return fmt.Errorf("%w: %s is not registered with %s", ErrDamaged, pair[1], pair[0])
		}
	}
	return nil
}
