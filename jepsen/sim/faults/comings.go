package faults

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/sim/nodes"
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
func (f *Nemesis) change() {
	s := f.s
	few := len(f.members()) <= max(3, f.Size-1)
	switch k := s.Rnd.IntN(3); {
	case k == 0:
		f.Grow()
	case k == 1 && !few:
		f.Leave(world.Pick(&s.World, f.members()))
	case k == 2 && !few:
		if n := f.victim(); n != nil {
			s.Note("%sdies, and is removed", n)
			s.Stats[stats.Removals]++
			n.Away = true
			state := n.Peers.State()
			for _, o := range f.Alive() { // the node may have joined just now, and know nothing yet
				if s := o.Peers.State(); s.Revision > state.Revision {
					state = s
				}
			}
			n.Crash()
			for i := range state.Nodes { // also what it was before, if that is not replaced yet
				if state.Nodes[i].Node == n.Self.Node {
					f.status(state.Nodes[i].Member, register.Removed)
				}
			}
		}
	}
}

// Grow has one more node join.
func (f *Nemesis) Grow() {
	if len(f.Nodes) >= maxNodes || f.s.Healing || f.Size > 0 && len(f.members()) > f.Size {
		return
	}
	n := f.Add()
	f.s.Plan.Cluster.Nodes++
	f.s.Stats[stats.Added]++
	f.Watch(n)
	f.Join(n)
}

// Leave has a node leave; when it is out it is stopped.
func (f *Nemesis) Leave(n *nodes.Node) {
	s := f.s
	if !n.Up || len(f.Cells) == 0 {
		return
	}
	s.Note("%sis to leave", n)
	s.Stats[stats.Left]++
	n.Leaving = true
	f.status(n.Self, register.Leaving)
	f.farewell(n)
	if f.s.Plan.Grace < time.Hour {
		s.After(s.Between(10*time.Millisecond, 2*time.Second), func() {
			if n.Up && f.votes(n) && f.held(n) { // for longer than a partition may be without a leader
				s.Note("%swill be away for longer than anything is remembered", n)
				n.Asleep = s.Plan.Retention + 2*s.Plan.Grace
				n.Crash()
			}
		})
	}
}

// Early changes the number of replicas while the cluster forms.
func (f *Nemesis) Early() {
	if s := f.s; s.Plan.Cluster.Resize > 0 {
		s.After(s.Between(2*time.Second, 6*time.Second), f.resize)
	}
}

// resize has an operator set another number of replicas, if what a node has heard is
// what the register says.
func (f *Nemesis) resize() {
	s := f.s
	by := world.Pick(&s.World, f.Nodes)
	if !by.Up || s.Healing {
		return
	}
	least, most := s.Plan.Cluster.Replicas()
	was, to := by.Peers.State().Cluster.Replicas, least+s.Rnd.IntN(most-least+1)
	if was == 0 || was == to {
		return
	}
	s.Note("%sis asked for %d replicas, and there are %d", by, to, was)
	by.Peers.Do(register.Request{Replicas: &register.ReplicasChange{Old: was, New: to}}, func(register.Result) {})
}

// farewell stops a node that was removed and has nothing left.
func (f *Nemesis) farewell(n *nodes.Node) {
	s := f.s
	s.After(time.Second, func() {
		out := false
		if n.Up { // as node.Left: a change of voters may still need its vote
			st := n.Peers.Machine.Status()
			if st.Refused != group.RemovedNode && (slices.Contains(st.Voters, n.Self) || slices.Contains(st.Outgoing, n.Self)) {
				f.farewell(n)
				return
			}
		} else if !f.votes(n) { // the register needs it: whoever runs it starts it again
			f.farewell(n)
			return
		}
		for _, o := range f.Alive() {
			state := o.Peers.State()
			record, known := state.Find(n.Self)
			out = out || known && record.Status == register.Removed
		}
		for p := range s.Plan.Partitions {
			p := ring.Partition(p)
			// What came too late to be handed over stays on its disk (K8): it is to be
			// elsewhere, too.
			out = out && !vnode.Dropping(n.Disk, p) && (vnode.Empty(n.Disk, p) || f.spare(n))
		}
		if !out {
			f.farewell(n)
			return
		}
		s.Note("%shas left", n)
		n.Away = true
		if n.Up {
			n.Stop()
		}
	})
}

// Tidy has an operator remove the records of those who asked to join and lost
// their disks before they came: nobody else does.
func (f *Nemesis) Tidy() {
	if len(f.Alive()) == 0 {
		return
	}
	state := f.Alive()[0].Peers.State()
	for i := range state.Nodes {
		r := &state.Nodes[i]
		if n := f.Find(r.Member); r.Status == register.Joining && (n == nil || n.Self != r.Member) {
			f.status(r.Member, register.Removed)
		}
	}
}

// status writes the status of a node into the register, and insists.
func (f *Nemesis) status(m register.Member, to register.NodeStatus) {
	s := f.s
	again := func() { s.After(s.About(time.Second), func() { f.status(m, to) }) }
	by := world.Pick(&s.World, f.Nodes)
	if !by.Up || by.Self == m {
		again()
		return
	}
	state := by.Peers.State()
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
	by.Peers.Do(register.Request{Nodes: []register.NodeChange{{Old: old, New: record}}}, func(register.Result) {})
	s.After(6*time.Second, func() { f.status(m, to) })
}
