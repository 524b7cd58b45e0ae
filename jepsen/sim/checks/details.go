package checks

import (
	"fmt"

	"github.com/norn-dev/norn/jepsen/sim/witness"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Facts are those of a task on every node, for people.
func (f *Ending) Facts(task id.ID) (lines []string) {
	p := ring.Of(task, f.s.Plan.Partitions)
	if len(f.Cells) > int(p) {
		c := &f.Cells[p]
		lines = append(lines, fmt.Sprintf("partition %d: epoch %d led by %s, %s", p, c.Epoch, c.Leader.Node, witness.Names(c.Cohort)))
	}
	for _, n := range f.Nodes {
		if n.Disk == nil {
			continue // it has not joined yet
		}
		line := n.String()
		all, err := vnode.Facts(n.Disk, p, task)
		for i := range all {
			line += " " + factText(&all[i])
		}
		if d, e := vnode.ReadTask(n.Disk, p, task, vnode.ReadOptions{}); e == nil {
			line += fmt.Sprintf(" = %v", d.State)
		}
		if err != nil {
			line += " " + err.Error()
		}
		lines = append(lines, line)
	}
	return lines
}

// Roll is what each node makes of the cluster, for people.
func (f *Ending) Roll() (lines []string) {
	for _, n := range f.Nodes {
		if !n.Up {
			lines = append(lines, fmt.Sprintf("%sdown, away: %v", n, n.Away))
			continue
		}
		st, state := n.Peers.Machine.Status(), n.Peers.State()
		line := fmt.Sprintf("%s%x revision %d term %d led by %s, voters %v %v, learners %v, refused %q by %s, sees %v;", n, n.Self.Incarnation[:2], state.Revision,
			st.Term, st.Leader.Node, witness.Names(st.Voters), witness.Names(st.Outgoing), witness.Names(st.Learners), st.Refused, st.RefusedBy.Node, witness.Names(n.Peers.Up))
		for i := range state.Nodes {
			line += fmt.Sprintf(" %s/%x %v", state.Nodes[i].Node, state.Nodes[i].Incarnation[:2], state.Nodes[i].Status)
		}
		lines = append(lines, line)
	}
	return append(lines, f.keepers()...)
}

// keepers is who keeps and leads each partition, as one node knows it.
func (f *Ending) keepers() (lines []string) {
	alive := f.Alive()
	if len(alive) == 0 {
		return nil
	}
	state := alive[0].Peers.State()
	for p := range state.Cells {
		c, line := &state.Cells[p], ""
		for _, m := range c.Cohort {
			r, _ := state.Find(m)
			if line += fmt.Sprintf(" %s/%x", m.Node, m.Incarnation[:2]); r.Status != register.Active {
				line += " " + r.Status.String()
			}
			if n := f.Find(m); n != nil && n.Up && n.Self == m {
				line += fmt.Sprintf(" promised %d", core.Promised(n.Core, ring.Partition(p)))
				if core.Leads(n.Core, ring.Partition(p)) {
					line += " leads"
				}
				if err := core.Forgotten(n.Core); err != nil {
					line += ", stands aside"
				}
			}
		}
		lines = append(lines, fmt.Sprintf("partition %d: epoch %d led by %s, kept by%s", p, c.Epoch, c.Leader.Node, line))
	}
	return lines
}

// factText is a fact as people read it.
func factText(f *crdt.Fact) string {
	what, at := fmt.Sprintf("kind(%d)", f.Key.Kind), ""
	switch f.Key.Kind {
	case crdt.KindEnqueued:
		what = "enqueued"
	case crdt.KindUpdate:
		what = "update"
	case crdt.KindCompleted:
		what = "completed"
	case crdt.KindCancelled:
		what = "cancelled"
	case crdt.KindFailed:
		what = "failed"
	case crdt.KindExpired:
		what = "expired"
	case crdt.KindDead:
		what = "dead"
	case crdt.KindRequeued:
		what = "requeued"
		if r, err := crdt.DecodeRequeued(f.Body); err == nil {
			at = fmt.Sprintf(":%+v", r)
		}
	}
	return fmt.Sprintf("%s(%x,%x%s)", what, f.Key.A, f.Key.B, at)
}
