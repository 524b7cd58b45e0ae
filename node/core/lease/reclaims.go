package lease

import (
	"errors"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// ReclaimAgain is the pause between two requests to free the same claims.
	ReclaimAgain = 500 * time.Millisecond
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
	// Invariant: has holds exactly the entries of all that are not done, of which there are at
	// most [maxReclaims] (Audit).
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

// unheard notes a grant that is held here and that nobody will hear of.
func (f *reclaims) unheard(now clock.Time, g message.GrantRef) {
	if len(f.all) < maxReclaims && f.has[g] == nil {
		f.note(&reclaim{GrantRef: g})
		f.at = now.Mono
	}
}

// note notes one.
func (f *reclaims) note(o *reclaim) { f.all, f.has[o.GrantRef] = append(f.all, o), o }

// releaseFailed notes a release that no majority has taken.
func (f *reclaims) releaseFailed(now clock.Time, pl *Proposal) {
	g := message.GrantRef{Partition: pl.Partition, Task: pl.held.Task, Token: pl.held.Record.Token}
	if len(f.all) < maxReclaims && f.has[g] == nil {
		if len(f.all) == 0 {
			f.at = now.Mono + int64(ReclaimAgain)
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
func askMajority(g *Machine, now clock.Time, o *reclaim) {
	cell := &g.env.View.Cells[o.Partition]
	if o.at > now.Mono || g.Open(o.Partition) || g.env.Leadership.Reach(cell) < quorum.Majority(len(cell.Cohort)) {
		return
	}
	o.told++
	o.at = now.Mono + int64(ReclaimAgain)<<min(o.told, 10)
	g.Propose(o.Partition, o.Task, &claim.Record{Token: o.Token, Outcome: claim.Released}, true)
}

// over looks at one of them where this node can end the matter, and tells whether it has.
func (g *Machine) over(now clock.Time, o *reclaim) bool {
	lead := g.env.Partitions.See(o.Partition).Leading()
	switch {
	case !o.released && !Held(g.env.Partitions, o.GrantRef): // its leader has ended it
	case !o.released && lead != 0:
		g.TakeBack(now, o.GrantRef)
	case o.released && (o.told >= maxReclaimTold || lead > o.epoch): // those who have voted for this node since were told of it
	case o.released && lead != 0:
		askMajority(g, now, o)
		return false
	default:
		return false
	}
	delete(g.reclaims.has, o.GrantRef)
	return true
}

// TakeBack frees a task whose grant surely nobody has heard of. It may have ended
// by other means meanwhile; then there is nothing to free. Only a leader can: one
// that was deposed since has the one after it do it.
//
// Where it leads, the release is a write and a proposal like a grant's. Where it does not lead
// any more, it notes the claim and tells whoever leads now. An error of [vnode.ErrDamaged] ends
// the process, as every read of a damaged record does.
func (g *Machine) TakeBack(now clock.Time, ref message.GrantRef) {
	existed, err := g.env.Partitions.Use(ref.Partition).Release(g.env.Round.Tx, ref.Task, ref.Token, now)
	switch {
	case errors.Is(err, vnode.ErrDamaged):
		g.env.Round.Check(err)
	case err == nil && !existed:
		g.Propose(ref.Partition, ref.Task, &claim.Record{Token: ref.Token, Outcome: claim.Released}, true)
		g.Undelivered++
	case g.env.Partitions.See(ref.Partition).Leading() == 0 && Held(g.env.Partitions, ref):
		g.reclaims.unheard(now, ref)
	}
	g.env.Others.Forget(ref)
}

// Reclaims is how many grants others have yet to take back, or members to release.
func (g *Machine) Reclaims() int { return max(len(g.reclaims.all), len(g.reclaims.has)) }

// Held tells whether a claim is held here.
func Held(all *partitions.Set, g message.GrantRef) bool {
	return len(vnode.Unheld(all.See(g.Partition), Releases([]message.GrantRef{g}))) == 0
}

// Releases gives claims as releases.
func Releases(all []message.GrantRef) (held []vnode.Held) {
	for _, g := range all {
		h := vnode.Held{Task: g.Task, Released: true}
		h.Record.Token = g.Token
		held = append(held, h)
	}
	return vnode.Join(held)
}

// reclaim frees what this node leads again, and tells the leaders of the rest.
func (g *Machine) reclaim(now clock.Time) {
	f := &g.reclaims
	if len(f.all) == 0 || f.at > now.Mono {
		return
	}
	f.at = now.Mono + int64(ReclaimAgain)
	to := make(map[register.Member]map[ring.Partition][]message.GrantRef)
	left := f.all[:0]
	for _, o := range f.all {
		if o.done || g.over(now, o) {
			continue
		}
		left = append(left, o)
		leader, ok := placement.Leading(&g.env.View.Cells[o.Partition])
		if !ok || leader == g.env.Self || !g.env.View.Up(leader) {
			continue
		}
		o.told++
		if to[leader] == nil {
			to[leader] = make(map[ring.Partition][]message.GrantRef)
		}
		to[leader][o.Partition] = append(to[leader][o.Partition], o.GrantRef)
	}
	clear(f.all[len(left):])
	f.all = left
	for _, m := range view.MembersOf(to) {
		word := &message.ReclaimLease{}
		for p := range g.env.View.Cells { // in order
			p := ring.Partition(p)
			if all := to[m][p]; len(all) > 0 {
				word.Parts = append(word.Parts, message.PartClaims{Partition: p, Epoch: g.env.View.Cells[p].Epoch, Claims: vnode.AppendHeld(nil, Releases(all))})
			}
		}
		g.env.Round.Send(m, word)
	}
}

// TakenBack frees what another node has granted under an epoch before this leader's.
// A claim that is not known here may still come from a member that holds it: it
// is noted as released.
func (g *Machine) TakenBack(now clock.Time, m *message.ReclaimLease) {
	for i := range m.Parts {
		part := &m.Parts[i]
		if int(part.Partition) >= len(g.env.View.Cells) {
			continue
		}
		v := g.env.Partitions.Use(part.Partition)
		all, err := vnode.DecodeHeld(part.Claims)
		if err != nil || v.Leading() == 0 {
			continue // it is asked again, or somebody else
		}
		for i := range all {
			h := &all[i]
			if !h.Released || h.Record.Token>>32 >= v.Leading() || ring.Of(h.Task, len(g.env.View.Cells)) != part.Partition {
				continue
			}
			if !g.env.Round.Check(vnode.AcceptRelease(v, g.env.Round.Tx, h.Task, h.Record.Token, now)) {
				return
			}
			g.Propose(part.Partition, h.Task, &claim.Record{Token: h.Record.Token, Outcome: claim.Released}, true)
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
