package partitions

import (
	"fmt"
	"iter"
	"math/bits"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// Set has the vnodes of the partitions of the cluster that are kept here, or that something
// is stored of, or that something was done with. A round of the loop looks only at those that
// something was done with or that have something to do by now: what it costs does not grow
// with the partitions of the cluster.
type Set struct {
	all   []*opened // by partition; nil: it is not open
	open  func(ring.Partition) *vnode.Vnode
	blank *vnode.Vnode // what is seen of one that is not open
	wakes *wakes
	sum   share   // of all
	stale touched // what is known of them may have changed since they were asked
	dirty touched // they may have something to flush
	void  []bool  // nothing is stored of them: looked at, and nothing was done with them since
	Asked uint64  // how often one was looked at, to do something with, for its times, or with all others
}

// opened is an open vnode and what it adds to the sums.
type opened struct {
	*vnode.Vnode
	part share
}

// New makes a set of the vnodes of all partitions, in order; nil: it is opened when it is used.
// blank is one of which nothing is stored, and without a tree.
func New(all []*vnode.Vnode, blank *vnode.Vnode, open func(ring.Partition) *vnode.Vnode) *Set {
	n := len(all)
	v := &Set{all: make([]*opened, n), open: open, blank: blank, wakes: newWakes(n), stale: newTouched(n), dirty: newTouched(n), void: make([]bool, n)}
	for p := range all {
		if all[p] != nil {
			v.all[p] = &opened{Vnode: all[p]}
			v.Use(ring.Partition(p))
		}
	}
	return v
}

// Use is a vnode to do something with. Nobody keeps it beyond the event or the round.
func (v *Set) Use(p ring.Partition) *vnode.Vnode {
	if v.all[p] == nil {
		v.all[p] = &opened{Vnode: v.open(p)}
	}
	v.Asked++
	v.stale.add(p)
	v.dirty.add(p)
	v.void[p] = false
	return v.all[p].Vnode
}

// Empty tells whether nothing is stored of a partition. A node of many keeps a few
// partitions, and the others are looked at with each change of the register.
func (v *Set) Empty(p ring.Partition, view store.View) bool {
	if !v.void[p] {
		v.void[p] = vnode.Empty(view, p)
	}
	return v.void[p]
}

// Opened tells whether a vnode is open.
func (v *Set) Opened(p ring.Partition) bool { return v.all[p] != nil }

// Close forgets a vnode with nothing in memory that is not in the store as well, and of which
// nothing is stored.
func (v *Set) Close(p ring.Partition, view store.View) {
	if one := v.all[p]; one != nil && Idle(one.Vnode, view) {
		v.refresh()
		v.sum = v.sum.with(share{}, one.part)
		v.wakes.set(int(p), clock.Never, clock.Never)
		v.all[p] = nil
	}
}

// See is a vnode that nothing is done with but to read it, before the next one is seen.
func (v *Set) See(p ring.Partition) *vnode.Vnode {
	if v.all[p] == nil {
		v.blank.Partition = p
		return v.blank
	}
	return v.all[p].Vnode
}

// Each gives all that are open, in order, for who reads only.
func (v *Set) Each() iter.Seq2[ring.Partition, *vnode.Vnode] {
	return func(yield func(ring.Partition, *vnode.Vnode) bool) {
		for p, one := range v.all {
			if one == nil {
				continue
			}
			v.Asked++
			if !yield(ring.Partition(p), one.Vnode) {
				return
			}
		}
	}
}

// Replace puts another vnode in the place of one.
func (v *Set) Replace(p ring.Partition, by *vnode.Vnode) {
	if v.all[p] == nil {
		v.all[p] = &opened{}
	}
	v.all[p].Vnode = by
	v.Use(p)
}

// Due gives the vnodes that have something to do, in order. What is done with one
// may make others due: those that come after it are given, too.
func (v *Set) Due(now clock.Time) iter.Seq[*vnode.Vnode] {
	return func(yield func(*vnode.Vnode) bool) {
		for from := 0; ; from++ {
			v.refresh()
			p, ok := v.wakes.due(from, now)
			if !ok || !yield(v.Use(ring.Partition(p))) {
				return
			}
			from = p
		}
	}
}

// Next is when the next one has something to do, on both clocks.
func (v *Set) Next() (wall, mono int64) {
	v.refresh()
	return v.wakes.first()
}

func (v *Set) refresh() {
	for _, p := range v.stale.take() {
		one := v.all[p]
		if one == nil {
			continue // it was closed
		}
		v.Asked++
		wall, mono := one.NextWake()
		v.wakes.set(int(p), wall, mono)
		is := shareOf(one.Vnode)
		v.sum = v.sum.with(is, one.part)
		one.part = is
	}
}

// Audit tells what the set would overlook: a vnode that something was done with
// behind its back. It is for tests; none of what it reads comes from a disk.
func (v *Set) Audit() error {
	for p, one := range v.Each() {
		wall, mono := one.NextWake()
		switch known := v.wakes.of(int(p)); {
		case !v.dirty.in[p] && vnode.Unflushed(one):
			return fmt.Errorf("partition %d has something to flush, which nobody has noticed", p)
		case v.stale.in[p]:
		case known != wake{wall, mono}:
			return fmt.Errorf("partition %d wants to be woken at %d and %d, not at %v", p, wall, mono, known)
		case v.all[p].part != shareOf(one):
			return fmt.Errorf("partition %d is counted as %+v, not as %+v", p, v.all[p].part, shareOf(one))
		}
	}
	return nil
}

// share is what a vnode adds to sums over all.
type share struct {
	claimed, led, full, aside int
	asideBytes                int64
}

// with gives a sum in which one share has taken the place of another one.
func (s share) with(is, was share) share {
	return share{
		s.claimed + is.claimed - was.claimed, s.led + is.led - was.led, s.full + is.full - was.full,
		s.aside + is.aside - was.aside, s.asideBytes + is.asideBytes - was.asideBytes,
	}
}

func shareOf(v *vnode.Vnode) share {
	s := share{claimed: v.Claimed()}
	s.aside, s.asideBytes = vnode.KeptAside(v)
	if v.Leading() != 0 {
		s.led = 1
		if vnode.Full(v) > 0 {
			s.full = 1
		}
	}
	return s
}

// Claimed is the number of tasks under a claim.
func (v *Set) Claimed() int {
	v.refresh()
	return v.sum.claimed
}

// Led is the number of partitions led.
func (v *Set) Led() int {
	v.refresh()
	return v.sum.led
}

// Full is the number of partitions led that grant nothing, because so many of their tasks
// are under a claim.
func (v *Set) Full() int {
	v.refresh()
	return v.sum.full
}

// Aside is of how many tasks facts are kept aside, and the bytes of those.
func (v *Set) Aside() (tasks int, bytes int64) {
	v.refresh()
	return v.sum.aside, v.sum.asideBytes
}

// Flush writes what vnodes have not written yet.
func (v *Set) Flush(tx store.Tx) {
	some := v.dirty.take()
	slices.Sort(some)
	for _, p := range some {
		if v.all[p] == nil {
			continue // it was closed
		}
		v.Asked++
		v.all[p].Flush(tx)
	}
}

// touched is a set of partitions.
type touched struct {
	in          []bool // by partition
	list, spare []ring.Partition
}

func newTouched(n int) touched { return touched{in: make([]bool, n)} }

func (s *touched) add(p ring.Partition) {
	if !s.in[p] {
		s.in[p] = true
		s.list = append(s.list, p)
	}
}

// take empties the set. What it gives is valid until the next time.
func (s *touched) take() []ring.Partition {
	list := s.list
	for _, p := range list {
		s.in[p] = false
	}
	s.list, s.spare = s.spare[:0], list
	return list
}

// wakes is a tree of times over a number of things, the earliest at the root: to
// change one, and to find the next that is due, takes as many steps as it is high.
type wakes struct {
	leaves int    // a power of two
	at     []wake // 1 is the root, below i are 2i and 2i+1
}

// wake is a time on each clock.
type wake struct{ wall, mono int64 }

func (w wake) due(now clock.Time) bool { return w.wall <= now.Wall || w.mono <= now.Mono }

// newWakes has n things of which nothing is due.
func newWakes(n int) *wakes {
	w := &wakes{leaves: 1 << bits.Len(uint(max(n, 1)-1))}
	w.at = make([]wake, 2*w.leaves)
	for i := range w.at {
		w.at[i] = wake{clock.Never, clock.Never}
	}
	return w
}

func (w *wakes) of(i int) wake { return w.at[i+w.leaves] }

func (w *wakes) set(i int, wall, mono int64) {
	i += w.leaves
	for to := (wake{wall, mono}); w.at[i] != to; {
		w.at[i] = to
		if i == 1 {
			return
		}
		a, b := w.at[i], w.at[i^1]
		i, to = i/2, wake{min(a.wall, b.wall), min(a.mono, b.mono)}
	}
}

func (w *wakes) first() (wall, mono int64) { return w.at[1].wall, w.at[1].mono }

// due is the first thing from a number on that is due.
func (w *wakes) due(from int, now clock.Time) (int, bool) {
	if from >= w.leaves {
		return 0, false
	}
	i := from + w.leaves
	for !w.at[i].due(now) { // to the next subtree on the right
		for i&1 == 1 {
			if i /= 2; i <= 1 {
				return 0, false
			}
		}
		i++
	}
	for i < w.leaves { // down to its first leaf that is due
		if i *= 2; !w.at[i].due(now) {
			i++
		}
	}
	return i - w.leaves, true
}
