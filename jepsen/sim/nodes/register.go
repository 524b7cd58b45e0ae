package nodes

import (
	"slices"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/witness"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/group"
	"github.com/norn-dev/norn/ring"
)

// agreed: what one member has applied of the register's log is the same entry on
// every other, which its index and term tell.
func (f *Fleet) agreed(n *Node) {
	index, term := group.Applied(n.Peers.Machine)
	if index == 0 {
		return // it waits for a snapshot
	}
	if before, known := f.applied[index]; known && before != term {
		f.S.Violation(check.Register, "%shas applied entry %d of the register of term %d, another node that of term %d", n, index, term, before)
	}
	f.applied[index] = term
}

// learned notes what the register says, as a node has just heard.
func (f *Fleet) learned(n *Node, state *register.State) {
	if state.Revision <= f.seen {
		return
	}
	f.seen = state.Revision
	if len(f.Cells) == len(state.Cells) {
		for p := range state.Cells {
			f.changed(ring.Partition(p), &f.Cells[p], &state.Cells[p])
			if f.Witness != nil {
				f.Witness.Changed(ring.Partition(p), &f.Cells[p], &state.Cells[p])
			}
		}
	}
	if f.replicas != 0 && f.replicas != state.Cluster.Replicas {
		s := f.S
		s.Stats[stats.Resizes]++
		s.Note("%d replicas, and before %d", state.Cluster.Replicas, f.replicas)
	}
	f.Cells, f.Records, f.replicas = state.Cells, state.Nodes, state.Cluster.Replicas
}

// changed counts what a change of a cell was about.
func (f *Fleet) changed(p ring.Partition, old, now *register.Cell) {
	s := f.S
	if old.Same(now) {
		return
	}
	f.Leaders.Leads(p, now)
	f.Moved[p] = s.Now
	for _, m := range now.Cohort {
		if !slices.Contains(old.Cohort, m) {
			s.Stats[stats.Moves]++
			f.gets(p, now, m)
		}
	}
	if old.Leader != now.Leader && old.Leader != (register.Member{}) {
		s.Stats[stats.Leaders]++
	}
	if s.Tracing {
		s.Note("partition %d: epoch %d led by %s, %s", p, now.Epoch, now.Leader.Node, witness.Names(now.Cohort))
	}
}

// gets checks that no partition is given to a node that is no member any more.
func (f *Fleet) gets(p ring.Partition, now *register.Cell, who register.Member) {
	before := register.State{Nodes: f.Records}
	if n, known := before.Find(who); known && n.Status == register.Removed {
		f.S.Violation(check.Register, "partition %d: epoch %d gives it to %s, which was removed before", p, now.Epoch, who.Node)
	}
}

// Asks sees a node ask for cells.
func (f *Fleet) Asks(n *Node, q *register.Request) {
	for i := range q.Changes {
		f.Harm.Seeks(&q.Changes[i])
		if err := f.Leaders.Asks(seenNode{n}, &q.Changes[i]); err != nil {
			f.S.Violation(run.Audit, "%v", err)
			return
		}
	}
}
