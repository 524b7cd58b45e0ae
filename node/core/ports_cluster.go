package core

import (
	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/arrivals"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/queues"
	"github.com/norn-dev/norn/node/core/registercall"
	"github.com/norn-dev/norn/node/core/repair"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/schedules"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// repairing is what the node does with what comparisons bring and find.
type repairing struct {
	facts      *arrivals.Machine
	tombstones *retention.Tombstones
	acceptors  *leadership.Acceptors
	elector    *leadership.Machine
	transfer   *transfer.Machine
}

// Keep merges facts of a peer.
func (p *repairing) Keep(now clock.Time, from register.Member, part *message.PartFacts) (changed, taken int) {
	n, _, _ := p.facts.Keep(now, from, part, false)
	return n.Changed, n.Taken
}

// Compared passes on how a comparison has ended.
func (p *repairing) Compared(now clock.Time, k message.Pair, r *antientropy.Result) (anew bool) {
	p.tombstones.Ended(now, k, r)
	elected := p.elector.Compared(k, p.tombstones.Policy.Agreed(r))
	return p.transfer.Compared(now, k, r) || elected
}

// Awaits tells whether a move or an election waits for a comparison.
func (p *repairing) Awaits(k message.Pair) bool { return p.transfer.Busy[k] || p.elector.Compares(k) }

// Proposed tells whether this node is to be of the cohort of an open proposal.
func (p *repairing) Proposed(of ring.Partition) bool { return p.acceptors.Proposed(of) }

// leasing is what the node does with what becomes of leases.
type leasing struct {
	dispatch   *dispatch.Machine
	facts      *arrivals.Machine
	confirms   *replication.Confirmations
	dependency *dependency.Machine
}

// Ready gives the queues of which a partition has something to hand out.
func (p leasing) Ready(of ring.Partition) []string { return p.dispatch.Index.Ready(of) }

// Hide takes a partition out of what is handed out of a queue.
func (p leasing) Hide(of ring.Partition, queue string) { p.dispatch.Index.OnHead(of, queue, nil) }

// Keep merges facts of a member.
func (p leasing) Keep(now clock.Time, from register.Member, part *message.PartFacts) {
	p.facts.Keep(now, from, part, false)
}

// Learned looks at a claim that this leader has just heard of.
func (p leasing) Learned(now clock.Time, of ring.Partition, task id.ID, r *claim.Record) {
	p.dispatch.Learned(now, of, task, r)
}

// Confirmed has those go on who wait for that this node still leads.
func (p leasing) Confirmed(ring.Partition) { p.confirms.Look, p.dependency.Unconfirmed.At = true, 0 }

// Forget leaves a grant out that was taken back.
func (p leasing) Forget(g message.GrantRef) { p.dispatch.Index.Forget(g) }

// leading is what the node does when it comes to lead a partition, or does so no more.
type leading struct {
	dependency *dependency.Machine
	dispatch   *dispatch.Machine
	repairs    *repair.Machine
	confirms   *replication.Confirmations
	leases     *lease.Machine
	transfer   *transfer.Machine
}

// Won has what waits on this node's leading of a partition looked at.
func (p leading) Won(now clock.Time, v *vnode.Vnode, succeeds bool) {
	p.dependency.Won(now, v.Partition)
	v.Announce()
	p.dispatch.Won(now, v.Partition)
	if succeeds { // what the one before has brought to a majority may not have come here
		p.repairs.Demand(now, v.Partition)
	}
}

// Lost gives up what waits for a majority of a partition.
func (p leading) Lost(of ring.Partition) {
	p.confirms.Look = true
	p.leases.Stop(of)
}

// Compare begins a comparison.
func (p leading) Compare(now clock.Time, k message.Pair) { p.repairs.Copy(now, k) }

// Forget has a partition deleted.
func (p leading) Forget(of ring.Partition) { p.transfer.Forget(of) }

// Members is what placement knows of the members.
func (p leading) Members() *placement.View { return p.transfer.Driver.View() }

// registering asks the register for cells.
type registering struct{ *registercall.Machine }

// Change asks the register for changes.
func (p registering) Change(changes []register.Change) { p.Ask(changes) }

// Read asks the register for its state.
func (p registering) Read(then func(clock.Time, register.Result)) { p.Send(register.Request{}, then) }

// finding tells who keeps what, for who holds tasks back.
type finding struct {
	*router.Machine
	schedules *schedules.Machine
}

// Find asks a majority of those who keep a task for it, or all of them.
func (p finding) Find(now clock.Time, task id.ID, all bool, then func(clock.Time, *proto.Error)) {
	level := nornv1.ReadLevel_READ_LEVEL_QUORUM
	if all {
		level = nornv1.ReadLevel_READ_LEVEL_ALL
	}
	p.schedules.Find(now, task, level, then)
}

// ending hears of what becomes of tasks.
type ending struct {
	schedules *schedules.Machine
	round     *round.Writer
}

// Ended tells the master of schedules of a task that is finished here.
func (p ending) Ended(task id.ID) { p.schedules.Ended(task) }

// Heard tells it of one that is elsewhere.
func (p ending) Heard(task id.ID, outcome crdt.State) { p.schedules.Heard(p.round.Now, task, outcome) }

// Cancelled counts a task that is cancelled because of a dependency.
func (p ending) Cancelled(now clock.Time, t *crdt.Task) {
	decided.Tell(p.round, message.DecidedCancelled, decided.WithoutClaim(now, t))
}

// tombstones judge what may have been collected.
type tombstones struct{ *retention.Tombstones }

// Admission is when the task of some facts was enqueued.
func (tombstones) Admission(facts []crdt.Fact) int64 { return retention.Admission(facts) }

// Agreed tells whether both sides of a comparison have the same.
func (t tombstones) Agreed(r *antientropy.Result) bool { return t.Policy.Agreed(r) }

// cohorts are changed by who moves partitions.
type cohorts struct {
	*leadership.Machine
	acceptors *leadership.Acceptors
}

// MayForget tells whether no candidate counts on what is here of a partition.
func (p cohorts) MayForget(of ring.Partition, epoch uint64) (may bool, promise uint64) {
	a := &p.acceptors.All[of]
	return a.MayForget(epoch), a.Promise
}

// Proposed tells whether this node is to be of its cohort.
func (p cohorts) Proposed(of ring.Partition) bool { return p.acceptors.Proposed(of) }

// Leave ends what this node does for its elections, and keeps its promise.
func (p cohorts) Leave(of ring.Partition) {
	p.StepDown(of)
	p.Runs.Abort(of, "the partition is being deleted here")
	p.acceptors.Save(of)
}

// Registered takes over cells that have changed.
func (p cohorts) Registered() { p.acceptors.Registered() }

// moving is what the node does for partitions on their way.
type moving struct {
	register *registercall.Machine
	facts    *arrivals.Machine
	clocks   *standing.Clocks
	index    *dispatch.Index
	queues   *queues.Machine
	blank    func(ring.Partition) (*vnode.Vnode, error)
}

// ChangeRegister asks the register for changes of nodes.
func (p moving) ChangeRegister(r register.Request) { p.register.Send(r, nil) }

// Blank is an empty partition.
func (p moving) Blank(of ring.Partition) (*vnode.Vnode, error) { return p.blank(of) }

// Released forgets what is kept in memory for the claims and queues of a partition that this
// node keeps no longer: nothing else ends them here.
func (p moving) Released(v *vnode.Vnode) {
	v.Held(p.index.OnEnd)
	v.Queues(func(name string, _ *vnode.Counts) { p.queues.Emptied(name) })
}

// Met has those asked at once who have come and have not told yet what they know of this node.
func (p moving) Met() { p.clocks.Met() }

// Merge takes facts over.
func (p moving) Merge(now clock.Time, v *vnode.Vnode, facts []crdt.Fact) {
	p.facts.Merge(now, v, facts)
}
