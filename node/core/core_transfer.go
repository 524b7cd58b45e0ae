package core

import (
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// moving is what this node does for partitions on their way.
type moving struct{ *Core }

// newTransfer moves the partitions of a node. What it does without is opened later: see
// [openTransfer].
func newTransfer(c *Core) *transfer.Machine {
	return transfer.New(transfer.Env{
		Policy: c.cfg.Policy.Transfer,
		Self:   c.cfg.Self, DeadAfter: c.cfg.DeadAfter, Settle: max(10*time.Second, c.cfg.Repair), Eta: c.cfg.Eta, GCGrace: c.cfg.GCGrace,
		MaxAside: c.cfg.Quarantine, Replicas: c.cfg.Cluster.Replicas, Rand: c.cfg.Rand,
		View: c.view, Round: c.round, Elections: moving{c}, Node: moving{c},
	})
}

// openTransfer gives it what is opened after it.
func openTransfer(c *Core) {
	c.transfer.Partitions, c.transfer.Repairs, c.transfer.Tombstones = c.vnodes, c.repairs, tombstones{c.retention.Tombstones}
}

// tombstones judge what may have been collected.
type tombstones struct{ *retention.Tombstones }

// Admission is when the task of some facts was enqueued.
func (tombstones) Admission(facts []crdt.Fact) int64 { return retention.Admission(facts) }

// Agreed tells whether both sides of a comparison have the same.
func (t tombstones) Agreed(r *antientropy.Result) bool { return t.Policy.Agreed(r) }

// Want asks for changes of cells.
func (c moving) Want(now clock.Time, changes []register.Change) { c.elector.Want(now, changes) }

// RequestElection has the leader of a partition stand again.
func (c moving) RequestElection(now clock.Time, p ring.Partition, above uint64) {
	c.elector.RequestElection(now, p, above)
}

// MayForget tells whether no candidate counts on what is here of a partition.
func (c moving) MayForget(p ring.Partition, epoch uint64) (may bool, promise uint64) {
	a := &c.acceptors.All[p]
	return a.MayForget(epoch), a.Promise
}

// Proposed tells whether this node is to be of its cohort.
func (c moving) Proposed(p ring.Partition) bool { return c.acceptors.Proposed(p) }

// Leave ends what this node does for its elections, and keeps its promise.
func (c moving) Leave(p ring.Partition) {
	c.elector.StepDown(p)
	c.elector.Runs.Abort(p, "the partition is being deleted here")
	c.acceptors.Save(p)
}

// Registered takes over cells that have changed.
func (c moving) Registered() { c.acceptors.Registered() }

// ChangeRegister asks the register for changes of nodes.
func (c moving) ChangeRegister(r register.Request) { c.send(registerRequest{}, r) }

// Blank is an empty partition.
func (c moving) Blank(p ring.Partition) (*vnode.Vnode, error) {
	return vnode.Blank(p, c.vcfg, c.round.Tx, c.round.Now)
}

// Released forgets what is kept in memory for the claims and queues of a partition that this
// node keeps no longer: nothing else ends them here.
func (c moving) Released(v *vnode.Vnode) {
	v.Held(c.dispatch.Index.OnEnd)
	v.Queues(func(name string, _ *vnode.Counts) { c.queues.emptied(name) })
}

// Met has those asked at once who have come and have not told yet what they know of this node.
func (c moving) Met() { c.standing.Clocks.Met() }

// Merge takes facts over.
func (c moving) Merge(now clock.Time, v *vnode.Vnode, facts []crdt.Fact) {
	peers(c).merge(now, v, facts)
}

// Handover tells what a node that was removed still has to hand over: of how many
// partitions, and what the first of them waits for.
func Handover(c *Core) (partitions int, why string) { return c.transfer.Former.Waits() }

// moved refuses a read that another node has sent here about a partition that
// this node does not keep, or not any longer: who sent it has not heard of that
// yet. What is here may be old, or on its way out, and no part of a quorum: not
// to know a task here says nothing. Of a partition that is being deleted nothing
// is read, whoever asks. nil: it may be answered.
func (c observer) moved(r *message.Request) *proto.Error {
	foreign := r.Routed && r.From.Conn >= message.PeerConns
	if !foreign && len(c.view.Dropping) == 0 {
		return nil
	}
	var about []ring.Partition
	one := func(task []byte) {
		if p, ok := c.routes.Partition(task); ok {
			about = append(about, p)
		}
	}
	switch m := r.Body.(type) {
	case *nornv1.GetRequest:
		one(m.GetId())
	case *nornv1.ExplainRequest:
		one(m.GetId())
	case *nornv1.LogRequest:
		one(m.GetId())
	case *nornv1.KeyRequest:
		one(keyHome(c.Core, c.round.Now, m.GetQueue(), m.GetKey(), m.GetWindowSeconds()))
	case *nornv1.ListRequest, *nornv1.CountRequest, *nornv1.QueuesRequest:
		about = r.Partitions
	}
	for _, p := range about {
		if foreign && c.view.Elsewhere(p) || c.view.Deleting(p) {
			e := c.transfer.Gone(p)
			e.Guarantee = "replicas read"
			return e
		}
	}
	return nil
}

// closing refuses a task whose partition is being deleted, before anything is
// looked up there: an ID or a key could be taken for one that was never used.
func (c enqueuing) closing(now clock.Time, t *nornv1.TaskSpec) *proto.Error {
	if len(c.view.Dropping) == 0 {
		return nil // as nearly always
	}
	p, ok := c.routes.Partition(place(c.Core, now, t))
	if !ok {
		return nil // refused for that
	}
	return c.transfer.Refuses(p)
}

// Leads tells whether a node hands out tasks of a partition. The leader that the register
// names does not while it stands again, as for another cohort.
func Leads(c *Core, p ring.Partition) bool { return c.vnodes.See(p).Leading() != 0 }

// Promised is the epoch below which a node accepts nothing any more of a partition.
func Promised(c *Core, p ring.Partition) uint64 { return c.acceptors.All[p].Promise }
