package placement

import (
	"fmt"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Plan is the stored plan; the zero plan where there is none, or none that can
// be read.
func (v *View) Plan() ring.Plan { return v.plan }

// Foresee works out the plan that the driver would make of the view, or with
// fresh the one that it would make if there were none: then nearly everything
// moves, to where chance would have put it. It returns the errors of
// [ring.Place].
func (v *View) Foresee(fresh bool) (ring.Plan, error) {
	nodes, from := takers(v.state.Nodes), ring.Plan{}
	if !fresh {
		from = inherit(v.plan, nodes)
	}
	plan, err := ring.Place(from, nodes, len(v.state.Cells), v.state.Cluster.Replicas)
	if err != nil {
		return ring.Plan{}, fmt.Errorf("placement: %w", err)
	}
	return plan, nil
}

// Displace puts an active node into the place of another in the plan; ok is
// false where the plan does not name the other, or names the node already.
func (v *View) Displace(old, new register.Member) (plan ring.Plan, ok bool) {
	plan, err := v.plan.Replace(toRing(old), toRing(new))
	return plan, err == nil
}

// Stuck says that too few holders of a partition are left for it to move, or to
// get back the copies that it lost; see the package comment.
func (v *View) Stuck(p ring.Partition) bool {
	n, left := holders(v.cell(p).Cohort, v.Standing)
	return n > 0 && left < Enough(n)
}
