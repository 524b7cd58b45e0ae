package dispatch

import (
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Machine brings ready tasks and those who ask for them together, here and at other leaders.
type Machine struct {
	Env
	// RankErrors and Waits count grants by how many better tasks were ready elsewhere, and by
	// how long their tasks had to wait; Claimed counts them all.
	RankErrors RankErrors
	Waits      decided.Waits
	Claimed    uint64
	// Index has the ready tasks and who waits for them.
	Index *Index

	offers    offers
	remote    *remoteClaims
	gossip    *headGossip
	probes    *freshnessProbes
	abandoned *abandonedClaims
	limited   bool         // claims were held back by MaxClaims
	closed    *proto.Error // why nothing is granted any more; nil: it is
}

// New makes one that nobody has asked anything.
func New(env Env) *Machine {
	c := &Machine{Env: env, Index: newIndex()}
	c.Index.most, c.Index.partitions, c.Index.tenants, c.Index.policy = max(env.MaxQueues, 1), env.PartitionCount, env.Tenants, env.Policy
	c.remote, c.gossip, c.probes, c.abandoned = newRemoteClaims(c), newHeadGossip(c), &freshnessProbes{c: c}, newAbandonedClaims(c)
	c.Index.changed, c.Index.see = c.gossip.changed, func(p ring.Partition) *vnode.Vnode { return c.Partitions.See(p) }
	c.Index.hides = func(p ring.Partition, name string, ready bool) bool {
		return c.Leases != nil && c.Leases.Hides(p, name, ready)
	}
	c.Index.wait = c.waits
	return c
}

// Due is when something is due, mono ns.
func (c *Machine) Due() int64 {
	return min(c.Index.nextDeadline(), c.remote.nextAsk(), c.gossip.nextNews(), c.probes.nextHeld(), c.offers.nextPause(), c.abandoned.nextWord())
}

// Free ends what requests that were given up have got, and tells the other nodes of them.
func (c *Machine) Free(now clock.Time) { c.abandoned.spread(now) }

// ServeHeld serves requests that know enough of the other leaders.
func (c *Machine) ServeHeld(now clock.Time) { c.probes.serveHeld(now) }

// Ask asks other leaders for those who wait.
func (c *Machine) Ask(now clock.Time) { c.remote.askAgain(now) }

// Tell tells other nodes of what is ready here.
func (c *Machine) Tell(now clock.Time) { c.gossip.tell(now) }

// Resume has requests go on whose pause is over.
func (c *Machine) Resume(now clock.Time) {
	for w := c.offers.due(now); w != nil; w = c.offers.due(now) {
		c.pursue(now, w)
	}
}

// Heads takes news and questions of another node about its queues.
func (c *Machine) Heads(now clock.Time, from register.Member, m *message.QueueHeads) {
	c.remote.learn(now, from, m)
	c.probes.inquired(now, from, m)
}

// GivenUp hears from another node of requests that were given up.
func (c *Machine) GivenUp(now clock.Time, m *message.AbandonClaims) { c.abandoned.hear(now, m) }

// Returned tells a node that has come in reach of requests that were given up.
func (c *Machine) Returned(now clock.Time) { c.abandoned.returned(now) }

// Won frees, of a partition that this node leads now, what requests given up have got.
func (c *Machine) Won(now clock.Time, p ring.Partition) { c.abandoned.free(now, p) }

// Learned looks at a claim that this leader has just heard of.
func (c *Machine) Learned(now clock.Time, p ring.Partition, task id.ID, r *claim.Record) {
	c.abandoned.learned(now, p, task, r)
}

// Leaders are the other nodes that lead something and are in reach, in order.
func (c *Machine) Leaders() []register.Member { return c.remote.leaders() }

// Resumed has those who wait for a queue that was paused asked for where there is something.
func (c *Machine) Resumed(now clock.Time, name string) { c.remote.resumed(now, name) }

// Waiting is how many requests wait.
func (c *Machine) Waiting() int { return len(c.Index.byTime) }

// Passed is how many grants were taken back because they reached no majority.
func (c *Machine) Passed() uint64 { return c.offers.passed }

// waits has a request found by who gives it up, while it waits for a task.
func (c *Machine) waits(w *claimRequest) *waiting.Wait {
	return c.Pending.Open(waiting.Task, w.from, func(why *proto.Error) {
		c.Index.drop(w)
		c.refuse(w.from, why)
	})
}

// pause has a claim request looked at again after its pause.
func (c *Machine) pause(now clock.Time, w *claimRequest) {
	w.waits = c.Pending.Open(waiting.Pause, w.from, func(why *proto.Error) {
		c.offers.recall(func(o *claimRequest) bool { return o == w })
		c.refuse(w.from, why)
	})
	c.offers.postpone(now, w)
}

// refuse tells why a request does not wait any longer; nil: nobody is there to be told.
func (c *Machine) refuse(from message.Origin, why *proto.Error) {
	if why != nil {
		c.Round.Refuse(from, why)
	}
}

// Gone forgets what is known of a closed connection.
func (c *Machine) Gone(conn uint64) { delete(c.Index.lines, conn) }

// Drain grants nothing any more.
func (c *Machine) Drain(why *proto.Error) { c.closed = why }

// Held counts what a machine has in memory.
type Held struct {
	Postponed, Remote, Probes int // claim requests, by what they wait for
	Queues, Paused, Asked     int // queues with work or waiters, those that are paused, and requests whose grants are remembered
	Known                     int // queues of other leaders of which it is known what they have, in order
	Subscribed, Subscribers   int // queues that others have asked for, and how many wait for one
	Abandoned, Told           int // requests that were given up, and those of which others are told
	Bytes                     int // of the requests that wait
}

// Held counts that. It costs as much as there is.
func (c *Machine) Held() Held {
	h := Held{
		Postponed: len(c.offers.postponed), Remote: len(c.remote.asked), Probes: len(c.probes.held),
		Queues: len(c.Index.queues), Paused: len(c.Index.paused), Asked: len(c.Index.asked), Bytes: c.Index.bytes,
		Subscribed: len(c.gossip.subscribers), Abandoned: max(len(c.abandoned.known), len(c.abandoned.order)), Told: len(c.abandoned.told),
	}
	for _, queues := range c.remote.heads { // Any order: they are counted.
		for _, q := range queues { // Any order: likewise.
			if q.known && q.ready && q.marks.N > 0 {
				h.Known++
			}
		}
	}
	for _, s := range c.gossip.subscribers { // Any order: likewise.
		h.Subscribers += len(s.waits)
	}
	return h
}

// DropAbandoned forgets the requests that were given up, as the process after this one does.
func (c *Machine) DropAbandoned() { c.abandoned.drop(len(c.abandoned.order)) }
