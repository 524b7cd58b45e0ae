package lease

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// Timeout is how long a claim waits for its majority. Then it is released:
// nobody has heard of it.
const Timeout = 2 * time.Second

// Machine brings the claims of this node to a majority of their cohorts before
// anybody hears of them (K3). All of a round travel together.
type Machine struct {
	// Skewed counts members that refused a claim because its clock is far from theirs, Undelivered
	// claims that ended here because nobody will hear of them.
	Skewed, Undelivered uint64

	env    Env
	fresh  []*Proposal // of this round
	number uint64
	// Invariant: open is in the order of numbers and of times. [Machine.Taken] finds a batch by
	// bisection and [Machine.Expire] looks at the first one only (Audit).
	open        []*batch      // by number
	reconcileAt int64         // mono ns of the next look for claims that are stuck
	reclaims    reclaims      // grants that others have to take back
	breakers    breakers      // partitions whose grants reach no majority
	confirms    confirmations // partitions of which it is asked who leads them
}

// New makes a machine that has nothing on its way.
func New(env Env) *Machine {
	return &Machine{
		env: env, breakers: breakers{all: make(map[ring.Partition]*breaker)}, reclaims: reclaims{has: make(map[message.GrantRef]*reclaim)},
		confirms: confirmations{asked: make(map[ring.Partition]int64), last: make(map[ring.Partition]int64)},
	}
}

// Proposal is a grant, renewal or release that waits for its majority.
type Proposal struct {
	// Partition is that of the task.
	Partition ring.Partition
	// Saved is where the task's worker is to go on, by those who hold it; nil: nobody has said.
	Saved        *crdt.Update
	held         vnode.Held
	owner        *pendingAnswer // whose answer waits for it; nil: nobody's
	state        proposalState
	epoch        uint64
	tripsBreaker bool // failed, as any other one of its partition would have: nobody has refused it for itself
	// Invariant: it is decided together with this one (Audit).
	twin *Proposal // an earlier one of the round about the same claim; decided with this one
}

// Committed tells whether a majority has it, Failed that none will have it any more.
func (pl *Proposal) Committed() bool { return pl.state == committed }

// Failed is the opposite of [Proposal.Committed] once it is decided.
func (pl *Proposal) Failed() bool { return pl.state == failed }

// proposalState is what has become of a proposal. It leaves waiting once and never changes
// after that.
type proposalState uint8

const (
	waiting proposalState = iota
	committed
	failed
)

// pendingAnswer is an answer that waits for its pledges. Its finish runs once all of them
// are decided.
type pendingAnswer struct {
	pledges []*Proposal
	// Invariant: left is how many of the pledges are not decided: finish runs exactly once,
	// when it falls to 0. Too high, and the client waits for ever; too low, and it is told of a
	// claim that no majority holds (Audit).
	left   int
	finish func(clock.Time)
}

// batch is one round of pledges on its way.
type batch struct {
	number uint64
	parts  []*batchPart
	until  int64 // mono ns
}

// batchPart counts who has the claims of one partition.
type batchPart struct {
	p          ring.Partition
	epoch      uint64
	cohort     []register.Member
	pledges    []*Proposal
	tally      *quorum.Tally[register.Member]
	acks       []register.Member
	no         []register.Member         // who have taken nothing of it
	refused    map[int][]register.Member // by pledge
	own        bool                      // one of them for what it claims
	confirmsAt int64                     // mono ns: whether this node leads alone then is asked; 0: it is not, or known
	open       int
}

// Shared tells whether others hold claims of a partition too.
func (g *Machine) Shared(p ring.Partition) bool { return !g.env.alone(p) }

// Propose has a claim of this round brought to the others. It gives nil where there
// are none: then it is decided by this node's own disk.
func (g *Machine) Propose(p ring.Partition, task id.ID, r *claim.Record, released bool) *Proposal {
	if !g.Shared(p) {
		return nil
	}
	pl := &Proposal{Partition: p, held: vnode.Held{Task: task, Record: *r, Released: released}, epoch: g.env.Partitions.See(p).Leading()}
	g.fresh = append(g.fresh, pl)
	return pl
}

// Await has an answer wait for its pledges; finish is called at once when there is
// nothing to wait for.
//
// pledges may have nil entries, for claims that this node's own disk decides. finish runs in
// this call or in a later round, and never concurrently: a machine has one caller.
func (g *Machine) Await(now clock.Time, pledges []*Proposal, finish func(clock.Time)) {
	o := &pendingAnswer{finish: finish}
	for _, pl := range pledges {
		if pl == nil {
			continue
		}
		o.pledges = append(o.pledges, pl)
		pl.owner = o
		if pl.state == waiting {
			o.left++
		}
	}
	if o.left == 0 {
		finish(now)
	}
}

// decide ends the waiting of a pledge.
//
// It may run finish, which may propose more; so whoever decides several looks at its own state
// anew after each.
func (g *Machine) decide(now clock.Time, pl *Proposal, to proposalState) {
	if pl.state != waiting {
		return
	}
	pl.state = to
	switch {
	case !pl.held.Released:
	case to == committed:
		g.breakers.confirm(g.env.Round.Now, pl.Partition)
		g.reclaims.ended(pl.Partition, pl.held.Task, pl.held.Record.Token)
	default:
		g.reclaims.releaseFailed(now, pl)
	}
	if pl.twin != nil {
		g.decide(now, pl.twin, to)
	}
	if o := pl.owner; o != nil {
		if o.left--; o.left == 0 {
			o.finish(now)
		}
	}
}

// Send begins the end of a round: its claims are sent, and what others are to take back is told.
func (g *Machine) Send(now clock.Time) {
	g.reclaim(now)
	if len(g.fresh) > 0 {
		g.begin(now)
	}
}

// Expire gives old rounds up.
func (g *Machine) Expire(now clock.Time) {
	for len(g.open) > 0 && g.open[0].until <= now.Mono {
		o := g.open[0]
		g.open = g.open[1:]
		for _, part := range o.parts {
			for i, pl := range part.pledges {
				pl.tripsBreaker = part.tripsBreaker(i)
				g.decide(now, pl, failed)
			}
		}
	}
}

// begin sends the pledges of the round.
func (g *Machine) begin(now clock.Time) {
	fresh := g.fresh
	g.fresh = nil
	slices.SortStableFunc(fresh, func(a, b *Proposal) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), a.held.Task.Compare(b.held.Task), cmp.Compare(a.held.Record.Token, b.held.Record.Token))
	})
	var parts []*batchPart
	for len(fresh) > 0 {
		n := 1
		for n < len(fresh) && fresh[n].Partition == fresh[0].Partition {
			n++
		}
		if part := g.part(now, fresh[:n]); part != nil {
			parts = append(parts, part)
		}
		fresh = fresh[n:]
	}
	g.send(now, parts)
}

// send begins a round: each member of the cohorts is sent its parts.
func (g *Machine) send(now clock.Time, parts []*batchPart) {
	if g.number == 0 {
		if g.number = g.env.Rand.Uint64() | 1; g.env.Policy.OldGrants {
			g.number = 1
		} // answers to the process before this one match nothing
	}
	g.number++
	to := make(map[register.Member]*message.Claims)
	for _, part := range parts {
		m := message.PartClaims{Partition: part.p, Epoch: part.epoch, Claims: vnode.AppendHeld(nil, heldOf(part.pledges))}
		for _, peer := range part.cohort {
			if peer != g.env.Self {
				mail := round.For(to, peer)
				mail.Round, mail.Parts = g.number, append(mail.Parts, m)
			}
		}
	}
	round.SendAll(g.env.Round.SendNow, to)
	if len(parts) > 0 {
		g.open = append(g.open, &batch{number: g.number, parts: parts, until: now.Mono + int64(Timeout)})
	}
	for _, part := range parts {
		g.settle(now, part) // a cohort of one is its own majority
	}
}

// part makes the pledges of one partition ready for their way. Of several about
// one claim the last says it all; the others are decided with it.
func (g *Machine) part(now clock.Time, all []*Proposal) *batchPart {
	p := all[0].Partition
	epoch := g.env.Partitions.See(p).Leading()
	part := &batchPart{p: p, epoch: epoch, cohort: g.env.View.Cells[p].Cohort}
	if g.env.Policy.PlannedCohort {
		if planned := g.env.Planned(p); len(planned) > 0 {
			part.cohort = planned
		}
	}
	for i, pl := range all {
		switch {
		case epoch == 0 || pl.epoch != epoch:
			g.decide(now, pl, failed) // it does not lead any more
		case i+1 < len(all) && all[i+1].held.Task == pl.held.Task && all[i+1].held.Record.Token == pl.held.Record.Token && all[i+1].epoch == epoch:
			all[i+1].twin = pl
		default:
			part.pledges = append(part.pledges, pl)
		}
	}
	if len(part.pledges) == 0 {
		return nil
	}
	part.await(g.env.Self)
	return part
}

// await begins to count who has what a part says.
func (part *batchPart) await(self register.Member) {
	part.tally = quorum.NewTally(part.cohort)
	part.tally.Add(self) // answers never leave before the sync of their round
	part.open = len(part.pledges)
}

// heldOf gives the records of proposals as they travel.
func heldOf(pledges []*Proposal) []vnode.Held {
	all := make([]vnode.Held, len(pledges))
	for i, pl := range pledges {
		all[i] = pl.held
	}
	return all
}

// Stop gives up what waits for a partition that this node leads no longer.
//
// Some members may have taken a proposal that fails here. Whoever leads next hears of it in
// their votes; what the client is told is that its outcome is unknown, or that nothing was
// granted.
func (g *Machine) Stop(p ring.Partition) {
	now := g.env.Round.Now
	delete(g.breakers.all, p)
	g.confirms.stop(p)
	for _, pl := range g.fresh {
		if pl.Partition == p {
			g.decide(now, pl, failed)
		}
	}
	for _, o := range g.open {
		for _, part := range o.parts {
			if part.p == p {
				for _, pl := range part.pledges {
					if g.env.Policy.StaleLeader {
						g.decide(now, pl, committed)
						continue
					}
					g.decide(now, pl, failed)
				}
			}
		}
	}
}

// Due is when something is due, mono ns.
func (g *Machine) Due() int64 {
	at := clock.Never
	if !g.env.View.Alone {
		at = g.reconcileAt
	}
	if len(g.open) > 0 {
		at = min(at, g.open[0].until)
	}
	return min(at, g.reclaims.next(), g.breakers.next(), g.AskDue())
}

// Owns tells whether a claim is a principal's own. Where either is not known everybody's are:
// nobody has to show who it is, or an older build has passed the request on.
func (g *Machine) Owns(r *claim.Record, principal string) bool {
	return principal == "" || r.Principal == "" || r.Principal == principal || g.env.Policy.ClaimOfOthers
}
