package witness

import (
	"fmt"
	"iter"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim/disk"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Fleet is a cluster as it is seen from outside.
type Fleet interface {
	// Look is how it is now.
	Look() Look
	// Nodes are those that there are or were and that have a disk. Find gives the one that is a member;
	// nil: there is none.
	Nodes() iter.Seq[Node]
	Find(m register.Member) Node
	// Believed are the claims that workers have.
	Believed() iter.Seq[Claim]
	// Violation stops the run: an invariant is broken.
	Violation(invariant, format string, args ...any)
	// Record adds to the history.
	Record(e *history.Event)
}

// Look is what a cluster is at one time. Its slices and maps are those of the cluster, to be read only.
type Look struct {
	Now        int64 // true time, ns
	Partitions int   // how many there are
	// Forming says that the cluster is not whole for the first time yet, Lossy that disks get lost in this
	// run, Found that the run has stopped at a violation.
	Forming, Lossy, Found bool
	// Cells are those of the newest register that any node has seen, by partition; none at first. Moved
	// is since when the cell of a partition is as it is, true time; of those that have changed.
	Cells []register.Cell
	Moved map[ring.Partition]int64
}

// Node is one of them. Its text begins a line of a log.
type Node interface {
	fmt.Stringer
	Self() register.Member
	Disk() *disk.Disk
	// Known is the register as this node knows it; alone it has no other one.
	Known() (s register.State, alone bool)
}

// Claim is what a worker believes to have.
type Claim struct {
	Task  id.ID
	Token uint64
	Until int64 // true time
	Over  bool  // the worker knows that it has ended
}

// Names are those of members, for people.
func Names(members []register.Member) (all []string) {
	for _, m := range members {
		all = append(all, m.Node)
	}
	return all
}
