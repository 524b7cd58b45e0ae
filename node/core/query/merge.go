package query

import (
	"container/heap"
	"iter"
	"slices"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
	"github.com/norn-dev/norn/vnode/index"
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
	m := &taskMerge{}
	m.add(view, all, keep, func(yield func(id.ID) bool) {
		for task := range dependents(view, ring.Of(dependency, all), dependency, last) {
			if slices.Contains(partitions, ring.Of(task, all)) && !yield(task) {
				return
			}
		}
	})
	return m
}

// Bounds of what is looked for by the indexes of states, rather than by a walk through all tasks.
const (
	fewInPartition = 512     // entries in one partition: of more some are on the first page of a walk
	fewInAll       = 1 << 16 // for one page
)

// newStateMerge gives the tasks of some partitions, those in other states or of other queues left out
// where an index tells: what is rare is found at once, however many others there are.
func newStateMerge(view store.View, partitions []ring.Partition, all int, queue string, states []crdt.State, last id.ID, keep func(*crdt.Enqueued) bool) (*taskMerge, error) {
	var few []id.ID
	var many []ring.Partition
	for _, p := range partitions {
		some, ok, err := index.Find(view, p, queue, states, last, min(fewInPartition, fewInAll-len(few)))
		if err != nil {
			return nil, err
		}
		if few = append(few, some...); !ok {
			many = append(many, p)
		}
	}
	slices.SortFunc(few, id.ID.Compare)
	m := newTaskMerge(view, many, last, keep)
	m.add(view, all, keep, slices.Values(slices.Compact(few))) // a task may have more than one claim
	heap.Init(m)
	return m, nil
}

// add gives tasks, too, that are named in ID order. They are read one after the other.
func (m *taskMerge) add(view store.View, all int, keep func(*crdt.Enqueued) bool, tasks iter.Seq[id.ID]) {
	h := taskHead{all: all}
	h.next, h.stop = iter.Pull2(func(yield func(*vnode.Detail, error) bool) {
		for task := range tasks {
			d, err := leanTask(view, ring.Of(task, all), task, keep)
			if !yield(d, err) || err != nil {
				return
			}
		}
	})
	if m.advance(&h) {
		m.heads = append(m.heads, h)
	}
}

// leanTask gives one task as a walk does, which begins with it.
func leanTask(view store.View, p ring.Partition, task id.ID, keep func(*crdt.Enqueued) bool) (*vnode.Detail, error) {
	before := task
	for i := len(before) - 1; i >= 0; i-- {
		if before[i]--; before[i] != 0xff {
			break
		}
	}
	for d, err := range vnode.WalkLean(view, p, before, keep) {
		if err != nil || d.Task.ID == task {
			return d, err
		}
		break // nothing is stored of it
	}
	return &vnode.Detail{Task: crdt.NewTask(task, nil)}, nil
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
