package sim

import (
	"iter"

	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/disk"
	"github.com/norn-dev/norn/jepsen/sim/witness"
	"github.com/norn-dev/norn/register"
)

// outside is a fleet as a witness sees it.
type outside struct{ *fleet }

// Look is how it is now.
func (o outside) Look() witness.Look {
	return witness.Look{
		Now: o.s.Now, Partitions: o.s.plan.Partitions, Forming: o.forming, Lossy: o.lossy, Found: o.s.found != nil,
		Cells: o.cells, Moved: o.moved,
	}
}

// Nodes are those that have a disk.
func (o outside) Nodes() iter.Seq[witness.Node] {
	return func(yield func(witness.Node) bool) {
		for _, n := range o.nodes {
			if n.disk != nil && !yield(seenNode{n}) {
				return
			}
		}
	}
}

// Find gives the node that is a member; nil: there is none.
func (o outside) Find(m register.Member) witness.Node {
	if n := o.find(m); n != nil && n.self == m {
		return seenNode{n}
	}
	return nil
}

// Believed are the claims that workers have.
func (o outside) Believed() iter.Seq[witness.Claim] {
	return func(yield func(witness.Claim) bool) {
		for _, w := range o.s.workers {
			for _, j := range w.jobs {
				if !yield(witness.Claim{Task: j.task, Token: j.token, Until: j.until, Over: j.over}) {
					return
				}
			}
		}
	}
}

// Violation stops the run.
func (o outside) Violation(invariant, format string, args ...any) {
	o.s.violation(invariant, format, args...)
}

// Record adds to the history.
func (o outside) Record(e *history.Event) { o.s.record(e) }

// seenNode is a node as a witness sees it.
type seenNode struct{ *node }

// Self is the node as others know it.
func (n seenNode) Self() register.Member { return n.self }

// Disk is its disk.
func (n seenNode) Disk() *disk.Disk { return n.disk }

// Known is the register as it knows it.
func (n seenNode) Known() (s register.State, alone bool) {
	if n.peers == nil {
		return s, true
	}
	return n.peers.state(), false
}
