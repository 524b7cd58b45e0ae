package agenda

import "bytes"

// UUID names a schedule.
type UUID = [16]byte

// Agenda is a set of schedules with the wall ns at which each wakes. The zero
// Agenda is empty. One goroutine may use it at a time.
type Agenda struct {
	heap []*entry
	at   map[UUID]*entry
}

type entry struct {
	wake  int64
	uuid  UUID
	index int // in the heap
}

// before is the order: by time, then by UUID, so that all replicas agree.
func (e *entry) before(o *entry) bool {
	if e.wake != o.wake {
		return e.wake < o.wake
	}
	return bytes.Compare(e.uuid[:], o.uuid[:]) < 0
}

// Len is the number of schedules.
func (a *Agenda) Len() int { return len(a.heap) }

// Set puts a schedule where it wakes, whether it is there or not.
func (a *Agenda) Set(uuid UUID, wake int64) {
	if a.at == nil {
		a.at = map[UUID]*entry{}
	}
	e := a.at[uuid]
	if e == nil {
		e = &entry{uuid: uuid, index: len(a.heap)}
		a.heap = append(a.heap, e)
		a.at[uuid] = e
	}
	e.wake = wake
	a.move(e)
}

// Remove forgets a schedule, and does nothing when it is not there.
func (a *Agenda) Remove(uuid UUID) {
	e := a.at[uuid]
	if e == nil {
		return
	}
	delete(a.at, uuid)
	last := len(a.heap) - 1
	moved := a.heap[last]
	a.heap[last] = nil
	a.heap = a.heap[:last]
	if moved != e {
		moved.index = e.index
		a.move(moved)
	}
}

// Wake is when a schedule wakes, and whether it is there.
func (a *Agenda) Wake(uuid UUID) (int64, bool) {
	e := a.at[uuid]
	if e == nil {
		return 0, false
	}
	return e.wake, true
}

// First is the schedule that wakes first, and when; false when there is none.
func (a *Agenda) First() (UUID, int64, bool) {
	if len(a.heap) == 0 {
		return UUID{}, 0, false
	}
	return a.heap[0].uuid, a.heap[0].wake, true
}

func (a *Agenda) put(i int, e *entry) {
	a.heap[i] = e
	e.index = i
}

// move brings an entry from its index to where it belongs (binary heap;
// Williams 1964).
func (a *Agenda) move(e *entry) {
	i := e.index
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(a.heap[up]) {
			break
		}
		a.put(i, a.heap[up])
		i = up
	}
	for {
		down := 2*i + 1
		if down+1 < len(a.heap) && a.heap[down+1].before(a.heap[down]) {
			down++
		}
		if down >= len(a.heap) || !a.heap[down].before(e) {
			break
		}
		a.put(i, a.heap[down])
		i = down
	}
	a.put(i, e)
}
