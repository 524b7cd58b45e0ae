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

// grants brings the claims of this node to a majority of their cohorts before
// anybody hears of them (K3). All of a round travel together.
type grants struct {
	c       *Core
	fresh   []*pledge // of this round
	number  uint64
	open    []*pledged // by number
	alignAt int64      // mono ns of the next look for claims that are stuck
	later   []later    // claim requests whose grants reached no majority
	frees   frees      // grants that others have to take back
	ails    ails       // partitions whose grants reach no majority
	soles   soles      // partitions of which it is asked who leads them
	passed  uint64     // grants that were released because they did not reach a majority

	dealing map[message.Origin]*waiter // claim requests whose grants are on their way, by connection and number
}

func newGrants(c *Core) *grants {
	g := &grants{c: c, dealing: make(map[message.Origin]*waiter), ails: ails{c: c, all: make(map[ring.Partition]*ail)}, frees: frees{c: c, has: make(map[message.GrantRef]*free)}}
	g.soles = soles{g: g, asked: make(map[ring.Partition]int64), last: make(map[ring.Partition]int64)}
	c.desk.hides = g.ails.hides
	return g
}

// pledge is a grant, renewal or release that waits for its majority.
type pledge struct {
	p     ring.Partition
	held  vnode.Held
	owner *owed // whose answer waits for it; nil: nobody's
	state pledgeState
	epoch uint64
	ails  bool         // failed, as any other one of its partition would have: nobody has refused it for itself
	saved *crdt.Update // where the task's worker is to go on, by those who hold it; nil: nobody has said
	twin  *pledge      // an earlier one of the round about the same claim; decided with this one
}

type pledgeState uint8

const (
	waiting pledgeState = iota
	committed
	failed
)

// owed is an answer that waits for its pledges. Its finish runs once all of them
// are decided.
type owed struct {
	pledges []*pledge
	left    int
	finish  func(clock.Time)
}

// pledged is one round of pledges on its way.
type pledged struct {
	number uint64
	parts  []*pledgedPart
	until  int64 // mono ns
}

// pledgedPart counts who has the claims of one partition.
type pledgedPart struct {
	p       ring.Partition
	epoch   uint64
	cohort  []register.Member
	pledges []*pledge
	tally   *quorum.Tally[register.Member]
	acks    []register.Member
	no      []register.Member         // who have taken nothing of it
	refused map[int][]register.Member // by pledge
	own     bool                      // one of them for what it claims
	sole    int64                     // mono ns: whether this node leads alone then is asked; 0: it is not, or known
	open    int
}

// shared tells whether others hold claims of a partition too.
func (g *grants) shared(p ring.Partition) bool { return !g.c.writes.alone(p) }

// add has a claim of this round brought to the others. It gives nil where there
// are none: then it is decided by this node's own disk.
func (g *grants) add(p ring.Partition, task id.ID, r *claim.Record, released bool) *pledge {
	if !g.shared(p) {
		return nil
	}
	pl := &pledge{p: p, held: vnode.Held{Task: task, Record: *r, Released: released}, epoch: g.c.vnodes.See(p).Leading()}
	g.fresh = append(g.fresh, pl)
	return pl
}

// owe has an answer wait for its pledges; finish is called at once when there is
// nothing to wait for.
func (g *grants) owe(now clock.Time, pledges []*pledge, finish func(clock.Time)) {
	o := &owed{finish: finish}
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
func (g *grants) decide(now clock.Time, pl *pledge, to pledgeState) {
	if pl.state != waiting {
		return
	}
	pl.state = to
	switch {
	case !pl.held.Released:
	case to == committed:
		g.ails.released(pl.p)
		g.frees.heard(pl.p, pl.held.Task, pl.held.Record.Token)
	default:
		g.frees.lost(now, pl)
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
func (g *grants) work(now clock.Time) {
	g.frees.work(now)
	if len(g.fresh) > 0 {
		g.begin(now)
	}
	g.soles.work(now)
	if !g.c.view.Alone {
		g.align(now)
	}
	for len(g.later) > 0 && g.later[0].at <= now.Mono {
		w := g.later[0].w
		g.later = g.later[1:]
		g.c.pursue(now, w)
	}
	for len(g.open) > 0 && g.open[0].until <= now.Mono {
		o := g.open[0]
		g.open = g.open[1:]
		for _, part := range o.parts {
			for i, pl := range part.pledges {
				pl.ails = part.ails(i)
				g.decide(now, pl, failed)
			}
		}
	}
}

// begin sends the pledges of the round.
func (g *grants) begin(now clock.Time) {
	fresh := g.fresh
	g.fresh = nil
	slices.SortStableFunc(fresh, func(a, b *pledge) int {
		return cmp.Or(cmp.Compare(a.p, b.p), a.held.Task.Compare(b.held.Task), cmp.Compare(a.held.Record.Token, b.held.Record.Token))
	})
	var parts []*pledgedPart
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
func (g *grants) send(now clock.Time, parts []*pledgedPart) {
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
			if peer == g.c.cfg.Self {
				continue
			}
			if to[peer] == nil {
				to[peer] = &message.Claims{Round: g.number}
			}
			to[peer].Parts = append(to[peer].Parts, m)
		}
	}
	for _, peer := range membersOf(to) {
		g.c.round.Ready.Early = append(g.c.round.Ready.Early, message.Send{To: peer, Message: to[peer]})
	}
	if len(parts) > 0 {
		g.open = append(g.open, &pledged{number: g.number, parts: parts, until: now.Mono + int64(grantTimeout)})
	}
	for _, part := range parts {
		g.settle(now, part) // a cohort of one is its own majority
	}
}

// part makes the pledges of one partition ready for their way. Of several about
// one claim the last says it all; the others are decided with it.
func (g *grants) part(now clock.Time, all []*pledge) *pledgedPart {
	p := all[0].p
	epoch := g.c.vnodes.See(p).Leading()
	part := &pledgedPart{p: p, epoch: epoch, cohort: g.c.view.Cells[p].Cohort}
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
func (part *pledgedPart) await(self register.Member) {
	part.tally = quorum.NewTally(part.cohort)
	part.tally.Add(self) // answers never leave before the sync of their round
	part.open = len(part.pledges)
}

// planned gives the cohort that a partition is planned to have, for a mutant.
func (g *grants) planned(p ring.Partition) []register.Member {
	if planned := g.c.moves.driver.View().Planned(p); len(planned) > 0 {
		return planned
	}
	return g.c.view.Cells[p].Cohort
}

func heldOf(pledges []*pledge) []vnode.Held {
	all := make([]vnode.Held, len(pledges))
	for i, pl := range pledges {
		all[i] = pl.held
	}
	return all
}

// stop gives up what waits for a partition that this node leads no longer.
func (g *grants) stop(p ring.Partition) {
	now := g.c.now
	delete(g.ails.all, p)
	g.soles.stop(p)
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
func (g *grants) next() int64 {
	at := clock.Never
	if !g.c.view.Alone {
		at = g.alignAt
	}
	if len(g.open) > 0 {
		at = min(at, g.open[0].until)
	}
	if len(g.later) > 0 {
		at = min(at, g.later[0].at)
	}
	return min(at, g.frees.next(), g.ails.next(), g.soles.next())
}

// later is a claim request that is looked at again: what it would have been
// granted did not reach a majority. Without a pause a member that refuses would
// be asked as fast as it can answer.
type later struct {
	at int64 // mono ns
	w  *waiter
}

// laterAfter is the first pause of a [later]. It doubles up to maxLater: each try stays
// in the history of its task, and a member may refuse for hours while another is down.
const laterAfter, maxLater = 50 * time.Millisecond, 500 * time.Millisecond

// postpone has a claim request looked at again after its pause.
func (g *grants) postpone(now clock.Time, w *waiter) {
	l := later{now.Add(min(laterAfter<<min(w.fails, 10), maxLater)).Mono, w}
	w.fails++
	at := len(g.later)
	for at > 0 && g.later[at-1].at > l.at {
		at--
	}
	g.later = slices.Insert(g.later, at, l)
}

// recall takes out the postponed requests that are meant.
func (g *grants) recall(is func(*waiter) bool) (all []*waiter) {
	g.later = slices.DeleteFunc(g.later, func(l later) bool {
		found := is(l.w)
		if found {
			all = append(all, l.w)
		}
		return found
	})
	return all
}
