package away

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
)

const (
	// Longest is for how long a task is kept from a worker at most.
	Longest = time.Hour
	// MostTasks bounds the tasks of a worker.
	MostTasks = 256

	most  = 1 << 16 // of all workers together
	named = 3       // workers that an explanation names
)

// Taker is a worker as its claims name it.
type Taker struct {
	Worker  string
	Session [16]byte
}

// Kept are tasks by the worker that they are kept from, each with until when, mono ns. The zero
// value is ready.
type Kept struct {
	by map[Taker]map[id.ID]int64
	n  int // tasks of all workers
}

// Add keeps a task from a worker, if there is room.
func (k *Kept) Add(now int64, by Taker, task id.ID, d time.Duration) {
	if d <= 0 || by == (Taker{}) {
		return // it is not known from whom
	}
	if k.n >= most || len(k.by[by]) >= MostTasks {
		k.forget(now)
	}
	_, known := k.by[by][task]
	if !known && (k.n >= most || len(k.by[by]) >= MostTasks) {
		return
	}
	if k.by == nil {
		k.by = make(map[Taker]map[id.ID]int64)
	}
	if k.by[by] == nil {
		k.by[by] = make(map[id.ID]int64)
	}
	if k.by[by][task] = now + int64(min(d, Longest)); !known {
		k.n++
	}
}

// forget leaves out what is over.
func (k *Kept) forget(now int64) {
	for by, tasks := range k.by { // Any order: each by itself.
		for task, until := range tasks {
			if until <= now {
				delete(tasks, task)
				k.n--
			}
		}
		if len(tasks) == 0 {
			delete(k.by, by)
		}
	}
}

// Of gives the tasks that are kept from a worker, and until when; mostly none.
func (k *Kept) Of(by Taker) map[id.ID]int64 {
	if k.n == 0 {
		return nil
	}
	return k.by[by]
}

// From gives the names of some workers that a task is kept from, in order.
func (k *Kept) From(now int64, task id.ID) (workers []string) {
	for by, tasks := range k.by { // Any order: sorted below.
		if tasks[task] > now {
			workers = append(workers, by.Worker)
		}
	}
	slices.Sort(workers)
	workers = slices.Compact(workers)
	return workers[:min(len(workers), named)]
}
