package leadership

import (
	"maps"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// CohortTransfer brings the facts of an election's voters to a majority of the new
// cohort, where that is another one than the old (design 7.2, step 6): this node
// compares with each voter, and then with members of the new cohort. All of it
// happens after the promises, so whatever a majority of the old cohort had
// acknowledged by then is among what the voters have; what is acknowledged later
// is fenced by the open proposals.
type CohortTransfer struct {
	ask election.HandOver[register.Member]
	// Invariant: pull and left never name this node; it has what it has. left has those of the
	// new cohort that the tally has not counted (Audit).
	pull   []register.Member // voters that are still to be compared with
	tally  *quorum.Tally[register.Member]
	left   []register.Member // of the new cohort, not compared with since
	Busy   register.Member   // compared with now; zero: nobody
	last   register.Member   // compared with last
	Failed int               // comparisons that went wrong
}

// defers gives until when this node leaves a partition to whom it has voted for, mono ns;
// 0: to nobody.
func (e *Machine) defers(p ring.Partition) int64 {
	v, ok := e.voted[p]
	if !ok || e.env.View.Cells[p].Epoch > v.old || !e.env.View.Up(v.to) {
		return 0
	}
	return v.until
}

// Expects tells whether a cohort that was voted for here may come to be yet.
func (e *Machine) Expects(now clock.Time, p ring.Partition) bool {
	_, runs := e.Runs.Running(p)
	return runs || e.defers(p) > now.Mono
}

// MaxHandFailures is how many comparisons may go wrong in one hand-over.
const MaxHandFailures = 3

// begin begins a hand-over.
// begin begins a hand-over: this node is in the tally from the start, because the tally is read
// only after it has compared with every voter.
func (e *Machine) begin(_ clock.Time, h election.HandOver[register.Member]) *CohortTransfer {
	o := &CohortTransfer{ask: h, tally: quorum.NewTally(h.To)}
	others := func(all []register.Member) []register.Member {
		return slices.DeleteFunc(slices.Clone(all), func(m register.Member) bool { return m == e.env.Self })
	}
	o.pull, o.left = others(h.Voters), others(h.To)
	o.tally.Add(e.env.Self) // it has everything once all voters have been compared with
	return o
}

// handOver goes on with the hand-overs of this node, and tells whether one had
// something to go on with.
func (e *Machine) handOver(now clock.Time) (progress bool) {
	if len(e.Hands) == 0 {
		return false // as in most rounds
	}
	for _, p := range slices.Sorted(maps.Keys(e.Hands)) {
		o := e.Hands[p]
		if epoch, ok := e.Runs.Running(p); !ok || epoch != o.ask.Epoch {
			delete(e.Hands, p)
			continue
		}
		if o.Busy != (register.Member{}) {
			continue
		}
		progress = true
		if vnode.Tree(e.env.Partitions.See(p)) == nil || o.Failed > MaxHandFailures {
			e.handed(now, p, o, false)
			continue
		}
		m, ok := o.next(e.env.View.Up)
		switch {
		case ok:
			o.Busy = m
			e.env.Others.Compare(now, message.Pair{Partition: p, Peer: m})
		case o.tally.Reached():
			e.handed(now, p, o, true)
		default:
			e.handed(now, p, o, false)
		}
	}
	return progress
}

// handed ends a hand-over and tells the candidacy what came of it.
func (e *Machine) handed(now clock.Time, p ring.Partition, o *CohortTransfer, done bool) {
	delete(e.Hands, p)
	e.Runs.HandedOver(now, p, o.ask.Epoch, done)
}

// next gives whom to compare with: first every voter, then members of the new
// cohort until they are a majority. This node has everything once it has
// compared with every voter, and so has the one that it has compared with last.
func (o *CohortTransfer) next(up func(register.Member) bool) (register.Member, bool) {
	if len(o.pull) > 0 {
		return o.pull[0], true
	}
	if o.last != (register.Member{}) && slices.Contains(o.left, o.last) {
		o.took(o.last)
	}
	if o.tally.Reached() {
		return register.Member{}, false
	}
	for _, m := range o.left {
		if up(m) {
			return m, true
		}
	}
	return register.Member{}, false
}

// took counts a member of the new cohort that has everything now.
func (o *CohortTransfer) took(m register.Member) {
	o.left = slices.DeleteFunc(o.left, func(x register.Member) bool { return x == m })
	o.tally.Add(m)
}

// Compares tells whether a hand-over waits for a comparison.
func (e *Machine) Compares(k message.Pair) bool {
	o := e.Hands[k.Partition]
	return o != nil && o.Busy == k.Peer
}

// Compared hears how a comparison has ended, and tells whether it was one of
// these.
func (e *Machine) Compared(k message.Pair, agreed bool) bool {
	if !e.Compares(k) {
		return false
	}
	o := e.Hands[k.Partition]
	o.Busy = register.Member{}
	switch {
	case !agreed:
		o.Failed++
		if len(o.pull) == 0 { // another one may do
			o.left = append(slices.DeleteFunc(o.left, func(x register.Member) bool { return x == k.Peer }), k.Peer)
		}
	case len(o.pull) > 0:
		if o.pull = slices.DeleteFunc(o.pull, func(x register.Member) bool { return x == k.Peer }); e.env.Policy.OneVoterPulled {
			o.pull = nil
		}
		o.last = k.Peer
	default:
		o.took(k.Peer)
	}
	return true
}
