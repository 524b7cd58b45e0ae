package core

import (
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// grantTimeout is how long a claim waits for its majority. Then it is released:
// nobody has heard of it.
const grantTimeout = 2 * time.Second

// grantPatience is for how long a claim request that does not wait is tried again: once
// more after a message that was lost. Then it is told that there is no majority.
const grantPatience = 2 * grantTimeout

// leases brings the claims of this node to a majority of their cohorts before
// anybody hears of them (K3). All of a round travel together.
type leases struct {
	c           *Core
	fresh       []*proposal // of this round
	number      uint64
	open        []*batch         // by number
	reconcileAt int64            // mono ns of the next look for claims that are stuck
	postponed   []postponedClaim // claim requests whose grants reached no majority
	reclaims    reclaims         // grants that others have to take back
	breakers    breakers         // partitions whose grants reach no majority
	leadership  confirmations    // partitions of which it is asked who leads them
	passed      uint64           // grants that were released because they did not reach a majority

	offered map[message.Origin]*claimRequest // claim requests whose grants are on their way, by connection and number
}

func newLeases(c *Core) *leases {
	g := &leases{c: c, offered: make(map[message.Origin]*claimRequest), breakers: breakers{c: c, all: make(map[ring.Partition]*breaker)}, reclaims: reclaims{c: c, has: make(map[message.GrantRef]*reclaim)}}
	g.leadership = confirmations{g: g, asked: make(map[ring.Partition]int64), last: make(map[ring.Partition]int64)}
	c.readyIndex.hides = g.breakers.hides
	return g
}

// proposal is a grant, renewal or release that waits for its majority.
type proposal struct {
	p            ring.Partition
	held         vnode.Held
	owner        *pendingAnswer // whose answer waits for it; nil: nobody's
	state        proposalState
	epoch        uint64
	tripsBreaker bool         // failed, as any other one of its partition would have: nobody has refused it for itself
	saved        *crdt.Update // where the task's worker is to go on, by those who hold it; nil: nobody has said
	twin         *proposal    // an earlier one of the round about the same claim; decided with this one
}

type proposalState uint8

const (
	waiting proposalState = iota
	committed
	failed
)

// pendingAnswer is an answer that waits for its pledges. Its finish runs once all of them
// are decided.
type pendingAnswer struct {
	pledges []*proposal
	left    int
	finish  func(clock.Time)
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
	pledges    []*proposal
	tally      *quorum.Tally[register.Member]
	acks       []register.Member
	no         []register.Member         // who have taken nothing of it
	refused    map[int][]register.Member // by pledge
	own        bool                      // one of them for what it claims
	confirmsAt int64                     // mono ns: whether this node leads alone then is asked; 0: it is not, or known
	open       int
}

// shared tells whether others hold claims of a partition too.
func (g *leases) shared(p ring.Partition) bool { return !g.c.quorumWrites.alone(p) }

// add has a claim of this round brought to the others. It gives nil where there
// are none: then it is decided by this node's own disk.
func (g *leases) add(p ring.Partition, task id.ID, r *claim.Record, released bool) *proposal {
	if !g.shared(p) {
		return nil
	}
	pl := &proposal{p: p, held: vnode.Held{Task: task, Record: *r, Released: released}, epoch: g.c.vnodes.See(p).Leading()}
	g.fresh = append(g.fresh, pl)
	return pl
}

// await has an answer wait for its pledges; finish is called at once when there is
// nothing to wait for.
func (g *leases) await(now clock.Time, pledges []*proposal, finish func(clock.Time)) {
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
func (g *leases) decide(now clock.Time, pl *proposal, to proposalState) {
	if pl.state != waiting {
		return
	}
	pl.state = to
	switch {
	case !pl.held.Released:
	case to == committed:
		g.breakers.confirm(pl.p)
		g.reclaims.ended(pl.p, pl.held.Task, pl.held.Record.Token)
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

// work ends a round: its claims are sent, and old ones given up.
func (g *leases) work(now clock.Time) {
	g.reclaims.work(now)
	if len(g.fresh) > 0 {
		g.begin(now)
	}
	g.leadership.work(now)
	if !g.c.view.Alone {
		g.reconcileLeases(now)
	}
	for len(g.postponed) > 0 && g.postponed[0].at <= now.Mono {
		w := g.postponed[0].w
		g.postponed = g.postponed[1:]
		g.c.pursue(now, w)
	}
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
func (g *leases) begin(now clock.Time) {
	fresh := g.fresh
	g.fresh = nil
	slices.SortStableFunc(fresh, func(a, b *proposal) int {
		return cmp.Or(cmp.Compare(a.p, b.p), a.held.Task.Compare(b.held.Task), cmp.Compare(a.held.Record.Token, b.held.Record.Token))
	})
	var parts []*batchPart
	for len(fresh) > 0 {
		n := 1
		for n < len(fresh) && fresh[n].p == fresh[0].p {
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
func (g *leases) send(now clock.Time, parts []*batchPart) {
	if g.number == 0 {
		if g.number = g.c.cfg.Rand.Uint64() | 1; mutant.OldGrants.On() {
			g.number = 1
		} // answers to the process before this one match nothing
	}
	g.number++
	to := make(map[register.Member]*message.Claims)
	for _, part := range parts {
		m := message.PartClaims{Partition: part.p, Epoch: part.epoch, Claims: vnode.AppendHeld(nil, heldOf(part.pledges))}
		for _, peer := range part.cohort {
			if peer != g.c.cfg.Self {
				mail := round.For(to, peer)
				mail.Round, mail.Parts = g.number, append(mail.Parts, m)
			}
		}
	}
	round.SendAll(g.c.round.SendNow, to)
	if len(parts) > 0 {
		g.open = append(g.open, &batch{number: g.number, parts: parts, until: now.Mono + int64(grantTimeout)})
	}
	for _, part := range parts {
		g.settle(now, part) // a cohort of one is its own majority
	}
}

// part makes the pledges of one partition ready for their way. Of several about
// one claim the last says it all; the others are decided with it.
func (g *leases) part(now clock.Time, all []*proposal) *batchPart {
	p := all[0].p
	epoch := g.c.vnodes.See(p).Leading()
	part := &batchPart{p: p, epoch: epoch, cohort: g.c.view.Cells[p].Cohort}
	if mutant.PlannedCohort.On() {
		part.cohort = g.planned(p)
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
	part.await(g.c.cfg.Self)
	return part
}

// await begins to count who has what a part says.
func (part *batchPart) await(self register.Member) {
	part.tally = quorum.NewTally(part.cohort)
	part.tally.Add(self) // answers never leave before the sync of their round
	part.open = len(part.pledges)
}

// planned gives the cohort that a partition is planned to have, for a mutant.
func (g *leases) planned(p ring.Partition) []register.Member {
	if planned := g.c.transfer.driver.View().Planned(p); len(planned) > 0 {
		return planned
	}
	return g.c.view.Cells[p].Cohort
}

func heldOf(pledges []*proposal) []vnode.Held {
	all := make([]vnode.Held, len(pledges))
	for i, pl := range pledges {
		all[i] = pl.held
	}
	return all
}

// stop gives up what waits for a partition that this node leads no longer.
func (g *leases) stop(p ring.Partition) {
	now := g.c.round.Now
	delete(g.breakers.all, p)
	g.leadership.stop(p)
	for _, pl := range g.fresh {
		if pl.p == p {
			g.decide(now, pl, failed)
		}
	}
	for _, o := range g.open {
		for _, part := range o.parts {
			if part.p == p {
				for _, pl := range part.pledges {
					if mutant.StaleLeader.On() {
						g.decide(now, pl, committed)
						continue
					}
					g.decide(now, pl, failed)
				}
			}
		}
	}
}

// next is when something is given up, mono ns.
func (g *leases) next() int64 {
	at := clock.Never
	if !g.c.view.Alone {
		at = g.reconcileAt
	}
	if len(g.open) > 0 {
		at = min(at, g.open[0].until)
	}
	if len(g.postponed) > 0 {
		at = min(at, g.postponed[0].at)
	}
	return min(at, g.reclaims.next(), g.breakers.next(), g.leadership.next())
}

// postponedClaim is a claim request that is looked at again: what it would have been
// granted did not reach a majority. Without a pause a member that refuses would
// be asked as fast as it can answer.
type postponedClaim struct {
	at int64 // mono ns
	w  *claimRequest
}

// postpones are the pauses of a [postponedClaim]: each try stays in the history of its
// task, and a member may refuse for hours while another is down.
var postpones = clock.Backoff{First: 50 * time.Millisecond, Most: 500 * time.Millisecond}

// postpone has a claim request looked at again after its pause.
func (g *leases) postpone(now clock.Time, w *claimRequest) {
	l := postponedClaim{now.Add(postpones.Pause(w.fails)).Mono, w}
	w.fails++
	at := len(g.postponed)
	for at > 0 && g.postponed[at-1].at > l.at {
		at--
	}
	g.postponed = slices.Insert(g.postponed, at, l)
}

// recall takes out the postponed requests that are meant.
func (g *leases) recall(is func(*claimRequest) bool) (all []*claimRequest) {
	g.postponed = slices.DeleteFunc(g.postponed, func(l postponedClaim) bool {
		found := is(l.w)
		if found {
			all = append(all, l.w)
		}
		return found
	})
	return all
}
