package view

import (
	"slices"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// View is what a node knows of its cluster.
type View struct {
	// Self is this node in this incarnation.
	Self register.Member
	// Cells are those of all partitions, each in its newest epoch known.
	// Invariant: the epoch of a cell only goes up.
	Cells []register.Cell
	// State is the register's newest state that was seen.
	State register.State
	// Joined says that the register has said something, Current that it has answered this
	// process: what is known of it is no older than that.
	Joined, Current bool
	// Leads says that this node's member leads the register's group.
	Leads bool
	// Dismissed: this node is no member any more, and hears of no cohort.
	Dismissed bool

	// Members are the others in reach, as the edge has told last, Clients where clients reach
	// nodes. Nothing here depends on the addresses.
	Members []register.Member
	Clients map[register.Member]string
	// Voters are the members of the register's group, Outgoing those that voted before and
	// still have to agree. Majority says that it has a leader. VoterChanges goes up with them.
	Voters, Outgoing []register.Member
	Majority         bool
	VoterChanges     uint64

	// Alone: this node keeps and leads everything there is, or nobody else is known. Holder:
	// it keeps every partition. Whole: and so does everybody else who keeps one.
	Alone, Holder, Whole bool
	// Young: so many copies every partition is to have before tasks are taken; 0: they are.
	Young int
	// Expected: with so many nodes a cluster is being made; 0: it has been.
	Expected int
	// Changes goes up when cells or hints change.
	Changes uint64
	// Arriving are the partitions that this node is to keep and does not yet.
	Arriving map[ring.Partition]bool
	// Coming are the members in reach that are to keep a partition with this node and do not yet.
	Coming []register.Member
	// Dropping are the partitions that are being deleted here.
	Dropping map[ring.Partition]bool

	own     bool // Cells is this view's alone, not that of a state
	alive   map[register.Member]bool
	removed map[register.Member]bool // of those, who is no member any more and serves nobody
}

// New is the view of a node that knows of nobody else.
func New(self register.Member, partitions int) *View {
	return &View{
		Self: self, Cells: make([]register.Cell, partitions), Alone: true, Holder: true, Whole: true,
		own: true, alive: make(map[register.Member]bool), Dropping: make(map[ring.Partition]bool),
	}
}

// Take takes over each cell that is not older than the one known, and gives those that were
// known before. The state's own cells are taken where it has none that is older, as most
// often: they do not change.
func (v *View) Take(cells []register.Cell) (before []register.Cell) {
	before = v.Cells
	older := false
	for p := range cells {
		older = older || cells[p].Epoch < before[p].Epoch
	}
	if !older {
		v.Cells, v.own = cells, false
		return before
	}
	v.Cells, v.own = slices.Clone(before), true
	for p := range cells {
		if cells[p].Epoch >= before[p].Epoch {
			v.Cells[p] = cells[p]
		}
	}
	return before
}

// Set changes one cell.
func (v *View) Set(p ring.Partition, cell register.Cell) {
	if !v.own {
		v.Cells, v.own = slices.Clone(v.Cells), true
	}
	v.Cells[p] = cell
}

// Look works out what follows from the cells after they have changed.
func (v *View) Look() {
	v.Changes++
	v.Alone, v.Holder, v.Whole = true, true, true
	for p := range v.Cells {
		cohort := v.Cells[p].Cohort
		for _, m := range cohort {
			v.Whole = v.Whole && slices.Contains(v.Cells[0].Cohort, m)
		}
		v.Whole = v.Whole && len(cohort) == len(v.Cells[0].Cohort)
		holds := slices.Contains(cohort, v.Self)
		v.Holder = v.Holder && holds
		v.Alone = v.Alone && (holds && len(cohort) == 1)
	}
	v.Whole = v.Whole && v.Holder
}

// Keep takes a state of the register over unless it is older than the one known.
func (v *View) Keep(s *register.State) {
	if s.Revision >= v.State.Revision || s.Generation > v.State.Generation {
		v.State = *s
	}
}

// Hear takes over who is in reach, and gives those who were not.
func (v *View) Hear(members []register.Member) (returned []register.Member) {
	v.Changes++
	for _, m := range members {
		if !v.alive[m] {
			returned = append(returned, m)
		}
	}
	clear(v.alive)
	for _, m := range members {
		v.alive[m] = true
	}
	return returned
}

// Retire notes who of those in reach was removed: they hand over what they have, and
// refuse all else, whatever a cell says of them.
func (v *View) Retire() {
	v.removed = nil
	for i := range v.State.Nodes {
		if n := &v.State.Nodes[i]; n.Status == register.Removed && v.alive[n.Member] {
			if v.removed == nil {
				v.removed = make(map[register.Member]bool)
			}
			v.removed[n.Member] = true
		}
	}
}

// Up tells whether a node is thought to be reachable. It is a hint.
func (v *View) Up(m register.Member) bool { return m == v.Self || v.alive[m] }

// Alive gives the others that are thought to be reachable.
func (v *View) Alive() map[register.Member]bool { return v.alive }

// Serves tells whether a node in reach takes requests.
func (v *View) Serves(m register.Member) bool { return v.Up(m) && !v.removed[m] }

// Company tells whether there is another node, if only one that joins.
func (v *View) Company() bool {
	return slices.ContainsFunc(v.State.Nodes, func(n register.Node) bool {
		return n.Member != v.Self && n.Status != register.Removed
	})
}

// Deleting tells whether a partition is being deleted: what came into it now would
// be deleted as well.
func (v *View) Deleting(p ring.Partition) bool { return v.Dropping[p] }

// Elsewhere tells whether a partition is not kept here, or not any longer.
func (v *View) Elsewhere(p ring.Partition) bool { return v.elsewhere(p, &v.Cells[p]) }

func (v *View) elsewhere(p ring.Partition, cell *register.Cell) bool {
	return v.Deleting(p) || len(cell.Cohort) > 0 && !slices.Contains(cell.Cohort, v.Self)
}

// Left tells whether a partition is kept by others now, and was not by its cell of before.
func (v *View) Left(p ring.Partition, before *register.Cell) bool {
	return !before.Same(&v.Cells[p]) && !v.elsewhere(p, before) && v.Elsewhere(p)
}
