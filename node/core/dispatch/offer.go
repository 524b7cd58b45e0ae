package dispatch

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/vnode"
)

// offer is the answer to a claim request, which leaves when a majority of each
// cohort holds what it grants (K3).
type offer struct {
	c       *Machine
	w       *claimRequest
	grants  []*nornv1.Grant
	refs    []message.GrantRef
	pledges []*lease.Proposal // of each grant; nil: decided by this node alone
	waited  time.Duration     // from the request to the grant: the lease counts from there
	number  uint64            // of the answer
	round   uint64            // in which it was granted
	waits   *waiting.Wait
}

// await has the offer wait for its proposals. done runs once all of them are decided, at once
// where none has to be asked for.
func (d offer) await(now clock.Time) {
	d.waits = d.c.Pending.Open(waiting.Offer, d.w.from, func(*proto.Error) { d.w.cancelled = true })
	d.c.Leases.Await(now, d.pledges, d.done)
}

// holds tells whether this node still holds a claim that it has granted. One that has ended
// here before it reached its majority, and be it that this clock ran ahead, is no part of
// that: the task may have been granted anew.
func (d offer) holds(g message.GrantRef) bool {
	return lease.Held(d.c.Partitions, g)
}

// used tells whether a worker has ended a claim: it has heard of it from an answer to the
// same request again, which waited for its own majority, and had one.
func (d offer) used(g message.GrantRef) bool {
	switch vnode.Ended(d.c.Partitions.See(g.Partition), d.c.Round.Tx, g.Task, g.Token).Outcome {
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
		if pl == nil || pl.Saved == nil {
			continue
		}
		g := d.refs[i]
		own, err := vnode.Saved(d.c.Round.Tx, g.Partition, g.Task, g.Token)
		if !d.c.Round.Check(err) {
			return i
		}
		if lease.Beyond(pl.Saved, own) {
			own = pl.Saved
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
//
// What a majority has and this node still holds is answered, in one reply. What has failed is
// released and told to whoever may hold it: it is never assumed that a member which did not
// answer has not taken it. The one exception is a request that came twice, whose other answer
// may bring the same grants: they stay.
func (d offer) done(now clock.Time) {
	d.waits.Close()
	grants, refs := d.grants[:0:0], d.refs[:0:0]
	var lost []message.GrantRef
	fit := d.resume()
	for i, pl := range d.pledges {
		if i < fit && (pl == nil || pl.Committed() && d.holds(d.refs[i])) {
			grants, refs = append(grants, d.grants[i]), append(refs, d.refs[i])
		} else {
			lost = append(lost, d.refs[i])
		}
	}
	// Another answer with these grants may be on its way: the same request came
	// again, and its renewals may have reached a majority.
	a := d.c.Index.asked[d.w.key()]
	twice := a != nil && len(a.answers) > 1
	if !twice {
		for i, pl := range d.pledges {
			if pl == nil || pl.Committed() || !d.used(d.refs[i]) {
				d.c.Leases.Judge(now, d.refs[i], pl)
			}
		}
		d.c.offers.passed += uint64(len(lost))
		for _, g := range lost {
			d.c.Leases.TakeBack(now, g)
		}
	}
	if len(grants) > 0 {
		reply := answer(d.w, d.waited, grants, refs)
		if len(lost) == 0 {
			reply.After = d.c.Round.After(d.round)
		}
		d.c.Round.Answer(reply)
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
		d.c.Round.Refuse(d.w.from, refusal.Cancelled())
		return
	}
	again := *d.w
	again.failedQuorum = true
	if again.prompt {
		d.c.giveUp(now, &again)
		return
	}
	if other := d.c.Index.withdraw(again.key()); other != nil && again.key().Named() {
		d.c.twice(other.from)
	}
	d.c.pause(now, &again)
}

// offers are claim requests whose grants are on their way, and those whose grants reached no
// majority and that are looked at again.
type offers struct {
	// Invariant: postponed is in the order of times; due looks at the first one only (Audit).
	postponed []postponedClaim
	passed    uint64 // grants that were taken back because they did not reach a majority
}

// postponedClaim is a claim request that is looked at again: what it would have been
// granted did not reach a majority. Without a pause a member that refuses would
// be asked as fast as it can answer.
type postponedClaim struct {
	at int64 // mono ns
	w  *claimRequest
}

// Pauses are the pauses of a [postponedClaim]: each try stays in the history of its
// task, and a member may refuse for hours while another is down.
var Pauses = clock.Backoff{First: 50 * time.Millisecond, Most: 500 * time.Millisecond}

// postpone has a claim request looked at again after its pause.
func (o *offers) postpone(now clock.Time, w *claimRequest) {
	l := postponedClaim{now.Add(Pauses.Pause(w.fails)).Mono, w}
	w.fails++
	at := len(o.postponed)
	for at > 0 && o.postponed[at-1].at > l.at {
		at--
	}
	o.postponed = slices.Insert(o.postponed, at, l)
}

// recall takes out the postponed requests that are meant.
func (o *offers) recall(is func(*claimRequest) bool) (all []*claimRequest) {
	o.postponed = slices.DeleteFunc(o.postponed, func(l postponedClaim) bool {
		found := is(l.w)
		if found {
			l.w.waits.Close()
			all = append(all, l.w)
		}
		return found
	})
	return all
}

// due takes out the first postponed request whose pause is over; nil: there is none.
func (o *offers) due(now clock.Time) *claimRequest {
	if o.nextPause() > now.Mono {
		return nil
	}
	w := o.postponed[0].w
	w.waits.Close()
	o.postponed = o.postponed[1:]
	return w
}

// nextPause is when the first pause is over, mono ns.
func (o *offers) nextPause() int64 {
	if len(o.postponed) == 0 {
		return clock.Never
	}
	return o.postponed[0].at
}
