package core

import (
	"container/heap"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// taskMerge gives the tasks of all partitions in ID order, after one ID. It
// holds one position per partition, nothing that grows with the tasks.
type taskMerge struct {
	view  store.View
	heads []taskHead
}

type taskHead struct {
	task id.ID
	p    ring.Partition
}

func newTaskMerge(view store.View, partitions int, last id.ID) *taskMerge {
	m := &taskMerge{view: view}
	for i := range partitions {
		p := ring.Partition(i)
		if task, ok := vnode.NextTask(view, p, last); ok {
			m.heads = append(m.heads, taskHead{task, p})
		}
	}
	heap.Init(m)
	return m
}

func (m *taskMerge) next() (id.ID, ring.Partition, bool) {
	if len(m.heads) == 0 {
		return id.ID{}, 0, false
	}
	h := m.heads[0]
	if task, ok := vnode.NextTask(m.view, h.p, h.task); ok {
		m.heads[0].task = task
		heap.Fix(m, 0)
	} else {
		heap.Pop(m)
	}
	return h.task, h.p, true
}

func (m *taskMerge) Len() int           { return len(m.heads) }
func (m *taskMerge) Less(i, j int) bool { return m.heads[i].task.Compare(m.heads[j].task) < 0 }
func (m *taskMerge) Swap(i, j int)      { m.heads[i], m.heads[j] = m.heads[j], m.heads[i] }
func (m *taskMerge) Push(x any)         { m.heads = append(m.heads, x.(taskHead)) }
func (m *taskMerge) Pop() any {
	last := m.heads[len(m.heads)-1]
	m.heads = m.heads[:len(m.heads)-1]
	return last
}
