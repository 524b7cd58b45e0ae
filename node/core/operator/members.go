package operator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// maxDecides bounds how often a change is worked out anew because somebody else
// was first.
const MaxDecides = 10

// Machine does what operators ask of the cluster. The register decides about its members:
// each change is worked out from a fresh state, and written if nobody was faster.
type Machine struct{ Env }

// New makes one.
func New(env Env) *Machine { return &Machine{env} }

// decision is what a request comes to.
type decision struct {
	request register.Request
	reply   *nornv1.ClusterReply
	reborn  bool // this node is to start again as another incarnation then
}

func (d *decision) note(format string, args ...any) {
	d.reply.Notes = append(d.reply.Notes, fmt.Sprintf(format, args...))
}

// written says whether the register took it, all of it. A plan that came too late is
// worked out anew although its node is removed by then: the driver's next one would
// spread what it had, where the operator was told who takes its place.
func (d *decision) written(r *register.Result) bool {
	if slices.Contains(r.NodesWon, false) || slices.Contains(r.ValuesWon, false) {
		return false
	}
	return (d.request.Plan == nil || r.PlanWon) && (d.request.Replicas == nil || r.ReplicasWon)
}

// Handle does what a request asks for, or answers why not.
func (c *Machine) Handle(now clock.Time, r *message.Request, m *nornv1.ClusterRequest) (gproto.Message, *proto.Error) {
	switch {
	case m.GetRepair() != nil:
		return c.repair(now, r, m)
	case m.GetExport() != nil:
		return c.export(r.From)
	case m.GetAction() == nil:
		return nil, proto.Invalid("the request asks for nothing that this server knows")
	}
	return c.Node.Consult(r.From, register.Request{}, refusal.MembershipUnavailable, nornv1.Effect_EFFECT_NONE, func(clock.Time, *register.Result) (gproto.Message, *proto.Error) {
		return c.attempt(r.From, m, 1, false)
	})
}

// attempt works out what is to be done, and asks the register for it, for the nth time.
// some: an attempt before has changed something already.
func (c *Machine) attempt(from message.Origin, m *nornv1.ClusterRequest, n int, some bool) (gproto.Message, *proto.Error) {
	d, bad := c.decide(m)
	if bad != nil {
		return nil, bad
	}
	nothing := !d.reply.Changed
	d.reply.Changed = d.reply.Changed || some || d.reborn
	if m.GetDryRun() || nothing {
		c.Round.Ready.Reborn = d.reborn && !m.GetDryRun()
		return d.reply, nil
	}
	return c.Node.Consult(from, d.request, refusal.MembershipUnavailable, nornv1.Effect_EFFECT_UNKNOWN, func(_ clock.Time, res *register.Result) (gproto.Message, *proto.Error) {
		switch {
		case d.written(res):
			c.Round.Ready.Reborn = d.reborn
			return d.reply, nil
		case n < MaxDecides:
			return c.attempt(from, m, n+1, some || slices.Contains(res.NodesWon, true))
		}
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "the members keep changing; ask again")
	})
}

func (c *Machine) decide(m *nornv1.ClusterRequest) (d *decision, bad *proto.Error) {
	d = &decision{reply: &nornv1.ClusterReply{}}
	switch a := m.GetAction().(type) {
	case *nornv1.ClusterRequest_Leave:
		bad = c.leave(d, a.Leave)
	case *nornv1.ClusterRequest_Remove:
		bad = c.remove(d, a.Remove.GetNode(), a.Remove.GetForce())
	case *nornv1.ClusterRequest_Replace:
		bad = c.replace(d, a.Replace)
	case *nornv1.ClusterRequest_Rebalance:
		bad = c.rebalance(d, a.Rebalance.GetFresh())
	case *nornv1.ClusterRequest_AcceptLoss:
		bad = c.acceptLoss(d, a.AcceptLoss)
	case *nornv1.ClusterRequest_Destroy:
		bad = c.destroy(d, a.Destroy)
	case *nornv1.ClusterRequest_SetReplicas:
		bad = c.setReplicas(d, a.SetReplicas.GetReplicas())
	default:
		bad = proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "this server cannot do that")
	}
	d.reply.Changed = !d.request.Reads()
	return d, bad
}

// find gives the node that an operator means: by its incarnation, or the member
// of that name, or else who had it last.
func (c *Machine) find(name string) (register.Node, *proto.Error) {
	if name == "" || len(name) > register.MaxName {
		return register.Node{}, proto.Invalid("the name of a node has 1 to %d bytes, not %d", register.MaxName, len(name))
	}
	var best *register.Node
	for i := range c.View.State.Nodes {
		n := &c.View.State.Nodes[i]
		if n.Incarnation.String() == strings.ToLower(name) {
			return *n, nil
		}
		if n.Node == name && (best == nil || rank(n) > rank(best) || rank(n) == rank(best) && n.Changed > best.Changed) {
			best = n
		}
	}
	if best == nil {
		return register.Node{}, proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "there is no node %s in this cluster; `norn cluster members --all` lists them", name)
	}
	return *best, nil
}

// rank orders nodes of one name by what they are.
func rank(n *register.Node) int {
	switch n.Status {
	case register.Active, register.Leaving:
		return 2
	case register.Joining:
		return 1
	}
	return 0
}

// become asks for another status of a node.
func (d *decision) become(n register.Node, s register.NodeStatus) {
	old := n.Version
	n.Status = s
	d.request.Nodes = append(d.request.Nodes, register.NodeChange{Old: old, New: n})
}

// others is how many nodes but one can hold data.
func (c *Machine) others(than register.Member) (n int) {
	for i := range c.View.State.Nodes {
		if o := &c.View.State.Nodes[i]; o.Status == register.Active && o.Weight > 0 && o.Member != than {
			n++
		}
	}
	return n
}

// leave has a node hand over what it has, or stay after all.
func (c *Machine) leave(d *decision, m *nornv1.LeaveNode) *proto.Error {
	n, bad := c.find(m.GetNode())
	if bad != nil {
		return bad
	}
	d.reply.Nodes = []string{n.Node}
	switch {
	case n.Status == register.Removed && m.GetStay():
		return refusal.Conflict("node %s was removed already; a removed node does not come back, start it with an empty directory and --join", n.Node)
	case n.Status == register.Removed:
		d.note("node %s has left already", n.Node)
	case n.Status == register.Joining && m.GetStay():
		d.note("node %s does not leave: it joins", n.Node)
	case n.Status == register.Joining && c.View.Up(n.Member) && !c.named(n):
		d.become(n, register.Leaving)
		d.note("node %s, which still joins, is withdrawn", n.Node)
	case n.Status == register.Joining:
		d.become(n, register.Removed)
		d.note("node %s, which still joins, is withdrawn: it is not in reach, or another one has its name; stop it, it would ask again", n.Node)
	case m.GetStay() && n.Status == register.Active:
		d.note("node %s does not leave", n.Node)
	case m.GetStay():
		d.become(n, register.Active)
		d.note("node %s stays", n.Node)
		c.foresee(d)
	case n.Status == register.Leaving:
		d.note("node %s is leaving already", n.Node)
	case c.others(n.Member) == 0:
		return refusal.Conflict("node %s is the last member that can hold data, so it cannot leave; let another one join first, or stop it", n.Node)
	case !c.View.Up(n.Member):
		return refusal.Conflict("node %s is not in reach and cannot hand over what it has; start it, or if it never comes back give it up with `norn cluster remove %s`", n.Node, n.Node)
	default:
		d.become(n, register.Leaving)
		d.note("node %s hands over what it has, then it is removed; it must run until then", n.Node)
		c.fewer(d, n.Member)
		c.foresee(d)
	}
	return nil
}

// named tells whether another node is a member under the name of one.
func (c *Machine) named(n register.Node) bool {
	return slices.ContainsFunc(c.View.State.Nodes, func(o register.Node) bool {
		return o.Node == n.Node && o.Member != n.Member && (o.Status == register.Active || o.Status == register.Leaving)
	})
}

// fewer notes when there are not enough nodes left for all copies.
func (c *Machine) fewer(d *decision, without register.Member) {
	if left, want := c.others(without), c.Transfer.Replicas(); left < want {
		d.note("%d can hold data then: each partition will have %s, not %d", left, copiesOf(left), want)
	}
}

func copiesOf(n int) string {
	if n == 1 {
		return "1 copy"
	}
	return fmt.Sprintf("%d copies", n)
}

// foresee counts the copies that will move.
func (c *Machine) foresee(d *decision) {
	before := c.Transfer.Driver.View()
	next, _, _ := c.View.State.Apply(&d.request)
	plan, err := placement.See(next, c.View.Members).Foresee(false)
	if err != nil || before.Plan().Partitions() == 0 {
		return
	}
	for _, m := range ring.Moves(before.Plan(), plan) {
		d.reply.Copies += uint32(len(m.Added))
	}
}

// rebalance writes a new plan.
func (c *Machine) rebalance(d *decision, fresh bool) *proto.Error {
	view := c.Transfer.Driver.View()
	if view.Err() != nil && !fresh {
		return refusal.Conflict("the plan in the register cannot be read: %v; `norn cluster rebalance --fresh` makes one from nothing", view.Err())
	}
	plan, err := view.Foresee(fresh)
	if err != nil {
		return refusal.Conflict("no plan can be made: %v", err)
	}
	if view.Err() == nil && plan.Equal(view.Plan()) {
		d.note("everything is planned where it should be")
		return nil
	}
	d.request.Plan = &register.PlanChange{Old: c.View.State.Plan.Version, Data: plan.AppendTo(nil)}
	for _, m := range ring.Moves(view.Plan(), plan) {
		d.reply.Copies += uint32(len(m.Added))
		d.reply.Partitions = append(d.reply.Partitions, uint32(m.Partition))
	}
	return nil
}
