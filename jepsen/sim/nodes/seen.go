package nodes

import (
	"iter"

	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/disk"
	"github.com/norn-dev/norn/jepsen/sim/witness"
	"github.com/norn-dev/norn/register"
)

// outside is a fleet as a witness sees it.
type outside struct{ f *Fleet }

// Seen is the cluster as a witness sees it.
func (f *Fleet) Seen() witness.Fleet { return outside{f} }

// Look is how it is now.
func (o outside) Look() witness.Look {
	return witness.Look{
		Now: o.f.S.Now, Partitions: o.f.S.Plan.Partitions, Forming: o.f.Forming, Lossy: o.f.S.Lossy, Found: o.f.S.Found != nil,
		Cells: o.f.Cells, Moved: o.f.Moved,
	}
}

// Nodes are those that have a disk.
func (o outside) Nodes() iter.Seq[witness.Node] {
	return func(yield func(witness.Node) bool) {
		for _, n := range o.f.Nodes {
			if n.Disk != nil && !yield(seenNode{n}) {
				return
			}
		}
	}
}

// Find gives the node that is a member; nil: there is none.
func (o outside) Find(m register.Member) witness.Node {
	if n := o.f.Find(m); n != nil && n.Self == m {
		return seenNode{n}
	}
	return nil
}

// Believed are the claims that workers have.
func (o outside) Believed() iter.Seq[witness.Claim] {
	return o.f.Believed
}

// Violation stops the run.
func (o outside) Violation(invariant, format string, args ...any) {
	o.f.S.Violation(invariant, format, args...)
}

// Record adds to the history.
func (o outside) Record(e *history.Event) { o.f.S.Record(e) }

// seenNode is a node as a witness sees it.
type seenNode struct{ n *Node }

// String names it.
func (n seenNode) String() string { return n.n.String() }

// Self is the node as others know it.
func (n seenNode) Self() register.Member { return n.n.Self }

// Disk is its disk.
func (n seenNode) Disk() *disk.Disk { return n.n.Disk }

// Known is the register as it knows it.
func (n seenNode) Known() (s register.State, alone bool) {
	if n.n.Peers == nil {
		return s, true
	}
	return n.n.Peers.State(), false
}
