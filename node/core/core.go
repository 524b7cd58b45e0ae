package core

import (
	"errors"
	"fmt"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/arrivals"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/explain"
	"github.com/norn-dev/norn/node/core/follow"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/intake"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/operator"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/queues"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/registercall"
	"github.com/norn-dev/norn/node/core/repair"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/retention"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/schedules"
	"github.com/norn-dev/norn/node/core/settle"
	"github.com/norn-dev/norn/node/core/sharedconfig"
	"github.com/norn-dev/norn/node/core/standing"
	"github.com/norn-dev/norn/node/core/status"
	"github.com/norn-dev/norn/node/core/transfer"
	"github.com/norn-dev/norn/node/core/uniquekeys"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/workers"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Core is one node as a pure machine. It is used from one goroutine.
type Core struct {
	base
	cluster
	work
	fronts

	cfg     Config
	closed  *proto.Error       // why no requests are taken any more; nil: they are
	dropped []message.GrantRef // grants of ours that nobody will hear of
	taken   uint64             // requests taken in
}

// base is what all machines of a node read, and write to.
type base struct {
	ground *ground.Ground
	vnodes *partitions.Set // these three are in it, too: the composition reads them all the time
	view   *view.View
	round  *round.Writer

	register *registercall.Machine
	behind   catchUp
}

// cluster are the machines that keep partitions together with other nodes.
type cluster struct {
	standing     *standing.Machine
	acceptors    *leadership.Acceptors
	elector      *leadership.Machine
	leases       *lease.Machine
	replication  *replication.Machine
	repairs      *repair.Machine
	transfer     *transfer.Machine
	arrivals     *arrivals.Machine
	sharedConfig *sharedconfig.Machine
}

// work are those that take tasks in, hand them out, and let them go.
type work struct {
	intake     *intake.Machine
	keys       *uniquekeys.Machine
	queues     *queues.Machine
	dependency *dependency.Machine
	dispatch   *dispatch.Machine
	settle     *settle.Machine
	retention  *retention.Machine
	schedules  *schedules.Machine
}

// fronts are those that answer clients, workers and operators.
type fronts struct {
	routes   *router.Machine
	sessions *workers.Machine
	logs     *follow.Machine
	operator *operator.Machine
	status   *status.Machine
	explain  *explain.Machine
}

// stand passes on what has changed in what this node stands for.
func (c *Core) stand() {
	for _, e := range c.standing.Drain() {
		switch e.Kind {
		case standing.Review:
			c.elector.Look()
		case standing.Recount:
			c.replication.Acks.Look = true
		case standing.Lost:
			c.elector.StepDown(e.Partition)
			c.elector.Runs.Abort(e.Partition, "this disk has lost what it had acknowledged")
		case standing.Unfit:
			c.elector.Pass(e.Partition)
		}
	}
}

// Step takes in one event. An error means that the node must stop.
func (c *Core) Step(now clock.Time, event any) error {
	c.round.Now = now
	c.standing.Clocks.Stepped(now)
	c.stand()
	switch e := event.(type) {
	case *message.Request:
		c.dispatch.Hear(now, e.From.Conn, false)
		c.request(now, e)
	case message.Tick:
	case message.Cancel:
		c.ground.Pending.Cancel(e.From) // each request gets exactly one reply
	case message.Heard:
		c.dispatch.Hear(now, e.Conn, !e.Part)
	case message.Gone:
		c.gone(e.Conn)
	case message.Undelivered:
		c.dispatch.Undelivered(now, c.sessions.Unsent(now, e.Grants))
	case message.ReadDone:
		c.logs.ReadDone(e)
	case message.Drain:
		c.standing.Disk.Hurry()
		c.elector.Retreat(now)
		c.drain(refusal.Stopping())
	case message.Forgot:
		c.standing.Disk.Found(e.Why, e.Asked)
		c.stand()
	case message.Dismissed:
		c.dismissed(now)
	case message.DiskStalled:
		c.elector.Stall(e.Is)
	case message.DiskSpace:
		c.intake.Disk.Look(e.Free, e.Reserve)
	case message.Rest:
		c.round.Tx.Rest()
	case message.Registered:
		c.register.Answered(now, e.Result, c.learn)
	case *message.FromPeer:
		c.fromPeer(now, e)
	case message.Archived:
		c.retention.ArchiveDone(now, e)
	case message.Answered:
		c.round.Answer(e.Reply)
	case message.Changed:
		c.changed(now, e)
	case message.Alive:
		c.heard(e.Members)
		c.standing.Disk.Peers.Reach()
		c.view.Members, c.view.Clients = e.Members, e.Clients
		c.transfer.Learn(now)
		c.standing.Clocks.Met()
		c.elector.Look()
		c.leases.Met(now)
	default:
		return fmt.Errorf("core: unknown event %T", event)
	}
	return c.round.Fatal()
}

// Ready lets due things happen and hands over what is to be done. The batch in
// Persist is the caller's until it gives it back with [Core.Recycle].
func (c *Core) Ready(now clock.Time) (message.Ready, error) {
	c.round.Now = now
	c.standing.Clocks.Stepped(now)
	c.stand()
	c.tick(now)
	c.standing.Work(now)
	c.stand()
	c.elector.Work(now)
	c.retention.Work(now)
	c.dependency.Work(now)
	c.dependency.Watches.Work(now)
	c.dependency.Forgotten.Work(now)
	c.schedules.Work(now)
	c.sessions.Work(now)
	c.dispatch.Free(now)
	c.leases.Retry(now)
	c.dispatch.ServeHeld(now)
	c.queues.Work(now)
	c.dispatch.Serve(now)
	c.dispatch.Ask(now)
	c.dispatch.Tell(now)
	c.endLeases(now)
	c.replication.Acks.Work(now)
	c.replication.Reads.Work(now) // what goes on then may write
	c.replication.Writes.Work(now)
	c.repairs.Work(now)
	c.transfer.Work(now)
	c.transfer.Quarantine.Work(now)
	c.transfer.Former.Work(now)
	c.repairs.Tend(now)
	c.routes.Work(now)
	c.routes.Deliver()
	c.sessions.Late(now)
	if dropped := c.dropped; len(dropped) > 0 {
		c.dropped = nil
		c.dispatch.Undelivered(now, dropped)
	}
	if err := c.round.Fatal(); err != nil {
		return message.Ready{}, err
	}
	c.vnodes.Flush(c.round.Tx)
	c.standing.Close(now)
	r := c.round.Take()
	if r.Persist != nil {
		c.intake.Disk.Wrote(r.Persist.Size())
	}
	r.WakeWall, r.WakeMono = c.wake()
	return r, nil
}

// Due gives the answers to clients that depend on no later round than one that is durable, and
// need not wait until this one is cut. The others stay for [Core.Ready].
func (c *Core) Due(durable uint64) (due []message.Reply) {
	c.routes.Deliver()
	all := c.round.Ready.Replies
	kept := all[:0]
	for _, r := range all {
		if r.After != 0 && r.After <= durable {
			due = append(due, r)
		} else {
			kept = append(kept, r)
		}
	}
	clear(all[len(kept):])
	c.round.Ready.Replies = kept
	return due
}

// Recycle gives a batch back for reuse once it is applied.
func (c *Core) Recycle(b *store.Batch) { c.round.Tx.Release(b) }

func (c *Core) tick(now clock.Time) {
	if s := c.behind.state; s != nil && c.behind.at <= now.Mono {
		c.learn(now, s)
	}
	c.register.Work(now)
	for v := range c.vnodes.Due(now) {
		c.round.Check(v.Tick(c.round.Tx, now))
	}
	c.timeouts(now)
}

func (c *Core) wake() (wall, mono int64) {
	wall, mono = c.vnodes.Next()
	mono = min(mono, c.dispatch.Due(), c.logs.Due())
	if c.behind.state != nil {
		mono = min(mono, c.behind.at)
	}
	launchWall, launchMono := c.schedules.Due()
	return min(wall, launchWall), min(mono, launchMono, c.retention.Due(), c.replication.Due(), c.repairs.Due(), c.routes.Due(), c.queues.Due(), c.register.Due(), c.transfer.Due(), c.dependency.Due(), c.leases.Due(), c.elector.Next(), c.standing.Due(), c.sessions.Due())
}

// endLeases ends a round: its claims are sent, those go on who waited for that this node still
// leads, or for a pause, and old proposals are given up.
func (c *Core) endLeases(now clock.Time) {
	c.leases.Send(now)
	if min(c.replication.Confirms.Due(), c.leases.AskDue()) <= now.Mono {
		c.replication.Confirms.GoOn(now)
		c.leases.Ask(now)
	}
	c.leases.Reconcile(now)
	c.dispatch.Resume(now)
	c.leases.Expire(now)
}

// Audit tells what the core would overlook: a vnode that something was done with
// behind its back, and invariants of its machines that do not hold. It is for tests; none of
// what it reads comes from a disk.
func (c *Core) Audit() error {
	return errors.Join(c.vnodes.Audit(), c.ground.Pending.Audit(), c.ground.Tenants.Audit(len(c.view.Cells), c.vnodes.See),
		c.dispatch.Audit(), router.Audit(c.routes), c.replication.Audit(), c.logs.Audit(),
		c.transfer.Audit(), c.elector.Audit(), lease.Audit(c.leases), c.standing.Audit(), c.dependency.Audit(),
		c.retention.Audit(), c.repairs.Audit(), c.sessions.Audit(), c.schedules.Audit())
}

// dismissed stops what only members do. What is here may be the only copy: it
// is given to those who keep it now, as the others say ([formerMember]), and deleted as
// a zombie's is, when a majority of them has it.
func (c *Core) dismissed(now clock.Time) {
	if c.view.Dismissed {
		return
	}
	c.view.Dismissed = true
	for p := range c.view.Cells {
		c.elector.StepDown(ring.Partition(p))
	}
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "node %s was removed from the cluster, or another one has taken its place; ask another node", c.cfg.Self.Node).Again(time.Second)
	c.drain(e)
	c.view.Look() // nothing is available here any more
	c.transfer.Learn(now)
}
