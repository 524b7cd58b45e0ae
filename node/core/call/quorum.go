package call

import (
	"slices"

	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
)

// Quorum counts who of a partition's cohort has answered a write or a read, and who of
// the cohorts that those answers name (design 5): whoever has voted for another cohort,
// or knows a later one, says so, and a majority of that one is needed too. So a write
// outlives an election that it did not know of, and a read finds what was written
// through one.
type Quorum struct {
	Epoch  uint64 // of the cell that the cohort is of
	Cohort []register.Member
	Left   []register.Member // who has not answered

	others [][]register.Member // cohorts that need a majority too
	over   bool                // there are more of them than MaxFences
	acks   []register.Member
	tally  *quorum.Tally[register.Member]
}

// MaxFences bounds the cohorts that one write or read can reach: more than an acceptor
// keeps proposals open.
const MaxFences = 2 * election.MaxOpen

// NewQuorum begins with nobody's answer; self's own is added by the caller.
func NewQuorum(c *register.Cell, self register.Member) Quorum {
	r := Quorum{Epoch: c.Epoch, Cohort: c.Cohort, tally: quorum.NewTally(c.Cohort)}
	for _, m := range c.Cohort {
		if m != self {
			r.Left = append(r.Left, m)
		}
	}
	return r
}

// Take takes a member out of those who have not answered, and tells whether it was one.
func (r *Quorum) Take(m register.Member) bool {
	i := slices.Index(r.Left, m)
	if i >= 0 {
		r.Left = slices.Delete(r.Left, i, i+1)
	}
	return i >= 0
}

// Add counts an answer.
func (r *Quorum) Add(m register.Member) {
	r.acks = append(r.acks, m)
	r.tally.Add(m)
}

// Fence adds cohorts that need a majority too, and gives who is to be asked as well.
func (r *Quorum) Fence(f *message.Fence, self register.Member) (more []register.Member) {
	for _, cohort := range f.Cohorts {
		known := func(other []register.Member) bool { return election.Same(other, cohort) }
		if len(cohort) == 0 || known(r.Cohort) || slices.ContainsFunc(r.others, known) {
			continue
		}
		if len(r.others) >= MaxFences {
			r.over = true // and it cannot be told whether it is done
			continue
		}
		r.others = append(r.others, cohort)
		for _, m := range cohort {
			if m != self && !slices.Contains(r.Left, m) && !slices.Contains(r.acks, m) {
				r.Left, more = append(r.Left, m), append(more, m)
			}
		}
		r.tally = quorum.NewTally(append([][]register.Member{r.Cohort}, r.others...)...)
		for _, m := range r.acks {
			r.tally.Add(m)
		}
	}
	return more
}

// Reached tells whether n of the cohort have answered and, where that is a majority or
// more, a majority of each other cohort.
func (r *Quorum) Reached(n int) bool {
	return r.tally.ReachedW(n) && !(r.over && n >= quorum.Majority(len(r.Cohort)))
}

// Within tells whether n of the cohort and a majority of each other one, see
// [Quorum.Reached], can answer if all of those do that are in reach.
func (r *Quorum) Within(n int, up func(register.Member) bool) bool {
	could := quorum.NewTally(append([][]register.Member{r.Cohort}, r.others...)...)
	for _, m := range r.acks {
		could.Add(m)
	}
	for _, m := range r.Left {
		if up(m) {
			could.Add(m)
		}
	}
	return could.ReachedW(n)
}

// Refuse notes that a member's answer is no ack.
func (r *Quorum) Refuse(m register.Member) { r.tally.Refuse(m) }

// Count is how many of the cohort have answered, Least the same where each other cohort
// counts too: the fewest of any.
func (r *Quorum) Count() int { return r.tally.Count() }

// Least is what fewest of any cohort have answered.
func (r *Quorum) Least() int { return r.tally.Least() }

// Fenced tells whether another cohort needs a majority too.
func (r *Quorum) Fenced() bool { return len(r.others) > 0 }
