package core

import (
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"
)

// offer is the answer to a claim request, which leaves when a majority of each
// cohort holds what it grants (K3).
type offer struct {
	c       *Core
	w       *claimRequest
	grants  []*nornv1.Grant
	refs    []message.GrantRef
	pledges []*proposal   // of each grant; nil: decided by this node alone
	waited  time.Duration // from the request to the grant: the lease counts from there
	number  uint64        // of the answer
	round   uint64        // in which it was granted
}

func (d offer) await(now clock.Time) {
	d.c.leases.offered[message.NumberOf(d.w.from)] = d.w
	d.c.leases.await(now, d.pledges, d.done)
}

// holds tells whether this node still holds a claim that it has granted. One that has ended
// here before it reached its majority, and be it that this clock ran ahead, is no part of
// that: the task may have been granted anew.
func (d offer) holds(g message.GrantRef) bool {
	return len(vnode.Unheld(d.c.vnodes.See(g.Partition), heldAs([]message.GrantRef{g}))) == 0
}

// used tells whether a worker has ended a claim: it has heard of it from an answer to the
// same request again, which waited for its own majority, and had one.
func (d offer) used(g message.GrantRef) bool {
	switch vnode.Ended(d.c.vnodes.See(g.Partition), d.c.round.Tx, g.Task, g.Token).Outcome {
	case claim.Completed, claim.Failed, claim.Ended:
		return true
	}
	return false
}

// resume has grants tell where their workers are to go on by what a majority knows, and
// gives how many of them fit one answer with that.
func (d offer) resume() (fit int) {
	size := 0
	for i, pl := range d.pledges {
		if pl == nil || pl.saved == nil {
			continue
		}
		g := d.refs[i]
		own, err := vnode.Saved(d.c.round.Tx, g.Partition, g.Task, g.Token)
		if !d.c.round.Check(err) {
			return i
		}
		if beyond(pl.saved, own) {
			own = pl.saved
		}
		if size += len(own.Data) - len(d.grants[i].Checkpoint); size > proto.MaxGrantBytes && i > 0 {
			return i
		}
		d.grants[i].Checkpoint = own.Data
	}
	return len(d.pledges)
}

// done answers with what has reached its majority. What has not is taken back:
// nobody has heard of it. With nothing left the request goes on waiting.
func (d offer) done(now clock.Time) {
	if at := message.NumberOf(d.w.from); d.c.leases.offered[at] == d.w {
		delete(d.c.leases.offered, at)
	}
	grants, refs := d.grants[:0:0], d.refs[:0:0]
	var lost []message.GrantRef
	fit := d.resume()
	for i, pl := range d.pledges {
		if i < fit && (pl == nil || pl.state == committed && d.holds(d.refs[i])) {
			grants, refs = append(grants, d.grants[i]), append(refs, d.refs[i])
		} else {
			lost = append(lost, d.refs[i])
		}
	}
	// Another answer with these grants may be on its way: the same request came
	// again, and its renewals may have reached a majority.
	a := d.c.readyIndex.asked[d.w.key()]
	twice := a != nil && len(a.answers) > 1
	if !twice {
		for i, pl := range d.pledges {
			if pl == nil || pl.state == committed || !d.used(d.refs[i]) {
				d.c.leases.breakers.judge(now, d.refs[i], pl)
			}
		}
		d.c.leases.passed += uint64(len(lost))
		for _, g := range lost {
			d.c.leases.takeBack(now, g)
		}
	}
	if len(grants) > 0 {
		reply := answer(d.w, d.waited, grants, refs)
		if len(lost) == 0 {
			reply.After = d.c.round.After(d.round)
		}
		d.c.round.Answer(reply)
		return
	}
	if a != nil {
		a.dropped(d.number)
	}
	if twice {
		d.c.twice(d.w.from)
		return
	}
	if d.w.cancelled {
		d.c.round.Refuse(d.w.from, refusal.Cancelled())
		return
	}
	again := *d.w
	again.failedQuorum = true
	if again.prompt {
		d.c.giveUp(now, &again)
		return
	}
	if other := d.c.readyIndex.withdraw(again.key()); other != nil && again.key().Named() {
		d.c.twice(other.from)
	}
	d.c.leases.postpone(now, &again)
}

// takeBack frees a task whose grant surely nobody has heard of. It may have ended
// by other means meanwhile; then there is nothing to free. Only a leader can: one
// that was deposed since has the one after it do it.
func (g *leases) takeBack(now clock.Time, ref message.GrantRef) {
	if g.release(now, ref) != nil {
		g.c.stats.Undelivered++
	} else if g.c.vnodes.See(ref.Partition).Leading() == 0 {
		g.reclaims.reclaim(now, ref)
	}
	g.c.readyIndex.forget(ref)
}

// release ends a claim here and, unheard by anybody, with the others. It gives
// nil when there was nothing to end.
func (g *leases) release(now clock.Time, ref message.GrantRef) *claim.Record {
	existed, err := g.c.vnodes.Use(ref.Partition).Release(g.c.round.Tx, ref.Task, ref.Token, now)
	if damaged(err) {
		g.c.round.Check(err)
	}
	if err != nil || existed {
		return nil
	}
	r := &claim.Record{Token: ref.Token, Outcome: claim.Released}
	g.add(ref.Partition, ref.Task, r, true)
	return r
}
