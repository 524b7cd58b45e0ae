package repair

import (
	"maps"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// urgent are comparisons that somebody has asked for: they do not wait for their
// turn.
type urgent struct {
	// Invariant: waits has exactly the pairs of todo, each once: a pair that is asked for a
	// hundred times is compared once (Audit).
	todo  []message.Pair
	waits map[message.Pair]bool // those in todo
	going map[message.Pair]bool
}

// add notes a comparison, once.
func (u *urgent) add(k message.Pair) {
	if u.waits == nil {
		u.waits = make(map[message.Pair]bool)
	}
	if !u.waits[k] {
		u.waits[k], u.todo = true, append(u.todo, k)
	}
}

// Hasten has this node's comparisons of some partitions done at once, and gives
// how many they are with nodes in reach; a dry run counts them only. Those that
// are under way count from their beginning.
func (r *Machine) Hasten(now clock.Time, about []ring.Partition, dry bool) (asked int) {
	want := make(map[ring.Partition]bool, len(about))
	for _, p := range about {
		want[p] = true
	}
	for _, e := range r.Roots.All() {
		if !e.Begins || !want[e.Partition] || !r.env.View.Up(e.Peer) {
			continue
		}
		asked++
		if !dry {
			r.urgent.add(e.Pair)
		}
	}
	if asked > 0 && !dry {
		r.at = now.Mono
	}
	return asked
}

// Demand has a partition compared at once with all of its cohort that are in reach, by
// this node also where it is the other one's turn to begin.
func (r *Machine) Demand(now clock.Time, p ring.Partition) {
	for _, m := range r.env.View.Cells[p].Cohort {
		k := message.Pair{Partition: p, Peer: m}
		if m != r.env.Self && r.env.View.Up(m) && !r.urgent.going[k] {
			r.urgent.add(k)
			r.at = now.Mono
		}
	}
}

// hurry begins what somebody has asked for.
func (r *Machine) hurry(now clock.Time) {
	u := &r.urgent
	for len(u.todo) > 0 {
		if up, _ := r.under(); up >= MaxRounds {
			return
		}
		k := u.todo[0]
		u.todo = u.todo[1:]
		delete(u.waits, k)
		if !r.env.View.Up(k.Peer) || vnode.Tree(r.env.Partitions.See(k.Partition)) == nil || !slices.Contains(r.env.View.Cells[k.Partition].Cohort, k.Peer) {
			r.Failed++
			continue
		}
		if u.going == nil {
			u.going = make(map[message.Pair]bool)
		}
		u.going[k] = true
		if i := r.initiator(k, r.cfg); !i.Busy() {
			r.begun = append(r.begun, k)
			r.start(now, k, i)
		}
	}
}

// ended notes that a comparison is over: there is room for the next one.
func (u *urgent) ended(k message.Pair) (more bool) {
	delete(u.going, k)
	return len(u.todo) > 0
}

// drop leaves out a partition that is not kept here any more.
func (u *urgent) drop(p ring.Partition) {
	gone := func(k message.Pair) bool { return k.Partition == p }
	u.todo = slices.DeleteFunc(u.todo, gone)
	maps.DeleteFunc(u.waits, func(k message.Pair, _ bool) bool { return gone(k) })
	maps.DeleteFunc(u.going, func(k message.Pair, _ bool) bool { return gone(k) })
}

// Status is how far the comparisons of this node are.
func (r *Machine) Status(clashes uint64) *nornv1.RepairStatus {
	return &nornv1.RepairStatus{
		Left: uint32(len(r.urgent.todo) + len(r.urgent.going)), Compared: r.Well + r.Roots.Equal, Failed: r.Failed, FactsMoved: r.moved, Clashes: clashes,
	}
}
