package standing

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/clock/offset"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/register"
)

// reckoning is what a node makes of the wall clocks of the others for the times
// that it writes into facts. Its own may be a day off, and it takes in facts all the
// same (design 7.3); but a task that was finished yesterday by what is written may
// go today, and one that was finished tomorrow stays a day longer.
//
// The time is in the fact, so all replicas count from the same; and it is the right
// one as soon as the others have ever told this node, since its start, what their
// clocks say: it counts on from there by its monotonic clock, however long it is
// cut off. What is left is a node that nobody answers from its start on.
type reckoning struct {
	known bool  // that a majority of those that share a cohort with this node has told
	diff  int64 // what their wall clocks are ahead of this node's monotonic one
	off   bool  // this node's wall clock is known to be off now; else it may be right and the monotonic one have stood still
	good  bool  // this node's wall clock is known to be right now
}

// reckon takes in what is known of the others' clocks.
func (r *reckoning) reckon(k *Clocks, now clock.Time) {
	ids := []uint64{k.env.Self.Incarnation.ID()}
	for _, m := range k.env.company() {
		ids = append(ids, m.Incarnation.ID())
	}
	if len(ids) < 2 {
		if slices.ContainsFunc(k.env.View.Cells, func(c register.Cell) bool { return slices.Contains(c.Cohort, k.env.Self) }) {
			*r = reckoning{} // it is a majority by itself
		}
		r.good = false // one that keeps nothing any more goes by what it was told last
		return
	}
	v := k.Peers.Judge(now, ids, k.env.Eta)
	r.off, r.good = v.Reason == offset.Off, v.OK
	switch {
	case v.OK:
		r.known, r.diff = true, now.Wall-now.Mono
	case r.off:
		r.known, r.diff = true, now.Wall+v.Majority.Hi-now.Mono
	}
}

// wall is what the wall clock should say.
func (r *reckoning) wall(now clock.Time, eta int64) int64 {
	reckoned := now.Mono + r.diff
	switch apart := reckoned - now.Wall; {
	case !r.known, max(apart, -apart) <= eta:
		return now.Wall
	case r.off:
		return reckoned
	}
	return max(reckoned, now.Wall) // rather kept for too long
}

// Wall is what this node's wall clock should say, as far as that is known, in ns:
// what it shows unless it is off. How old IDs are is judged by
// that: a node takes facts in whatever its clock says (design 7.3).
func (k *Clocks) Wall(now clock.Time) int64 { return k.right.wall(now, int64(k.env.Eta)) }

// Stamp is when something happens to a task that is told of now, wall ns: not
// before it was made, whatever the clock says.
func (k *Clocks) Stamp(now clock.Time, task id.ID) int64 {
	at := k.Wall(now)
	if task.Kind() == id.KindTask {
		at = max(at, task.Nanos())
	}
	return at
}

// Agreed is the time that schedules go by: a clock that is an hour ahead would
// launch everything an hour early, whatever the others say. While a clock is not
// known to be right it is what others have told, counted on by the monotonic clock;
// on a node that nobody has ever told, and on one that is alone, its own. One that
// keeps nothing any more is told nothing, and may be on its way out for its clock.
func (k *Clocks) Agreed(now clock.Time) clock.Time {
	if k.right.known && !k.right.good {
		now.Wall = now.Mono + k.right.diff
	}
	return now
}
