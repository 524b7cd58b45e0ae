package placement

import (
	"bytes"
	"slices"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// planned is what the stored plan was found to be right for, so that it is
// worked out again only when the nodes or the plan have changed.
type planned struct {
	nodes []ring.Node
	// replicas is the number that was asked for.
	replicas int
	// from is the version of the stored plan that it was worked out from.
	from uint64
	// data is the plan as worked out; nil when nothing was.
	data []byte
}

// replan works the plan out from the active nodes, and gives the change when
// the stored one differs.
func (d *Driver) replan(now int64) *register.PlanChange {
	v := d.view
	if v.err != nil || d.gathers(now) {
		return nil // left alone
	}
	nodes, replicas := takers(v.state.Nodes), v.state.Cluster.Replicas
	same := d.planned.data != nil && replicas == d.planned.replicas && slices.Equal(nodes, d.planned.nodes)
	if same && bytes.Equal(d.planned.data, v.state.Plan.Data) {
		return nil
	}
	if !same || d.planned.from != v.state.Plan.Version {
		plan, err := ring.Place(inherit(v.plan, nodes), nodes, len(v.state.Cells), replicas)
		if err != nil {
			return nil // nobody takes anything: what is planned stays
		}
		d.planned = planned{nodes: nodes, replicas: replicas, from: v.state.Plan.Version, data: plan.AppendTo(nil)}
	}
	if bytes.Equal(d.planned.data, v.state.Plan.Data) {
		return nil
	}
	return &register.PlanChange{Old: v.state.Plan.Version, Data: d.planned.data}
}

// gathers says that the first plan of a cluster that is being made waits for more of the nodes
// that are expected: no partition begins without a plan. As few as the replicas are waited for
// as long as it takes, as no tasks are taken before; the others for as long as they keep coming.
func (d *Driver) gathers(now int64) bool {
	if d.expected == 0 || len(d.view.state.Plan.Data) > 0 {
		return false
	}
	here, last := 0, int64(0)
	for i := range d.view.state.Nodes {
		n := &d.view.state.Nodes[i]
		if n.Status == register.Active && d.view.isAlive(n.Member) {
			here, last = here+1, max(last, d.health.upSince(n.Member))
		}
	}
	until := last + int64(d.cfg.Gather)
	switch {
	case here >= d.expected:
		return false
	case here < min(d.expected, d.view.state.Cluster.Replicas):
		return true
	case now < until:
		d.at(until)
		return true
	}
	return false
}

// takers are the nodes that shall hold something, in the order of the register.
func takers(nodes []register.Node) []ring.Node {
	var out []ring.Node
	for i := range nodes {
		if n := &nodes[i]; n.Status == register.Active {
			out = append(out, ring.Node{Member: toRing(n.Member), Zone: n.Zone, Weight: min(n.Weight, ring.MaxWeight)})
		}
	}
	return out
}

// inherit puts nodes that have come under the name of another into its place.
func inherit(plan ring.Plan, nodes []ring.Node) ring.Plan {
	members := plan.Members()
	for _, old := range members {
		if slices.ContainsFunc(nodes, func(n ring.Node) bool { return n.Member == old }) {
			continue
		}
		at := slices.IndexFunc(nodes, func(n ring.Node) bool { return n.Name == old.Name })
		if at < 0 {
			continue
		}
		if next, err := plan.Replace(old, nodes[at].Member); err == nil {
			plan = next // otherwise the newcomer is in the plan already
		}
	}
	return plan
}

// Leave gives the change by which a leaving node asks for its own removal: no
// cell and no plan names it any more. It is to ask when it has handed over what
// it has to a majority of each cohort; the driver does not know that and removes
// it after [Config.Linger].
// ok is false while there is something left, and where no active node would
// remain.
func (v *View) Leave(self register.Member) (c register.NodeChange, ok bool) {
	n, known := v.state.Find(self)
	if !known || n.Status != register.Leaving || len(v.spare([]register.Member{self})) == 0 {
		return register.NodeChange{}, false
	}
	return removal(n), true
}

func removal(n register.Node) register.NodeChange {
	old := n.Version
	n.Status = register.Removed
	return register.NodeChange{Old: old, New: n}
}

// spare gives those of the members that no cell and no plan names; none where
// there is no active node: somebody must keep the register.
func (v *View) spare(members []register.Member) []register.Member {
	if !slices.ContainsFunc(v.state.Nodes, func(n register.Node) bool { return n.Status == register.Active }) {
		return nil
	}
	named := map[register.Member]bool{}
	for p := range v.state.Cells {
		for _, m := range v.state.Cells[p].Cohort {
			named[m] = true
		}
	}
	for _, m := range v.members {
		named[m] = true
	}
	return slices.DeleteFunc(members, func(m register.Member) bool { return named[m] })
}

// retire removes the leaving nodes that nothing has named for a while, in which
// they could hand over what they have: they were alive, and a majority of every
// cohort. A dead one waits, for it may have the only copy of something; to give
// that up is an operator's.
func (d *Driver) retire(now int64) []register.NodeChange {
	var leaving []register.Member
	for i := range d.view.state.Nodes {
		if n := &d.view.state.Nodes[i]; n.Status == register.Leaving && d.view.isAlive(n.Member) {
			leaving = append(leaving, n.Member)
		}
	}
	if len(leaving) > 0 {
		leaving = d.view.spare(leaving)
	}
	if len(leaving) > 0 && d.view.Enqueueable().Len() < len(d.view.state.Cells) {
		leaving = nil
	}
	var out []register.NodeChange
	idle := map[register.Member]int64{}
	for _, m := range leaving {
		from, was := d.idle[m]
		if !was {
			from = now
		}
		idle[m] = from
		if over := from + int64(d.cfg.Linger); over > now {
			d.at(over)
			continue
		}
		n, _ := d.view.state.Find(m)
		out = append(out, removal(n))
	}
	d.idle = idle
	return out
}

// abandon gives up nodes that were let in and have not been seen for long while
// they were to copy the register: they have nothing, and a record that nobody
// removes would stay in every list for ever. Who comes later asks anew.
func (d *Driver) abandon(now int64) (out []register.NodeChange) {
	for i := range d.view.state.Nodes {
		n := &d.view.state.Nodes[i]
		p := d.health.of[n.Member]
		if n.Status != register.Joining || p == nil || p.up {
			continue
		}
		if over := p.since + int64(d.cfg.Abandon); over > now {
			d.at(over)
			continue
		}
		out = append(out, removal(*n))
	}
	return out
}
