package call

import (
	"testing"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
)

// TestWithinReach: a majority of each cohort that is needed, not of the first alone.
func TestWithinReach(t *testing.T) {
	member := func(n byte) register.Member { return register.Member{Node: "n", Incarnation: register.Incarnation{n}} }
	cohort := []register.Member{member(1), member(2), member(3)}
	r := NewQuorum(&register.Cell{Epoch: 1, Cohort: cohort}, member(1))
	r.Add(member(1))
	up := map[register.Member]bool{member(2): true}
	is := func(m register.Member) bool { return up[m] }
	if !r.Within(2, is) || r.Within(3, is) {
		t.Error("of three, with one more in reach")
	}
	r.Fence(&message.Fence{Cohorts: [][]register.Member{{member(1), member(4), member(5)}}}, member(1))
	if r.Within(2, is) || !r.Within(1, is) {
		t.Error("of the other cohort nobody else is in reach")
	}
	if up[member(5)] = true; !r.Within(2, is) {
		t.Error("one of each is in reach")
	}
}
