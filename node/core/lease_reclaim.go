package core

import (
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// reclaimAgain is the pause between two requests to free the same claims.
	reclaimAgain = 500 * time.Millisecond
	// maxReclaims bounds the claims that are to be freed. Past it their tasks wait for
	// lease and buffer, as they would without.
	maxReclaims = 10000
	// maxReclaimTold is how often a leader in reach is told of a release that cannot be seen
	// to have come there.
	maxReclaimTold = 20
)

// reclaims are grants of this node that it could not take back when it found that
// nobody would hear of them, because it led no longer. Whoever leads now may have
// them from a vote and would keep their tasks for lease and buffer. It is told
// until the claims are gone here too. So it is of claims that this node has released, as the
// leader that it was or thought to be, without a majority that took it: as when it was cut
// off from the others. They are in memory only: a restart forgets who has heard of what.
type reclaims struct {
	c   *Core
	all []*reclaim // in the order in which they came
	has map[message.GrantRef]*reclaim
	at  int64 // mono ns of the next look
}

// reclaim is one of them.
type reclaim struct {
	message.GrantRef
	released bool   // here, already
	epoch    uint64 // then: that of the leader that this node was
	told     int    // so often
	at       int64  // mono ns until which a majority is not asked again
	done     bool   // and to be taken out with the next look: there may be thousands
}

// reclaim notes a grant that nobody will hear of, if it is held here.
func (f *reclaims) reclaim(now clock.Time, g message.GrantRef) {
	if len(f.all) < maxReclaims && f.held(g) && f.has[g] == nil {
		f.note(&reclaim{GrantRef: g})
		f.at = now.Mono
	}
}

func (f *reclaims) note(o *reclaim) { f.all, f.has[o.GrantRef] = append(f.all, o), o }

// releaseFailed notes a release that no majority has taken.
func (f *reclaims) releaseFailed(now clock.Time, pl *proposal) {
	g := message.GrantRef{Partition: pl.p, Task: pl.held.Task, Token: pl.held.Record.Token}
	if len(f.all) < maxReclaims && f.has[g] == nil {
		if len(f.all) == 0 {
			f.at = now.Mono + int64(reclaimAgain)
		}
		f.note(&reclaim{GrantRef: g, released: true, epoch: pl.epoch})
	}
}

// ended notes that a leader has a claim released, or a majority.
func (f *reclaims) ended(p ring.Partition, task id.ID, token uint64) {
	g := message.GrantRef{Partition: p, Task: task, Token: token}
	if o := f.has[g]; o != nil {
		o.done = true
		delete(f.has, g)
	}
}

// askMajority has a majority asked once more, with growing pauses, as far as nothing else finds
// out whether there is one: an ail does while it is set aside.
func (f *reclaims) askMajority(now clock.Time, g *reclaim) {
	cell := &f.c.view.Cells[g.Partition]
	l := f.c.leases.breakers.all[g.Partition]
	if g.at > now.Mono || l != nil && l.open || f.c.elector.Reach(cell) < quorum.Majority(len(cell.Cohort)) {
		return
	}
	g.told++
	g.at = now.Mono + int64(reclaimAgain)<<min(g.told, 10)
	f.c.leases.add(g.Partition, g.Task, &claim.Record{Token: g.Token, Outcome: claim.Released}, true)
}

// over looks at one of them where this node can end the matter, and tells whether it has.
func (f *reclaims) over(now clock.Time, g *reclaim) bool {
	lead := f.c.vnodes.See(g.Partition).Leading()
	switch {
	case !g.released && !f.held(g.GrantRef): // its leader has ended it
	case !g.released && lead != 0:
		f.c.leases.takeBack(now, g.GrantRef)
	case g.released && (g.told >= maxReclaimTold || lead > g.epoch): // those who have voted for this node since were told of it
	case g.released && lead != 0:
		f.askMajority(now, g)
		return false
	default:
		return false
	}
	delete(f.has, g.GrantRef)
	return true
}

func (f *reclaims) held(g message.GrantRef) bool {
	return len(vnode.Unheld(f.c.vnodes.See(g.Partition), heldAs([]message.GrantRef{g}))) == 0
}

// heldAs gives claims as releases.
func heldAs(all []message.GrantRef) (held []vnode.Held) {
	for _, g := range all {
		h := vnode.Held{Task: g.Task, Released: true}
		h.Record.Token = g.Token
		held = append(held, h)
	}
	return vnode.Join(held)
}

// work frees what this node leads again, and tells the leaders of the rest.
func (f *reclaims) work(now clock.Time) {
	if len(f.all) == 0 || f.at > now.Mono {
		return
	}
	f.at = now.Mono + int64(reclaimAgain)
	to := make(map[register.Member]map[ring.Partition][]message.GrantRef)
	left := f.all[:0]
	for _, g := range f.all {
		if g.done || f.over(now, g) {
			continue
		}
		leader, ok := placement.Leading(&f.c.view.Cells[g.Partition])
		if !ok || leader == f.c.cfg.Self || !f.c.view.Up(leader) {
			left = append(left, g)
			continue
		}
		g.told++
		left = append(left, g)
		if to[leader] == nil {
			to[leader] = make(map[ring.Partition][]message.GrantRef)
		}
		to[leader][g.Partition] = append(to[leader][g.Partition], g.GrantRef)
	}
	clear(f.all[len(left):])
	f.all = left
	for _, m := range view.MembersOf(to) {
		word := &message.ReclaimLease{}
		for p := range f.c.view.Cells { // in order
			p := ring.Partition(p)
			if all := to[m][p]; len(all) > 0 {
				word.Parts = append(word.Parts, message.PartClaims{Partition: p, Epoch: f.c.view.Cells[p].Epoch, Claims: vnode.AppendHeld(nil, heldAs(all))})
			}
		}
		f.c.round.Send(m, word)
	}
}

// take frees what another node has granted under an epoch before this leader's.
// A claim that is not known here may still come from a member that holds it: it
// is noted as released.
func (f *reclaims) take(now clock.Time, m *message.ReclaimLease) {
	for i := range m.Parts {
		part := &m.Parts[i]
		if int(part.Partition) >= len(f.c.view.Cells) {
			continue
		}
		v := f.c.vnodes.Use(part.Partition)
		all, err := vnode.DecodeHeld(part.Claims)
		if err != nil || v.Leading() == 0 {
			continue // it is asked again, or somebody else
		}
		for i := range all {
			h := &all[i]
			if !h.Released || h.Record.Token>>32 >= v.Leading() || ring.Of(h.Task, len(f.c.view.Cells)) != part.Partition {
				continue
			}
			if !f.c.round.Check(vnode.AcceptRelease(v, f.c.round.Tx, h.Task, h.Record.Token, now)) {
				return
			}
			f.c.leases.add(part.Partition, h.Task, &claim.Record{Token: h.Record.Token, Outcome: claim.Released}, true)
		}
	}
}

// next is when something is due, mono ns.
func (f *reclaims) next() int64 {
	if len(f.all) == 0 {
		return clock.Never
	}
	return f.at
}
