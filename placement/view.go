package placement

import (
	"errors"
	"fmt"
	"slices"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// ErrPlan is returned when the stored plan is not one of this cluster: it is
// left alone, for it may come from a newer version.
var ErrPlan = errors.New("placement: stored plan cannot be read")

// Standing is what a view knows of one member.
type Standing struct {
	// Status is 0 for a member without a record: it was removed long ago.
	Status register.NodeStatus
	// Alive is the hint that it can be reached; false for one that is gone.
	Alive bool
	// Lost says that what it alone held was given up; see [Lost].
	Lost bool
	// Zone is where it is.
	Zone string
}

// Gone says that the member does not come back.
func (s Standing) Gone() bool { return s.Status == 0 || s.Status == register.Removed }

// View is one state of the register and one hint of who is alive. It does not
// change, and may be read by several goroutines.
type View struct {
	state    register.State
	alive    []register.Member
	plan     ring.Plan
	err      error
	members  []register.Member // of the plan, by seat
	standing map[register.Member]Standing
}

// See makes a view. It keeps what it is given, which must not change any more.
func See(s register.State, alive []register.Member) *View { return (&View{}).Next(s, alive) }

// Next makes the view after this one; it shares what is equal in both.
func (v *View) Next(s register.State, alive []register.Member) *View {
	out := &View{state: s, alive: alive, standing: make(map[register.Member]Standing, len(s.Nodes))}
	same := v.state.Cluster == s.Cluster && v.state.Generation == s.Generation && v.state.Plan.Version == s.Plan.Version
	if same {
		out.plan, out.err, out.members = v.plan, v.err, v.members
	} else {
		out.readPlan()
	}
	for i := range s.Nodes {
		out.standing[s.Nodes[i].Member] = Standing{Status: s.Nodes[i].Status, Zone: s.Nodes[i].Zone}
	}
	for _, m := range alive {
		if st := out.standing[m]; !st.Gone() {
			st.Alive = true
			out.standing[m] = st
		}
	}
	out.readLost()
	return out
}

func (v *View) readPlan() {
	if len(v.state.Plan.Data) == 0 {
		return
	}
	plan, err := ring.DecodePlan(v.state.Plan.Data)
	if err == nil && plan.Partitions() != 0 && plan.Partitions() != len(v.state.Cells) {
		err = fmt.Errorf("%d partitions, not %d", plan.Partitions(), len(v.state.Cells))
	}
	if err != nil {
		v.err = fmt.Errorf("%w: %w", ErrPlan, err)
		return
	}
	v.plan = plan
	for _, m := range plan.Members() {
		v.members = append(v.members, fromRing(m))
	}
}

func fromRing(m ring.Member) register.Member {
	return register.Member{Node: m.Name, Incarnation: m.Key}
}

func toRing(m register.Member) ring.Member {
	return ring.Member{Name: m.Node, Key: m.Incarnation}
}

// State is the register's state of this view.
func (v *View) State() register.State { return v.state }

// Err is ErrPlan when there is a plan that cannot be read; the view is one
// without a plan then.
func (v *View) Err() error { return v.err }

// Planned gives who shall hold a partition, the preferred leader first; none
// without a plan. Nobody may change the slice: where the cohort is as planned, as most often,
// it is the cohort.
func (v *View) Planned(p ring.Partition) []register.Member {
	seats, cohort := v.plan.Seats(p), v.cell(p).Cohort
	if len(seats) == 0 {
		return nil
	}
	if len(cohort) == len(seats) {
		same := true
		for i, m := range seats {
			same = same && v.members[m] == cohort[i]
		}
		if same {
			return cohort[:len(cohort):len(cohort)]
		}
	}
	planned := make([]register.Member, len(seats))
	for i, m := range seats {
		planned[i] = v.members[m]
	}
	return planned
}

// Standing gives what is known of a member.
func (v *View) Standing(m register.Member) Standing { return v.standing[m] }

// cell gives the cell of a partition; an empty one past the last.
func (v *View) cell(p ring.Partition) *register.Cell {
	if int(p) >= len(v.state.Cells) {
		return &register.Cell{}
	}
	return &v.state.Cells[p]
}

// isAlive says whether a member is among the living.
func (v *View) isAlive(m register.Member) bool { return v.standing[m].Alive }

func without(members []register.Member, m register.Member) []register.Member {
	return slices.DeleteFunc(slices.Clone(members), func(o register.Member) bool { return o == m })
}
