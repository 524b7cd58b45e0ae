package quorum

import "slices"

// Majority is floor(n/2)+1: the only definition there is, even sizes included.
// Of an empty cohort nothing is a majority.
func Majority(n int) int { return max(n, 0)/2 + 1 }

// Tally counts the answers of the members of one or several cohorts to one
// question. Make one with [NewTally]; it must not be used by two goroutines at
// once.
type Tally[M comparable] struct {
	cohorts [][]M // each member once
	yes     []M
	no      []M
}

// NewTally makes a tally over cohorts that each need a majority: the old and
// the new one of an election, or the registered one and those of the open
// proposals (design 5 and 7.2). A member may be in several. Without a cohort,
// or with an empty one, nothing is ever reached.
func NewTally[M comparable](cohorts ...[]M) *Tally[M] {
	t := &Tally[M]{cohorts: make([][]M, 0, len(cohorts))}
	for _, c := range cohorts {
		members := make([]M, 0, len(c))
		for _, m := range c {
			if !slices.Contains(members, m) {
				members = append(members, m)
			}
		}
		t.cohorts = append(t.cohorts, members)
	}
	return t
}

// Add counts a vote or ack. One that arrives after the member's refusal
// replaces it: a slow answer is still an answer.
func (t *Tally[M]) Add(member M) {
	if t.member(member) && !slices.Contains(t.yes, member) {
		t.yes = append(t.yes, member)
	}
}

// Refuse notes that the member will not answer with yes. It takes nothing
// back: what a member has acknowledged stays on its disk.
func (t *Tally[M]) Refuse(member M) {
	if t.member(member) && !slices.Contains(t.no, member) {
		t.no = append(t.no, member)
	}
}

func (t *Tally[M]) member(m M) bool {
	return slices.ContainsFunc(t.cohorts, func(c []M) bool { return slices.Contains(c, m) })
}

// Count is the number of distinct members of the first cohort that were added.
func (t *Tally[M]) Count() int {
	if len(t.cohorts) == 0 {
		return 0
	}
	return t.count(t.cohorts[0])
}

func (t *Tally[M]) count(cohort []M) (n int) {
	for _, m := range cohort {
		if slices.Contains(t.yes, m) {
			n++
		}
	}
	return n
}

// Least is the smallest number of distinct members of any cohort that were added.
func (t *Tally[M]) Least() int {
	least := t.Count()
	for _, c := range t.cohorts {
		least = min(least, t.count(c))
	}
	return least
}

// possible is what the count of a cohort can still become.
func (t *Tally[M]) possible(cohort []M) (n int) {
	for _, m := range cohort {
		if slices.Contains(t.yes, m) || !slices.Contains(t.no, m) {
			n++
		}
	}
	return n
}

// Reached tells whether a majority of each cohort was added.
func (t *Tally[M]) Reached() bool { return t.each(0, t.count) }

// ReachedW tells whether at least w distinct members of the first cohort were
// added and, where w is a majority of it or more, as many of each other cohort
// too, or all of it where it is smaller, and never less than a majority: the first
// one may be replaced by it, and its other members drop what they have. With less
// than a majority the caller gives up the promise that outlives an election anyway.
// A w below 1 counts as 1.
func (t *Tally[M]) ReachedW(w int) bool { return t.eachW(w, t.count) }

// Lost tells whether the refusals leave no way to [Tally.Reached], unless a
// member that has refused answers with yes after all.
func (t *Tally[M]) Lost() bool { return !t.each(0, t.possible) }

// LostW is [Tally.Lost] for [Tally.ReachedW].
func (t *Tally[M]) LostW(w int) bool { return !t.eachW(w, t.possible) }

// each tells whether every cohort has w members, or all where it is smaller, and its
// majority.
func (t *Tally[M]) each(w int, count func([]M) int) bool {
	if len(t.cohorts) == 0 {
		return false
	}
	return !slices.ContainsFunc(t.cohorts, func(c []M) bool { return count(c) < max(Majority(len(c)), min(w, len(c))) })
}

func (t *Tally[M]) eachW(w int, count func([]M) int) bool {
	if len(t.cohorts) == 0 {
		return false
	}
	first := t.cohorts[0]
	w = max(w, 1)
	return count(first) >= w && (w < Majority(len(first)) || t.each(w, count))
}
