package recent

import (
	"encoding/binary"
	"slices"

	"github.com/norn-dev/norn/id"
)

// Filter answers for nearly every new ID, without a read, that it was not
// stored before. IDs carry the time they were made, so what is enqueued now is
// above all that was stored some time ago: only IDs at or below the floor, and
// the rare false alarms of a Bloom filter over those above it, need a look.
//
// Invariant: every task with an ID above the floor of which a fact or a claim is
// stored is in one of the two generations.
type Filter struct {
	floor      id.ID
	limit      int         // IDs per generation
	now, older *generation // nil: nothing was added
	vacant     *vacancy    // nil: nothing is known
}

// vacancy says that of no task behind low up to high is anything stored, but of those there.
type vacancy struct {
	low, high id.ID
	first     bool // low itself is one of them
	there     []id.ID
}

// Vacant says that nothing is stored of any task from first to last but of those there, which ascend, until
// [Filter.Expected]: of those at or below the floor, too, Maybe is false then, up to the first that comes behind it. About
// so many are to come: those that would fill a generation, all others of which are nothing then, raise the floor instead.
func (f *Filter) Vacant(first, last id.ID, there []id.ID, n int) {
	if n >= f.limit && last.Compare(f.floor) > 0 {
		f.floor = last
	}
	f.vacant = &vacancy{low: first, high: last, first: true, there: there}
}

// Expected ends what [Filter.Vacant] has said.
func (f *Filter) Expected() { f.vacant = nil }

// free tells whether a task is surely not stored.
func (v *vacancy) free(task id.ID) bool {
	if v == nil || task.Compare(v.high) > 0 {
		return false
	}
	if order := task.Compare(v.low); order < 0 || order == 0 && !v.first {
		return false
	}
	_, there := slices.BinarySearchFunc(v.there, task, id.ID.Compare)
	return !there
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

// New makes the filter of one of so many partitions, in which nothing above the floor is
// stored.
func New(partitions int, floor id.ID) *Filter {
	limit := 64
	for limit < recentIDs/partitions {
		limit *= 2
	}
	return &Filter{floor: floor, limit: limit}
}

// Maybe tells whether the task may be stored; false is certain.
func (f *Filter) Maybe(task id.ID) bool {
	if f.vacant.free(task) {
		return false
	}
	return task.Compare(f.floor) <= 0 || f.now.has(task) || f.older.has(task)
}

// Add notes a stored task, again or for the first time. That Maybe is true does
// not spare it: a false alarm ends with the generation it comes from. One of the
// newest generation does, because the floor rises to the maximum when it goes.
func (f *Filter) Add(task id.ID) {
	if f.vacant.free(task) {
		f.vacant.low, f.vacant.first = task, false
	}
	if task.Compare(f.floor) <= 0 {
		return
	}
	if f.now.has(task) {
		if task.Compare(f.now.max) > 0 {
			f.now.max = task
		}
		return
	}
	if f.now != nil && f.now.n == f.limit {
		next := f.older
		if next != nil {
			if next.n > 0 && next.max.Compare(f.floor) > 0 {
				f.floor = next.max
			}
			clear(next.bits)
			*next = generation{bits: next.bits}
		}
		f.now, f.older = next, f.now
	}
	if f.now == nil {
		f.now = &generation{bits: make([]uint64, f.limit*16/64)}
	}
	f.now.add(task)
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
	if g == nil || g.n == 0 {
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
