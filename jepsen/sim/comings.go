package sim

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// maxNodes bounds how many nodes there ever are in a run.
const maxNodes = 9

// change has a node come, leave, or be removed while it is down.
func (f nemesis) change() {
	s := f.s
	few := len(f.members()) <= max(3, f.size-1)
	switch k := s.Rnd.IntN(3); {
	case k == 0:
		f.grow()
	case k == 1 && !few:
		f.leave(world.Pick(&s.World, f.members()))
	case k == 2 && !few:
		if n := f.victim(); n != nil {
			s.note("%sdies, and is removed", n)
			s.stats[stats.Removals]++
			n.away = true
			state := n.peers.state()
			for _, o := range f.alive() { // the node may have joined just now, and know nothing yet
				if s := o.peers.state(); s.Revision > state.Revision {
					state = s
				}
			}
			n.crash()
			for i := range state.Nodes { // also what it was before, if that is not replaced yet
				if state.Nodes[i].Node == n.self.Node {
					f.status(state.Nodes[i].Member, register.Removed)
				}
			}
		}
	}
}

// grow has one more node join.
func (f nemesis) grow() {
	if len(f.nodes) >= maxNodes || f.s.healing || f.size > 0 && len(f.members()) > f.size {
		return
	}
	n := f.add()
	f.s.plan.Cluster.Nodes++
	f.s.stats[stats.Added]++
	f.watch(n)
	f.join(n)
}

// leave has a node leave; when it is out it is stopped.
func (f nemesis) leave(n *node) {
	s := f.s
	if !n.up || len(f.cells) == 0 {
		return
	}
	s.note("%sis to leave", n)
	s.stats[stats.Left]++
	n.leaving = true
	f.status(n.self, register.Leaving)
	f.farewell(n)
	if f.s.plan.Grace < time.Hour {
		s.After(s.Between(10*time.Millisecond, 2*time.Second), func() {
			if n.up && f.votes(n) && f.held(n) { // for longer than a partition may be without a leader
				s.note("%swill be away for longer than anything is remembered", n)
				n.asleep = s.plan.Retention + 2*s.plan.Grace
				n.crash()
			}
		})
	}
}

// early changes the number of replicas while the cluster forms.
func (f nemesis) early() {
	if s := f.s; s.plan.Cluster.Resize > 0 {
		s.After(s.Between(2*time.Second, 6*time.Second), f.resize)
	}
}

// resize has an operator set another number of replicas, if what a node has heard is
// what the register says.
func (f nemesis) resize() {
	s := f.s
	by := world.Pick(&s.World, f.nodes)
	if !by.up || s.healing {
		return
	}
	least, most := s.plan.Cluster.Replicas()
	was, to := by.peers.state().Cluster.Replicas, least+s.Rnd.IntN(most-least+1)
	if was == 0 || was == to {
		return
	}
	s.note("%sis asked for %d replicas, and there are %d", by, to, was)
	by.peers.do(register.Request{Replicas: &register.ReplicasChange{Old: was, New: to}}, func(register.Result) {})
}

// farewell stops a node that was removed and has nothing left.
func (f nemesis) farewell(n *node) {
	s := f.s
	s.After(time.Second, func() {
		out := false
		if n.up { // as node.Left: a change of voters may still need its vote
			st := n.peers.machine.Status()
			if st.Refused != group.RemovedNode && (slices.Contains(st.Voters, n.self) || slices.Contains(st.Outgoing, n.self)) {
				f.farewell(n)
				return
			}
		} else if !f.votes(n) { // the register needs it: whoever runs it starts it again
			f.farewell(n)
			return
		}
		for _, o := range f.alive() {
			state := o.peers.state()
			record, known := state.Find(n.self)
			out = out || known && record.Status == register.Removed
		}
		for p := range s.plan.Partitions {
			p := ring.Partition(p)
			// What came too late to be handed over stays on its disk (K8): it is to be
			// elsewhere, too.
			out = out && !vnode.Dropping(n.disk, p) && (vnode.Empty(n.disk, p) || f.spare(n))
		}
		if !out {
			f.farewell(n)
			return
		}
		s.note("%shas left", n)
		n.away = true
		if n.up {
			n.stop()
		}
	})
}

// tidy has an operator remove the records of those who asked to join and lost
// their disks before they came: nobody else does.
func (f nemesis) tidy() {
	if len(f.alive()) == 0 {
		return
	}
	state := f.alive()[0].peers.state()
	for i := range state.Nodes {
		r := &state.Nodes[i]
		if n := f.find(r.Member); r.Status == register.Joining && (n == nil || n.self != r.Member) {
			f.status(r.Member, register.Removed)
		}
	}
}

// status writes the status of a node into the register, and insists.
func (f nemesis) status(m register.Member, to register.NodeStatus) {
	s := f.s
	again := func() { s.After(s.About(time.Second), func() { f.status(m, to) }) }
	by := world.Pick(&s.World, f.nodes)
	if !by.up || by.self == m {
		again()
		return
	}
	state := by.peers.state()
	record, known := state.Find(m)
	switch {
	case known && record.Status == to || known && record.Status == register.Removed:
		return
	case !known || to == register.Leaving && record.Status != register.Active:
		again()
		return
	}
	old := record.Version
	record.Status = to
	by.peers.do(register.Request{Nodes: []register.NodeChange{{Old: old, New: record}}}, func(register.Result) {})
	s.After(6*time.Second, func() { f.status(m, to) })
}
