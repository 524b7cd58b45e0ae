package agenda

import "bytes"

// UUID names a schedule.
type UUID = [16]byte

// Entry is where a schedule is in an agenda. It is part of what its owner keeps
// of the schedule: among 100,000 of them a second structure to find it by would
// cost more than the agenda itself. The zero Entry is in none.
type Entry struct {
	// UUID is the schedule's. It does not change while the entry is in an agenda.
	UUID UUID
	wake int64 // wall ns
	spot int32 // in the heap, from 1 on; 0: it is in none
}

// Wake is when the schedule wakes in wall ns, and whether it is in an agenda.
func (e *Entry) Wake() (int64, bool) {
	if e.spot == 0 {
		return 0, false
	}
	return e.wake, true
}

// before is the order: by time, then by UUID, so that all replicas agree.
func (e *Entry) before(o *Entry) bool {
	if e.wake != o.wake {
		return e.wake < o.wake
	}
	return bytes.Compare(e.UUID[:], o.UUID[:]) < 0
}

// Holder keeps a schedule, and the same entry of it all the time.
type Holder interface {
	comparable
	Entry() *Entry
}

// Agenda is a set of schedules, sorted by when each wakes. The zero Agenda is
// empty. An entry is in one agenda at a time; one goroutine may use both.
type Agenda[T Holder] struct {
	heap []T
}

// Len is the number of schedules.
func (a *Agenda[T]) Len() int { return len(a.heap) }

// Set puts a schedule where it wakes, whether it is there or not.
func (a *Agenda[T]) Set(x T, wake int64) {
	e := x.Entry()
	if e.spot == 0 {
		a.heap = append(a.heap, x)
		e.spot = int32(len(a.heap))
	}
	e.wake = wake
	a.move(x, e)
}

// Remove forgets a schedule, and does nothing when it is not there.
func (a *Agenda[T]) Remove(x T) {
	e := x.Entry()
	if e.spot == 0 {
		return
	}
	last := len(a.heap) - 1
	moved := a.heap[last]
	clear(a.heap[last:])
	a.heap = a.heap[:last]
	if moved != x {
		m := moved.Entry()
		m.spot = e.spot
		a.move(moved, m)
	}
	e.spot = 0
}

// First is the schedule that wakes first, and when; false when there is none.
func (a *Agenda[T]) First() (x T, wake int64, ok bool) {
	if len(a.heap) == 0 {
		return x, 0, false
	}
	return a.heap[0], a.heap[0].Entry().wake, true
}

// Soonest is the earliest wake after a time, and false when none is found. Those that wake by
// then are passed over, up to a number: beyond it there may be an earlier one.
func (a *Agenda[T]) Soonest(after int64, most int) (wake int64, ok bool) {
	above := []int{0} // none of these, nor of what is below it, has been looked at
	for len(above) > 0 && most > 0 {
		i := above[0]
		above, most = above[1:], most-1
		if i >= len(a.heap) {
			continue
		}
		switch at := a.heap[i].Entry().wake; {
		case at <= after:
			above = append(above, 2*i+1, 2*i+2)
		case !ok || at < wake:
			wake, ok = at, true
		}
	}
	return wake, ok
}

func (a *Agenda[T]) put(i int, x T) {
	a.heap[i] = x
	x.Entry().spot = int32(i + 1)
}

// move brings a schedule from its spot to where it belongs (binary heap;
// Williams 1964).
func (a *Agenda[T]) move(x T, e *Entry) {
	i := int(e.spot) - 1
	for i > 0 {
		up := (i - 1) / 2
		if !e.before(a.heap[up].Entry()) {
			break
		}
		a.put(i, a.heap[up])
		i = up
	}
	for {
		down := 2*i + 1
		if down+1 < len(a.heap) && a.heap[down+1].Entry().before(a.heap[down].Entry()) {
			down++
		}
		if down >= len(a.heap) || !a.heap[down].Entry().before(e) {
			break
		}
		a.put(i, a.heap[down])
		i = down
	}
	a.put(i, x)
}
