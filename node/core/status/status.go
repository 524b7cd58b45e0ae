package status

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// Status answers with what this node knows; another node is told only what it
// cannot know itself.
func (c *Machine) Status(now clock.Time, r *message.Request, m *nornv1.StatusRequest) (gproto.Message, *proto.Error) {
	if r.Routed {
		return c.partOfStatus(now, r.Scope), nil
	}
	return c.picture(now, m.GetRemoved(), r.Scope), nil
}

// Gather asks all nodes in reach what only they know.
func (c *Machine) Gather(now clock.Time, q *message.Request, m *nornv1.StatusRequest) bool {
	r := c.Routes
	if r.Crowds(q.From) {
		c.Round.Refuse(q.From, refusal.Crowded(router.MaxWaiting))
		return true
	}
	g := r.Gather(now, q, &statuses{c.picture(now, m.GetRemoved(), q.Scope)}, router.StatusTimeout-router.ForwardTimeout)
	for i := range c.View.State.Nodes {
		if to := c.View.State.Nodes[i].Member; to != c.Self && c.View.Up(to) {
			r.Forward(now, g, to, nil, m, nil)
		}
	}
	r.Finish(g)
	return true
}

// statuses completes a picture by what other nodes know of themselves.
type statuses struct{ whole *nornv1.StatusReply }

func (s *statuses) Take(_ []int, m gproto.Message) {
	part, ok := m.(*nornv1.StatusReply)
	if !ok || len(part.GetNodes()) != 1 {
		return
	}
	self := part.GetNodes()[0]
	for _, n := range s.whole.Nodes {
		if n.GetIncarnation() == self.GetIncarnation() {
			n.Address, n.Led = cmp.Or(self.GetAddress(), n.GetAddress()), self.GetLed()
			n.CopiesLeft, n.HandoversLeft = self.GetCopiesLeft(), n.GetHandoversLeft()+self.GetHandoversLeft()
			n.ClockFault, n.Forgot, n.DiskFull = self.GetClockFault(), cmp.Or(self.GetForgot(), n.GetForgot()), self.GetDiskFull()
			n.Repair = part.GetRepair()
			n.QuarantinedTasks, n.QuarantinedBytes, n.QuarantineRefused = self.GetQuarantinedTasks(), self.GetQuarantinedBytes(), self.GetQuarantineRefused()
		}
	}
	for _, p := range part.GetPartitions() {
		if int(p.GetId()) < len(s.whole.Partitions) {
			at := s.whole.Partitions[p.GetId()]
			at.ClaimAvailable, at.OldestReadySeconds = p.GetClaimAvailable(), p.GetOldestReadySeconds()
		}
	}
	to, move := s.whole.Movement, part.GetMovement()
	if !s.removed(self) { // nobody waits for what that brings
		to.HandoversLeft += self.GetHandoversLeft()
	}
	to.Copied += move.GetCopied()
	to.HandedOver += move.GetHandedOver()
	sum, repair := s.whole.Repair, part.GetRepair()
	sum.Left += repair.GetLeft()
	sum.Compared += repair.GetCompared()
	sum.Failed += repair.GetFailed()
	sum.FactsMoved += repair.GetFactsMoved()
	sum.Clashes += repair.GetClashes()
}

func (s *statuses) removed(self *nornv1.NodeStatus) bool {
	return slices.ContainsFunc(s.whole.Nodes, func(n *nornv1.NodeStatus) bool {
		return n.GetIncarnation() == self.GetIncarnation() && n.GetState() == register.Removed.String()
	})
}

func (s *statuses) Fail([]int, *proto.Error) {} // what it does not say stays as it looks from here

func (s *statuses) Answer() (gproto.Message, *proto.Error) { return s.whole, nil }

// partOfStatus is what only this node knows.
func (c *Machine) partOfStatus(now clock.Time, s *guard.Scope) *nornv1.StatusReply {
	part := &nornv1.StatusReply{
		Node: c.Self.Node, Nodes: []*nornv1.NodeStatus{c.aboutSelf()}, Movement: c.movement(), Repair: c.Repairs.Status(c.Clashes.N),
	}
	for p, v := range c.Partitions.Each() {
		if v.Leading() != 0 {
			part.Partitions = append(part.Partitions, &nornv1.PartitionStatus{Id: uint32(p), ClaimAvailable: true, OldestReadySeconds: oldest(v, now, s)})
		}
	}
	return part
}

// lone tells whether this node keeps the register by itself: nobody has told of voters
// yet, and there is nobody else.
func (c *Machine) lone() bool { return len(c.View.Voters) == 0 && !c.View.Company() }

// Majority tells whether a majority of those who keep the register is in reach.
func (c *Machine) Majority() bool { return c.View.Majority || c.lone() && c.View.Joined }

func (c *Machine) movement() *nornv1.MovementStatus {
	return &nornv1.MovementStatus{Copied: c.Transfer.Copied, HandedOver: c.Transfer.Left}
}

// aboutSelf is this node but for what the register says of it.
func (c *Machine) aboutSelf() *nornv1.NodeStatus {
	tasks, bytes := c.Partitions.Aside()
	forgot := ""
	if c.Standing.Disk.Forgotten(c.Self) {
		forgot = c.Standing.Disk.Shown()
	}
	full := ""
	if c.Disk.Low() {
		full = c.Disk.Shown()
	}
	return &nornv1.NodeStatus{
		Forgot: forgot, DiskFull: full,
		QuarantinedTasks: uint32(tasks), QuarantinedBytes: uint64(bytes), QuarantineRefused: c.Transfer.Quarantine.Full,
		Name: c.Self.Node, Incarnation: c.Self.Incarnation.String(), State: "up", Alive: true,
		Zone: c.Zone, Address: c.Address, Repair: c.Repairs.Status(c.Clashes.N), Led: uint32(c.Partitions.Led()),
		CopiesLeft: uint32(len(c.Transfer.Incoming)), HandoversLeft: uint32(c.Transfer.HandoversLeft()), ClockFault: c.Standing.Clocks.Why,
	}
}

// picture is the cluster as it looks from here.
func (c *Machine) picture(now clock.Time, removed bool, scope *guard.Scope) *nornv1.StatusReply {
	view := c.Transfer.Driver.View()
	progress := view.Progress()
	reply := &nornv1.StatusReply{
		ClusterId: c.Cluster.ID.String(), Node: c.Self.Node, Replicas: uint32(c.Transfer.Replicas()),
		Register: &nornv1.RegisterStatus{Majority: c.Majority(), Revision: c.View.State.Revision, Generation: c.View.State.Generation},
		Movement: c.movement(), Repair: c.Repairs.Status(c.Clashes.N),
	}
	for _, v := range c.View.Voters {
		reply.Voters = append(reply.Voters, v.Node)
	}
	slices.Sort(reply.Voters)
	if c.lone() {
		reply.Voters = []string{c.Self.Node}
	}
	nodes := c.nodes(&progress, removed)
	held := make(map[register.Member]*nornv1.NodeStatus, len(nodes))
	for _, n := range nodes {
		held[n.Member] = n.status
		reply.Nodes = append(reply.Nodes, n.status)
	}
	for p := range c.View.Cells {
		s := c.aboutPartition(now, view, ring.Partition(p), scope)
		for _, m := range c.View.Cells[p].Cohort {
			if n := held[m]; n != nil {
				n.Vnodes++
			}
		}
		if m, ok := c.Routes.Leader(ring.Partition(p)); ok && m != c.Self && held[m] != nil {
			held[m].Led++
		}
		reply.Partitions = append(reply.Partitions, s)
	}
	move := reply.Movement
	move.CopiesLeft, move.Stuck = uint32(progress.Copies), uint32(progress.Stuck)
	for _, n := range reply.Nodes {
		move.HandoversLeft += n.GetHandoversLeft()
	}
	return reply
}

func (c *Machine) aboutPartition(now clock.Time, view *placement.View, p ring.Partition, scope *guard.Scope) *nornv1.PartitionStatus {
	cell, v := &c.View.Cells[p], c.Partitions.See(p)
	s := &nornv1.PartitionStatus{
		Id: uint32(p), Epoch: cell.Epoch, Leader: cell.Leader.Node,
		EnqueueAvailable:   c.View.Joined && !c.Disk.Low() && c.Routes.Takes(p),
		ClaimAvailable:     c.Routes.Leads(p),
		OldestReadySeconds: oldest(v, now, scope), Copies: uint32(c.copies(p)),
	}
	for _, m := range cell.Cohort {
		s.Cohort = append(s.Cohort, m.Node)
	}
	planned := view.Planned(p)
	s.Moving = len(planned) > 0 && len(planned) != len(cell.Cohort)
	for _, m := range planned {
		s.Planned = append(s.Planned, m.Node)
		s.Moving = s.Moving || !slices.Contains(cell.Cohort, m)
	}
	return s
}

// aboutNode is a node in a status.
type aboutNode struct {
	register.Member
	status *nornv1.NodeStatus
}

// nodes lists the nodes that matter: removed ones only while they are in some
// cohort or can be reached, for they may have what nobody else has.
func (c *Machine) nodes(progress *placement.Progress, removed bool) (all []aboutNode) {
	named := make(map[register.Member]bool)
	for p := range c.View.Cells {
		for _, m := range c.View.Cells[p].Cohort {
			named[m] = true
		}
	}
	listed, offsets := false, c.Standing.Clocks.Peers.Offsets(c.Round.Now)
	for i := range c.View.State.Nodes {
		n := &c.View.State.Nodes[i]
		if n.Status == register.Removed && !removed && !named[n.Member] && !c.View.Up(n.Member) {
			continue
		}
		s := &nornv1.NodeStatus{
			Name: n.Node, Incarnation: n.Incarnation.String(), Zone: n.Zone,
			Address: c.View.Clients[n.Member], Alive: c.View.Up(n.Member),
		}
		s.ClockOffsetMs, s.ClockErrorMs = c.Standing.Clocks.OffsetOf(offsets, n.Member)
		if c.Standing.Disk.Forgotten(n.Member) {
			s.Forgot = "it says so"
		}
		if n.Member == c.Self {
			s, listed = c.aboutSelf(), true
		}
		needed, voter := c.needs(n.Member)
		s.NeededBy, s.NeededByRegister = uint32(needed), voter
		s.State, s.PeerAddresses, s.Weight = stateOf(n.Status, s.Alive), n.Addresses, n.Weight
		all = append(all, aboutNode{n.Member, s})
	}
	if !listed { // the register has not been heard yet, or is of a cluster of one
		self := c.aboutSelf()
		self.Weight = 1
		all = append(all, aboutNode{c.Self, self})
	}
	for _, left := range progress.Nodes {
		for _, n := range all {
			if n.Member == left.Member {
				n.status.CopiesLeft = uint32(left.In)
				n.status.HandoversLeft += uint32(left.Out)
			}
		}
	}
	return all
}

// stateOf is what operators call it.
func stateOf(s register.NodeStatus, alive bool) string {
	switch {
	case s != register.Active:
		return s.String()
	case alive:
		return "up"
	}
	return "down"
}

// oldest is the age in seconds of the oldest task of a partition that is ready, and that may be seen;
// 0 when none is.
func oldest(v *vnode.Vnode, now clock.Time, s *guard.Scope) float64 {
	first := now.Wall
	v.Queues(func(name string, _ *vnode.Counts) {
		if at, ok := vnode.Oldest(v, name); ok && s.May(guard.See, name) {
			first = min(first, at)
		}
	})
	return time.Duration(now.Wall - first).Seconds()
}
