package vnode

import (
	"encoding/binary"

	"github.com/norn-dev/norn/id"
)

// recent answers for nearly every new ID, without a read, that it was not
// stored before. IDs carry the time they were made, so what is enqueued now is
// above all that was stored some time ago: only IDs at or below the floor, and
// the rare false alarms of a Bloom filter over those above it, need a look.
//
// Invariant: every task with an ID above the floor of which a fact or a claim is
// stored is in one of the two generations.
type recent struct {
	floor      id.ID
	limit      int // IDs per generation
	now, older generation
}

// generation is a Bloom filter: 16 bits and 4 probes per ID, about 0.2 % false
// alarms when it is full.
type generation struct {
	bits []uint64
	n    int
	max  id.ID
}

// recentIDs is the number of IDs per generation over all partitions: at 16
// bits each both generations take 1 MiB, and at 100,000 enqueues per second
// they reach back over two seconds.
const recentIDs = 1 << 18

func newRecent(partitions int, floor id.ID) *recent {
	limit := 64
	for limit < recentIDs/partitions {
		limit *= 2
	}
	return &recent{floor: floor, limit: limit}
}

// maybe tells whether the task may be stored; false is certain.
func (r *recent) maybe(task id.ID) bool {
	return task.Compare(r.floor) <= 0 || r.now.has(task) || r.older.has(task)
}

// add notes a stored task, again or for the first time. That maybe is true does
// not spare it: a false alarm ends with the generation it comes from. One of the
// newest generation does, because the floor rises to the maximum when it goes.
func (r *recent) add(task id.ID) {
	if task.Compare(r.floor) <= 0 {
		return
	}
	if r.now.has(task) {
		if task.Compare(r.now.max) > 0 {
			r.now.max = task
		}
		return
	}
	if r.now.n == r.limit {
		if r.older.n > 0 && r.older.max.Compare(r.floor) > 0 {
			r.floor = r.older.max
		}
		clear(r.older.bits)
		r.now, r.older = generation{bits: r.older.bits}, r.now
	}
	if r.now.bits == nil {
		r.now.bits = make([]uint64, r.limit*16/64)
	}
	r.now.add(task)
}

// probes spreads the random end of an ID over the filter's bits.
func (g *generation) probes(task id.ID) (at, step uint64) {
	h := binary.BigEndian.Uint64(task[12:])
	h = (h ^ h>>32) * 0x9e3779b97f4a7c15 // the tail may be drawn in steps
	return h >> 17, h>>41 | 1
}

func (g *generation) add(task id.ID) {
	at, step := g.probes(task)
	for range 4 {
		at += step
		i := at & uint64(len(g.bits)*64-1)
		g.bits[i/64] |= 1 << (i % 64)
	}
	g.n++
	if task.Compare(g.max) > 0 {
		g.max = task
	}
}

func (g *generation) has(task id.ID) bool {
	if g.n == 0 {
		return false
	}
	at, step := g.probes(task)
	for range 4 {
		at += step
		i := at & uint64(len(g.bits)*64-1)
		if g.bits[i/64]&(1<<(i%64)) == 0 {
			return false
		}
	}
	return true
}
