package query

import (
	"container/heap"
	"iter"
	"slices"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// taskMerge gives the tasks of all partitions in ID order, after one ID. It
// holds one task per partition, of which it leaves out what may be large, and nothing
// that grows with the tasks.
type taskMerge struct {
	heads []taskHead
	err   error
}

type taskHead struct {
	p    ring.Partition
	all  int // partitions, where the walk is through more than p; 0: it is not
	task *vnode.Detail
	next func() (*vnode.Detail, error, bool)
	stop func()
}

func newTaskMerge(view store.View, partitions []ring.Partition, last id.ID, keep func(*crdt.Enqueued) bool) *taskMerge {
	m := &taskMerge{}
	for _, p := range partitions {
		h := taskHead{p: p}
		h.next, h.stop = iter.Pull2(vnode.WalkLean(view, p, last, keep))
		if m.advance(&h) {
			m.heads = append(m.heads, h)
		}
	}
	heap.Init(m)
	return m
}

// dependentsAtOnce is how many are read from the index at a time.
const dependentsAtOnce = 256

// dependents gives the tasks kept here that depend on one of a partition and are not finished, after
// one ID, in ID order.
func dependents(view store.View, p ring.Partition, dependency, last id.ID) iter.Seq[id.ID] {
	return func(yield func(id.ID) bool) {
		for {
			some := vnode.EdgesAt(p).Of(view, dependency, last, dependentsAtOnce)
			for _, task := range some {
				if last = task; !yield(task) {
					return
				}
			}
			if len(some) < dependentsAtOnce {
				return
			}
		}
	}
}

// newDependentMerge gives those tasks of some partitions that depend on one and are not finished, by the
// index that has them.
func newDependentMerge(view store.View, partitions []ring.Partition, all int, dependency, last id.ID, keep func(*crdt.Enqueued) bool) *taskMerge {
	h := taskHead{all: all}
	h.next, h.stop = iter.Pull2(func(yield func(*vnode.Detail, error) bool) {
		for task := range dependents(view, ring.Of(dependency, all), dependency, last) {
			p := ring.Of(task, all)
			if !slices.Contains(partitions, p) {
				continue
			}
			d, err := vnode.ReadTask(view, p, task, vnode.ReadOptions{Log: proto.MaxUpdatesInList})
			if err == nil && d.Task.Enqueued != nil && !keep(d.Task.Enqueued) {
				d = &vnode.Detail{Task: &crdt.Task{ID: task}}
			}
			if !yield(d, err) || err != nil {
				return
			}
		}
	})
	m := &taskMerge{}
	if m.advance(&h) {
		m.heads = append(m.heads, h)
	}
	return m
}

// advance reads a partition's next task; at its end the walk is stopped.
func (m *taskMerge) advance(h *taskHead) bool {
	task, err, ok := h.next()
	if err != nil {
		m.err = err
	}
	if !ok || err != nil {
		h.stop()
		return false
	}
	if h.task = task; h.all > 0 {
		h.p = ring.Of(task.Task.ID, h.all)
	}
	return true
}

// next gives the next task and its partition, or nil at the end.
func (m *taskMerge) next() (*vnode.Detail, ring.Partition, error) {
	if m.err != nil || len(m.heads) == 0 {
		return nil, 0, m.err
	}
	task, p := m.heads[0].task, m.heads[0].p
	if m.advance(&m.heads[0]) {
		heap.Fix(m, 0)
	} else {
		heap.Pop(m)
	}
	return task, p, m.err
}

func (m *taskMerge) close() {
	for i := range m.heads {
		m.heads[i].stop()
	}
}

func (m *taskMerge) Len() int { return len(m.heads) }
func (m *taskMerge) Less(i, j int) bool {
	return m.heads[i].task.Task.ID.Compare(m.heads[j].task.Task.ID) < 0
}
func (m *taskMerge) Swap(i, j int) { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *taskMerge) Push(x any)    { m.heads = append(m.heads, x.(taskHead)) }
func (m *taskMerge) Pop() any {
	last := m.heads[len(m.heads)-1]
	m.heads = m.heads[:len(m.heads)-1]
	return last
}
