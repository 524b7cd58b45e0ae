package operator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// maxLost bounds the nodes that one request gives up.
const maxLost = 1024

// remove gives a node up.
func (c *Machine) remove(d *decision, name string, force bool) *proto.Error {
	n, bad := c.find(name)
	if bad != nil {
		return bad
	}
	d.reply.Nodes = []string{n.Node}
	switch {
	case n.Status == register.Removed:
		d.note("node %s was removed already", n.Node)
		return nil
	case n.Status != register.Joining && c.others(n.Member) == 0:
		return refusal.Conflict("node %s is the last member that can hold data, so it cannot be removed", n.Node)
	case n.Status != register.Joining && c.View.Up(n.Member) && !force:
		return refusal.Conflict("node %s is in reach; `norn cluster leave %s` lets it hand over first what it has, --force removes it all the same", n.Node, n.Node)
	}
	d.become(n, register.Removed)
	if stuck := c.newlyStuck(d); len(stuck) > 0 {
		if !force {
			return refusal.Conflict("without node %s too few copies of %s are left to go on (%s): start it again, or --force, and then `norn cluster recover` gives up what only it had", n.Node, partitionsOf(len(stuck)), list(stuck))
		}
		d.reply.Partitions = stuck
		d.note("too few copies of %s are left: they go on after `norn cluster recover --accept-loss`, which gives up what only node %s had, unless it runs by then or later and hands that over", partitionsOf(len(stuck)), n.Node)
	}
	d.note("node %s is removed; what it may still have is taken over should it ever come back", n.Node)
	if n.Status == register.Active {
		c.fewer(d, n.Member)
		c.foresee(d)
	}
	return nil
}

// newlyStuck gives the partitions that a decision leaves with too few holders.
func (c *Machine) newlyStuck(d *decision) (all []uint32) {
	before := c.Transfer.Driver.View()
	next, _, _ := c.View.State.Apply(&d.request)
	after := placement.See(next, c.View.Members)
	for p := range next.Cells {
		if p := ring.Partition(p); after.Stuck(p) && !before.Stuck(p) {
			all = append(all, uint32(p))
		}
	}
	return all
}

func partitionsOf(n int) string {
	if n == 1 {
		return "1 partition"
	}
	return fmt.Sprintf("%d partitions", n)
}

// list names the first of some partitions.
func list(all []uint32) string {
	const most = 8
	text := strings.Trim(fmt.Sprint(all[:min(len(all), most)]), "[]")
	if len(all) > most {
		text += " …"
	}
	return text
}

// replace gives a dead node up and has another one take its place.
func (c *Machine) replace(d *decision, m *nornv1.ReplaceNode) *proto.Error {
	fresh, bad := c.find(m.GetNew())
	if bad != nil {
		return bad
	}
	old, bad := c.find(m.GetOld())
	if bad != nil {
		return bad
	}
	switch {
	case old.Member == fresh.Member:
		return proto.Invalid("node %s cannot replace itself; where both have one name, name them by their incarnations", old.Node)
	case fresh.Status != register.Active:
		return refusal.Conflict("node %s is %v, not a member; a new one joins with `norn server --join`", fresh.Node, fresh.Status)
	case !c.View.Up(fresh.Member) && !m.GetForce():
		return refusal.Conflict("node %s is not in reach, so it cannot take anything over", fresh.Node)
	}
	if bad := c.remove(d, old.Incarnation.String(), m.GetForce()); bad != nil {
		return bad
	}
	d.reply.Nodes = []string{old.Node, fresh.Node}
	plan, ok := c.Transfer.Driver.View().Displace(old.Member, fresh.Member)
	if !ok {
		d.note("the partitions of %s are spread over all nodes by their shares, %s among them", old.Node, fresh.Node)
		return nil
	}
	d.request.Plan = &register.PlanChange{Old: c.View.State.Plan.Version, Data: plan.AppendTo(nil)}
	d.reply.Copies = 0
	c.foresee(d)
	d.note("node %s takes the place of %s in every partition", fresh.Node, old.Node)
	return nil
}

// acceptLoss gives up what only removed nodes had.
func (c *Machine) acceptLoss(d *decision, m *nornv1.AcceptLoss) *proto.Error {
	if n := len(m.GetNodes()); n > maxLost {
		return proto.Invalid("%d nodes are over %d", n, maxLost)
	}
	view := c.Transfer.Driver.View()
	var give []register.Member
	for _, name := range m.GetNodes() {
		n, bad := c.find(name)
		if bad != nil {
			return bad
		}
		if n.Status != register.Removed {
			return refusal.Conflict("node %s is not removed (%v): only what removed nodes had can be given up; `norn cluster remove %s` first", n.Node, n.Status, n.Node)
		}
		give = append(give, n.Member)
	}
	for p := range c.View.Cells {
		if !view.Stuck(ring.Partition(p)) {
			continue
		}
		d.reply.Partitions = append(d.reply.Partitions, uint32(p))
		for _, o := range c.View.Cells[p].Cohort {
			if s := view.Standing(o); len(m.GetNodes()) == 0 && s.Gone() && !slices.Contains(give, o) {
				give = append(give, o)
			}
		}
	}
	slices.SortFunc(give, register.Member.Compare)
	if request, ok := placement.Lost(c.View.State, give...); ok {
		d.request = request
	}
	next, _, _ := c.View.State.Apply(&d.request)
	after := placement.See(next, c.View.Members)
	if d.reborn = c.survives(after); d.reborn {
		d.note("the disk of node %s has lost what it had acknowledged (%s), and no other node is left to ask: it starts again as another incarnation, with what it has; tasks and updates that were acknowledged may be lost", c.Self.Node, c.Standing.Disk.Shown())
	}
	if len(d.request.Values) == 0 && d.reborn {
		return nil
	}
	if len(d.request.Values) == 0 {
		d.note("nothing is stuck for the want of removed nodes%s", c.downNote())
		d.reply.Partitions = nil
		return nil
	}
	for _, o := range give {
		d.reply.Nodes = append(d.reply.Nodes, o.Node)
	}
	d.note("what only %s had is given up: tasks and updates that were acknowledged may be lost", strings.Join(d.reply.Nodes, ", "))
	empty := 0
	for _, p := range d.reply.Partitions {
		if !slices.ContainsFunc(c.View.Cells[p].Cohort, func(o register.Member) bool { return !after.Standing(o).Gone() }) {
			empty++
		}
	}
	if empty > 0 {
		d.note("of %s no copy is left at all: they begin again with nothing", partitionsOf(empty))
	}
	return nil
}

// survives tells whether this node, whose disk has lost what it had acknowledged, is all that
// is left by the word of an operator: the register was forced to begin anew here, and what the
// others had is given up in every partition. Then nobody is left to whom what this
// incarnation had promised could matter, and another one goes on with what is on the disk.
func (c *Machine) survives(after *placement.View) bool {
	self := c.Self
	if !c.Standing.Disk.Forgotten(self) || c.View.State.Generation == 0 || c.View.Company() || !slices.Equal(c.View.Voters, []register.Member{self}) || len(c.View.Outgoing) > 0 {
		return false
	}
	return !slices.ContainsFunc(c.View.Cells, func(cell register.Cell) bool {
		return slices.ContainsFunc(cell.Cohort, func(o register.Member) bool { return o != self && !after.Standing(o).Lost })
	})
}

// downNote names the nodes that are dead and not given up.
func (c *Machine) downNote() string {
	var down []string
	for i := range c.View.State.Nodes {
		n := &c.View.State.Nodes[i]
		if (n.Status == register.Active || n.Status == register.Leaving) && !c.View.Up(n.Member) {
			down = append(down, n.Node)
		}
	}
	if len(down) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s cannot be reached: if that is for ever, `norn cluster remove` gives them up one by one", strings.Join(down, ", "))
}
