package check

import (
	"fmt"
	"slices"
	"strings"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/history"
)

// look is one cell as a node has shown it.
type look struct {
	process    int
	node       string
	call, back int64
	cell       history.Cell
}

// looked takes in the cells that a node has shown; those of partitions that have
// had no leader yet say nothing.
func (l *Ledger) looked(asked, e *history.Event) {
	if e.Phase != history.OK {
		return
	}
	for _, c := range e.Cells {
		if c.Epoch > 0 {
			l.looks = append(l.looks, look{asked.Process, asked.Text, asked.At, e.At, c})
		}
	}
}

// epochs (I6) holds against each other what all nodes show of the register: an
// epoch of a partition has one leader and one cohort; of two looks at one
// program (after a start it knows what is on its disk), of which one ended before the other began, the later one shows no lower epoch
// than the earlier; and once everything has settled each
// node shows no lower epoch than that of any claim. Judged are the cells that were
// shown.
func (l *Ledger) epochs() Result {
	r := Result{Checker: "epochs", Judged: len(l.looks)}
	type name struct {
		partition int
		epoch     uint64
	}
	type place struct {
		node      string
		partition int
	}
	values, known := map[name]string{}, map[place][]look{}
	for _, k := range l.looks {
		cohort := slices.Sorted(slices.Values(k.cell.Cohort))
		value := fmt.Sprintf("leader %s of %s", k.cell.Leader, strings.Join(cohort, " "))
		n := name{k.cell.Partition, k.cell.Epoch}
		if o, ok := values[n]; ok && o != value {
			r.add(Register, k.back, id.ID{}, "partition %d, epoch %d: %s is shown by %s, and %s was shown before", n.partition, n.epoch, value, k.node, o)
			continue
		}
		values[n] = value
		at := place{k.node, k.cell.Partition}
		known[at] = append(known[at], k)
	}
	last := map[int]uint64{} // the highest epoch of a grant, by partition
	if l.o.Partitions > 0 {
		for _, a := range l.order {
			for _, g := range a.grants {
				p := l.partition(a.id)
				last[p] = max(last[p], g.token>>32)
			}
		}
	}
	for at, all := range known { // Any order: each place is judged alone.
		falls(&r, at.partition, all)
		latest := slices.MaxFunc(all, func(a, b look) int { return int(min(1, max(-1, a.call-b.call))) })
		if latest.cell.Epoch < last[at.partition] && l.settled != never && latest.call >= l.settled {
			r.add(Register, latest.back, id.ID{}, "partition %d: %s shows epoch %d in the end, and a claim was granted in epoch %d",
				at.partition, at.node, latest.cell.Epoch, last[at.partition])
		}
	}
	return r
}

// falls looks for epochs that a node has shown and later does not know.
func falls(r *Result, partition int, all []look) {
	byBack := slices.SortedFunc(slices.Values(all), func(a, b look) int { return int(min(1, max(-1, a.back-b.back))) })
	byCall := slices.SortedFunc(slices.Values(all), func(a, b look) int { return int(min(1, max(-1, a.call-b.call))) })
	top, n := uint64(0), 0
	for _, k := range byCall {
		for ; n < len(byBack) && byBack[n].back < k.call; n++ {
			top = max(top, byBack[n].cell.Epoch)
		}
		if k.cell.Epoch < top {
			r.add(Register, k.back, id.ID{}, "partition %d: %s shows epoch %d at %s, and had shown %d before", partition, k.node, k.cell.Epoch, at(k.back), top)
			return // one is enough for each
		}
	}
}
