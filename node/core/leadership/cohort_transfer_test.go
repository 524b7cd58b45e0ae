package leadership

import (
	"slices"
	"testing"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

func member(n byte) register.Member {
	return register.Member{Node: "n", Incarnation: register.Incarnation{n}}
}

// TestAHandOverCountsNoComparisonThatLeftSomething: neither with a voter, whom it asks again,
// nor with a member of the new cohort, before whom it asks the others.
func TestAHandOverCountsNoComparisonThatLeftSomething(t *testing.T) {
	e := New(&Acceptors{env: &Env{Ground: &ground.Ground{Self: member(0)}, Policy: Policy{OneVoterPulled: mutant.OneVoterPulled.On()}}}, nil)
	const p = ring.Partition(1)
	o := e.begin(clock.Time{}, election.HandOver[register.Member]{
		Partition: p, Epoch: 9, Voters: []register.Member{member(1), member(2)}, To: []register.Member{member(0), member(1), member(2), member(3), member(4)},
	})
	e.Hands[p] = o
	compare := func(agreed bool) register.Member {
		o.Busy, _ = o.next(func(register.Member) bool { return true })
		m := o.Busy
		e.Compared(message.Pair{Partition: p, Peer: m}, agreed)
		return m
	}
	if compare(false); len(o.pull) != 2 || o.Failed != 1 {
		t.Errorf("%d voters are left, %d comparisons have failed", len(o.pull), o.Failed)
	}
	compare(true)
	compare(true)
	third := compare(false)
	if o.tally.Count() != 2 || len(o.pull) != 0 || o.Failed != 2 {
		t.Errorf("%d have everything, %d voters are left, %d comparisons have failed", o.tally.Count(), len(o.pull), o.Failed)
	}
	if next := compare(true); next == third || !o.tally.Reached() {
		t.Errorf("after %s it asks %s, and %d have everything", third.Node, next.Node, o.tally.Count())
	}
}

// TestAHandOverComparesWithEveryVoter: whatever a majority of the old cohort had
// acknowledged is on one of its voters, and it is not known on which. Only then has this
// node everything, and the one that it has compared with last; the others have not.
func TestAHandOverComparesWithEveryVoter(t *testing.T) {
	e := New(&Acceptors{env: &Env{Ground: &ground.Ground{Self: member(0)}, Policy: Policy{OneVoterPulled: mutant.OneVoterPulled.On()}}}, nil)
	up := func(register.Member) bool { return true }
	const p = ring.Partition(1)
	o := e.begin(clock.Time{}, election.HandOver[register.Member]{
		Partition: p, Epoch: 9, Voters: []register.Member{member(1), member(2), member(0), member(3)}, To: []register.Member{member(0), member(1), member(2), member(3), member(4)},
	})
	e.Hands[p] = o
	var met []register.Member
	for !o.tally.Reached() {
		m, ok := o.next(up)
		if !ok {
			break
		}
		if met = append(met, m); len(met) > 10 {
			t.Fatal("it never ends")
		}
		if o.tally.Count() > 1 && len(met) <= 3 {
			t.Errorf("after %d voters %d have everything", len(met)-1, o.tally.Count())
		}
		o.Busy = m
		e.Compared(message.Pair{Partition: p, Peer: m}, true)
	}
	for _, i := range []byte{1, 2, 3} {
		if n := slices.Index(met, member(i)); n < 0 || n > 2 {
			t.Errorf("voter %d is compared with as number %d of %d", i, n+1, len(met))
		}
	}
	if len(met) != 4 || !o.tally.Reached() || o.tally.Count() != 3 {
		t.Errorf("compared with %d, and %d of 5 have everything", len(met), o.tally.Count())
	}
}
