package vnode

import (
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Edges are the dependents registered at one partition: who asks to be told
// when one of its tasks is finished (design 8). An edge stays until the
// dependent is finished, so that what it depends on is not collected before.
type Edges struct {
	p      ring.Partition
	record *partitionRecord
}

// EdgesAt are those of a partition, for who reads them only.
func EdgesAt(p ring.Partition) Edges { return Edges{p: p} }

// Add registers a dependent of a task, known here or not.
func (e Edges) Add(tx store.Tx, dependency, dependent id.ID) {
	key := appendEdge(nil, tableEdges, e.p, dependency, dependent)
	if _, ok := tx.Get(key); ok {
		return
	}
	tx.Set(key, nil)
	e.record.edges++
	e.record.write(tx, e.p)
}

// Drop takes a dependent out.
func (e Edges) Drop(tx store.Tx, dependency, dependent id.ID) {
	key := appendEdge(nil, tableEdges, e.p, dependency, dependent)
	if _, ok := tx.Get(key); !ok {
		return
	}
	tx.Delete(key)
	e.record.edges--
	e.record.write(tx, e.p)
}

// Any tells whether the task has a dependent. Without any edge in the partition
// it reads nothing.
func (e Edges) Any(view store.View, dependency id.ID) bool {
	return e.record.edges > 0 && HasKey(view, appendTask(nil, tableEdges, e.p, dependency))
}

// Of gives up to limit dependents of a task after one, in ID order. Without any edge in the
// partition it reads nothing.
func (e Edges) Of(view store.View, dependency, last id.ID, limit int) (dependents []id.ID) {
	if e.record != nil && e.record.edges == 0 {
		return nil
	}
	prefix := appendTask(nil, tableEdges, e.p, dependency)
	from := prefix
	if !last.IsZero() {
		from = after(appendEdge(nil, tableEdges, e.p, dependency, last))
	}
	for key := range view.Scan(from, after(prefix)) {
		if dependents = append(dependents, id.ID(key[len(prefix):])); len(dependents) == limit {
			break
		}
	}
	return dependents
}

// Announce remembers that the dependents of a finished task are to be told, so
// that a crash in the middle is made up for.
func (e Edges) Announce(tx store.Tx, dependency id.ID) {
	tx.Set(appendTask(nil, tableNews, e.p, dependency), nil)
}

// Announced forgets it: all have been told.
func (e Edges) Announced(tx store.Tx, dependency id.ID) {
	tx.Delete(appendTask(nil, tableNews, e.p, dependency))
}

// News gives the finished tasks whose dependents have not all been told.
func (e Edges) News(view store.View) (tasks []id.ID) {
	prefix := appendPrefix(nil, tableNews, e.p)
	for key := range view.Scan(prefix, after(prefix)) {
		tasks = append(tasks, id.ID(key[len(prefix):]))
	}
	return tasks
}

// Leave remembers that the edges of a finished task of partition p are to be
// dropped, so that a crash in the middle is made up for.
func Leave(tx store.Tx, p ring.Partition, task id.ID) {
	tx.Set(appendTask(nil, tableReleases, p, task), nil)
}

// Left forgets it: they are gone.
func Left(tx store.Tx, p ring.Partition, task id.ID) {
	tx.Delete(appendTask(nil, tableReleases, p, task))
}

// Leaving gives the finished tasks of partition p with edges to be dropped.
func Leaving(view store.View, p ring.Partition) (tasks []id.ID) {
	prefix := appendPrefix(nil, tableReleases, p)
	for key := range view.Scan(prefix, after(prefix)) {
		tasks = append(tasks, id.ID(key[len(prefix):]))
	}
	return tasks
}

// Block notes that a dependency holds a waiting task of partition p back.
func Block(tx store.Tx, p ring.Partition, task, dependency id.ID) {
	tx.Set(appendEdge(nil, tableWaiting, p, task, dependency), nil)
}

// Blocks tells whether a dependency is noted to hold a task of partition p back.
func Blocks(view store.View, p ring.Partition, task, dependency id.ID) bool {
	_, ok := view.Get(appendEdge(nil, tableWaiting, p, task, dependency))
	return ok
}

// Unblock takes the note back and tells whether it was there, and whether it
// was the last one.
func Unblock(tx store.Tx, p ring.Partition, task, dependency id.ID) (was, last bool) {
	key := appendEdge(nil, tableWaiting, p, task, dependency)
	if _, ok := tx.Get(key); !ok {
		return false, false
	}
	tx.Delete(key)
	return true, !HasKey(tx, appendTask(nil, tableWaiting, p, task))
}

// Free takes the note back, whether it was there or not.
func Free(tx store.Tx, p ring.Partition, task, dependency id.ID) {
	tx.Delete(appendEdge(nil, tableWaiting, p, task, dependency))
}

// Pair is a waiting task and a dependency that holds it back.
type Pair struct{ Task, Dependency id.ID }

// Waiting gives up to limit pairs of partition p after one, in the order of
// their tasks.
func Waiting(view store.View, p ring.Partition, task, dependency id.ID, limit int) (pairs []Pair) {
	prefix := appendPrefix(nil, tableWaiting, p)
	from := prefix
	if !task.IsZero() {
		from = after(appendEdge(nil, tableWaiting, p, task, dependency))
	}
	for key := range view.Scan(from, after(prefix)) {
		at := len(prefix)
		pairs = append(pairs, Pair{id.ID(key[at : at+id.Size]), id.ID(key[at+id.Size:])})
		if len(pairs) == limit {
			break
		}
	}
	return pairs
}

// Blockers gives the dependencies that hold a waiting task back, in ID order.
func Blockers(view store.View, p ring.Partition, task id.ID) (dependencies []id.ID) {
	prefix := appendTask(nil, tableWaiting, p, task)
	for key := range view.Scan(prefix, after(prefix)) {
		dependencies = append(dependencies, id.ID(key[len(prefix):]))
	}
	return dependencies
}

// HasKey tells whether there is a key that begins so.
func HasKey(view store.View, prefix []byte) bool {
	for range view.Scan(prefix, after(prefix)) {
		return true
	}
	return false
}
