package offset

import (
	"cmp"
	"slices"
)

// edge is where an interval begins (+1) or is over (-1).
type edge struct {
	at   int64
	step int
}

// supported gives the smallest interval that holds every point which at least
// need of the intervals cover, ok if there is one (K. Marzullo, Maintaining the
// time in a distributed system, 1984; the hull where there are several such
// stretches, since the truth may be in any). The edges are sorted in place.
func supported(edges []edge, need int) (in Interval, ok bool) {
	// At one point, first what begins there: intervals that touch share it.
	slices.SortFunc(edges, func(a, b edge) int {
		if c := cmp.Compare(a.at, b.at); c != 0 {
			return c
		}
		return b.step - a.step
	})
	depth := 0
	for _, e := range edges {
		before := depth
		depth += e.step
		switch {
		case before < need && depth >= need && !ok:
			in.Lo, ok = e.at, true
		case before >= need && depth < need:
			in.Hi = e.at
		}
	}
	return in, ok && need > 0
}
