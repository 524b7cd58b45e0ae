package query

import (
	"container/heap"
	"iter"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
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
	h.task = task
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
