package core

import (
	"slices"

	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
)

// quorumCall counts who of a partition's cohort has answered a write or a read, and who of
// the cohorts that those answers name (design 5): whoever has voted for another cohort,
// or knows a later one, says so, and a majority of that one is needed too. So a write
// outlives an election that it did not know of, and a read finds what was written
// through one.
type quorumCall struct {
	epoch  uint64 // of the cell that the cohort is of
	cohort []register.Member
	others [][]register.Member // cohorts that need a majority too
	over   bool                // there are more of them than maxFences
	acks   []register.Member
	tally  *quorum.Tally[register.Member]
	left   []register.Member // who has not answered
}

// maxFences bounds the cohorts that one write or read can reach: more than an acceptor
// keeps proposals open.
const maxFences = 2 * election.MaxOpen

// newQuorumCall begins with nobody's answer; self's own is added by the caller.
func newQuorumCall(c *register.Cell, self register.Member) quorumCall {
	r := quorumCall{epoch: c.Epoch, cohort: c.Cohort, tally: quorum.NewTally(c.Cohort)}
	for _, m := range c.Cohort {
		if m != self {
			r.left = append(r.left, m)
		}
	}
	return r
}

// add counts an answer.
func (r *quorumCall) add(m register.Member) {
	r.acks = append(r.acks, m)
	r.tally.Add(m)
}

// fence adds cohorts that need a majority too, and gives who is to be asked as well.
func (r *quorumCall) fence(f *message.Fence, self register.Member) (more []register.Member) {
	for _, cohort := range f.Cohorts {
		known := func(other []register.Member) bool { return election.Same(other, cohort) }
		if len(cohort) == 0 || known(r.cohort) || slices.ContainsFunc(r.others, known) {
			continue
		}
		if len(r.others) >= maxFences {
			r.over = true // and it cannot be told whether it is done
			continue
		}
		r.others = append(r.others, cohort)
		for _, m := range cohort {
			if m != self && !slices.Contains(r.left, m) && !slices.Contains(r.acks, m) {
				r.left, more = append(r.left, m), append(more, m)
			}
		}
		r.tally = quorum.NewTally(append([][]register.Member{r.cohort}, r.others...)...)
		for _, m := range r.acks {
			r.tally.Add(m)
		}
	}
	return more
}

// reached tells whether n of the cohort have answered and, where that is a majority or
// more, a majority of each other cohort.
func (r *quorumCall) reached(n int) bool {
	return r.tally.ReachedW(n) && !(r.over && n >= quorum.Majority(len(r.cohort)))
}

// within tells whether n of the cohort and a majority of each other one, see
// [quorumCall.reached], can answer if all of those do that are in reach.
func (r *quorumCall) within(n int, up func(register.Member) bool) bool {
	could := quorum.NewTally(append([][]register.Member{r.cohort}, r.others...)...)
	for _, m := range r.acks {
		could.Add(m)
	}
	for _, m := range r.left {
		if up(m) {
			could.Add(m)
		}
	}
	return could.ReachedW(n)
}
