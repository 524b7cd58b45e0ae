package placement

import (
	"bytes"
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Copy is a partition that a newcomer is to copy.
type Copy struct {
	Partition ring.Partition
	// From are the members to copy from, the best first: living ones, then
	// those of the newcomer's zone, then those that do not lead, then by a
	// hash that spreads newcomers over them.
	From []register.Member
	// Need is how many of From the newcomer must have compared with before it
	// has everything; see [View.Copied]. With fewer in From it is stuck.
	Need int
	// Turn says that no other living newcomer of the partition comes before
	// this one: partitions gain their members one after another.
	Turn bool
	// Living is how many of the cohort live: the fewer, the more urgent.
	Living int
}

// Stuck says that too few holders are left; see the package comment.
func (c *Copy) Stuck() bool { return len(c.From) < c.Need }

// newcomer says that a member is to copy a partition.
func (v *View) newcomer(p ring.Partition, m register.Member) bool {
	cell := v.cell(p)
	return len(cell.Cohort) > 0 && slices.Contains(v.Planned(p), m) && !slices.Contains(cell.Cohort, m) &&
		v.standing[m].Status == register.Active
}

// Copy says whether self is to copy a partition, and from whom: it is planned,
// an active node, and not in the cohort yet.
func (v *View) Copy(p ring.Partition, self register.Member) (c Copy, ok bool) {
	if !v.newcomer(p, self) {
		return Copy{}, false
	}
	cell := v.cell(p)
	n, left := holders(cell.Cohort, v.Standing)
	if n == 0 {
		return Copy{}, false // all are given up: it begins anew
	}
	c = Copy{Partition: p, Need: need(n, left), Turn: true}
	for _, m := range cell.Cohort {
		s := v.standing[m]
		if s.Alive {
			c.Living++
		}
		if !s.Gone() {
			c.From = append(c.From, m)
		}
	}
	leader, _ := Leading(cell)
	zone := v.standing[self].Zone
	slices.SortStableFunc(c.From, func(a, b register.Member) int {
		sa, sb := v.standing[a], v.standing[b]
		return cmp.Or(
			first(sa.Alive, sb.Alive), first(sa.Zone == zone, sb.Zone == zone), first(a != leader, b != leader),
			cmp.Compare(mix(p, self, a), mix(p, self, b)))
	})
	for _, m := range v.Planned(p) {
		if m == self {
			break
		}
		if v.standing[m].Alive && v.newcomer(p, m) {
			c.Turn = false
		}
	}
	return c, true
}

// Coming gives the living newcomers of the partitions that self keeps.
func (v *View) Coming(self register.Member) (all []register.Member) {
	for p := range v.state.Cells {
		if !slices.Contains(v.state.Cells[p].Cohort, self) {
			continue
		}
		for _, m := range v.Planned(ring.Partition(p)) {
			if v.isAlive(m) && v.newcomer(ring.Partition(p), m) && !slices.Contains(all, m) {
				all = append(all, m)
			}
		}
	}
	return all
}

// first orders what is so before what is not.
func first(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// mix spreads newcomers over the members that they copy from.
func mix(p ring.Partition, self, from register.Member) uint64 {
	b := append([]byte{byte(p >> 8), byte(p)}, self.Incarnation[:]...)
	return xxhash.Sum64(append(b, from.Incarnation[:]...))
}

// Copies gives all partitions that self is to copy, the most urgent first:
// those whose turn it is, then those of which fewest members live.
func (v *View) Copies(self register.Member) []Copy {
	var out []Copy
	for p := range v.state.Cells {
		if c, ok := v.Copy(ring.Partition(p), self); ok {
			out = append(out, c)
		}
	}
	slices.SortStableFunc(out, func(a, b Copy) int {
		return cmp.Or(first(a.Turn, b.Turn), cmp.Compare(a.Living, b.Living))
	})
	return out
}

// need is how many of n holders, so many of which are left, a newcomer compares
// with: a majority, for a cohort of even size may just have lost a member that
// had acknowledged with a majority before; Enough where a majority is not left.
func need(n, left int) int { return max(Enough(n), min(quorum.Majority(n), left)) }

// Copied says whether a newcomer that has compared the partition with these
// members has everything, so that it may ask for its admission. Members that
// are not in the cohort do not count.
func (v *View) Copied(p ring.Partition, with []register.Member) bool {
	cohort, have := v.cell(p).Cohort, 0
	for _, m := range cohort {
		if !v.standing[m].Lost && slices.Contains(with, m) {
			have++
		}
	}
	n, left := holders(cohort, v.Standing)
	return n > 0 && (have >= need(n, left) || mutant.CopiedEarly.On() && have > 0)
}

// NodeProgress is what is left to do for one node.
type NodeProgress struct {
	Member register.Member
	// In is how many partitions it is to copy, Out in how many cohorts it is
	// without being planned.
	In, Out int
}

// Progress is how far the cells are from the plan.
type Progress struct {
	// Copies is how many pairs of partition and newcomer are left.
	Copies int
	// Stuck is how many partitions have too few holders left, whether somebody is to
	// copy them or not: without a newcomer those that are gone stay in their cohorts.
	Stuck int
	// Nodes are those with something left to do, by name and incarnation.
	Nodes []NodeProgress
}

// Progress says how far the cells are from the plan.
func (v *View) Progress() Progress {
	var out Progress
	nodes := map[register.Member]*NodeProgress{}
	of := func(m register.Member) *NodeProgress {
		n := nodes[m]
		if n == nil {
			n = &NodeProgress{Member: m}
			nodes[m] = n
		}
		return n
	}
	for i := range v.state.Cells {
		p, cell := ring.Partition(i), &v.state.Cells[i]
		planned := v.Planned(p)
		if len(cell.Cohort) == 0 || len(planned) == 0 {
			continue
		}
		for _, m := range planned {
			if !slices.Contains(cell.Cohort, m) {
				out.Copies++
				of(m).In++
			}
		}
		for _, m := range cell.Cohort {
			if !slices.Contains(planned, m) && !v.Standing(m).Lost { // nobody waits for what is given up
				of(m).Out++
			}
		}
		if n, have := holders(cell.Cohort, v.Standing); have < Enough(n) {
			out.Stuck++
		}
	}
	for _, n := range nodes { // Any order: they are sorted below.
		out.Nodes = append(out.Nodes, *n)
	}
	slices.SortFunc(out.Nodes, func(a, b NodeProgress) int {
		return cmp.Or(cmp.Compare(a.Member.Node, b.Member.Node), bytes.Compare(a.Member.Incarnation[:], b.Member.Incarnation[:]))
	})
	return out
}
