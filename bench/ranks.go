package bench

import (
	"cmp"
	"slices"
	"sync"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/id"
)

// maxRanked bounds the tasks of which it is remembered when each was granted (32
// bytes for each), and when it was enqueued (24 more).
const maxRanked = 4_000_000

// ranks is the order in which tasks of one priority were granted, all of which
// were there before the first was.
type ranks struct {
	mu     sync.Mutex // guards all
	all    []rankedGrant
	sorted []id.ID
}

// rankedGrant is a task and when its claim began by its leader's clock: what the
// clients see has changed its order on the way.
type rankedGrant struct {
	task id.ID
	at   int64
}

func (r *ranks) note(claims []*client.Claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range claims {
		r.all = append(r.all, rankedGrant{c.ID, c.Grant.GetStart().AsTime().UnixNano()})
	}
}

// errors gives, for each grant in its order, how many tasks that come before it
// were still waiting: passed over for it.
func (r *ranks) errors() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sorted = r.sorted[:0]
	for _, g := range r.all {
		r.sorted = append(r.sorted, g.task)
	}
	slices.SortFunc(r.sorted, id.ID.Compare)
	slices.SortFunc(r.all, func(a, b rankedGrant) int {
		return cmp.Or(cmp.Compare(a.at, b.at), a.task.Compare(b.task)) // those of one round in the order of the queue
	})
	gone := make([]int, len(r.all)+1) // a Fenwick tree over what was granted
	out := make([]int, 0, len(r.all))
	for _, g := range r.all {
		place, _ := slices.BinarySearchFunc(r.sorted, g.task, id.ID.Compare)
		granted := 0
		for i := place; i > 0; i -= i & -i {
			granted += gone[i]
		}
		out = append(out, place-granted)
		for i := place + 1; i < len(gone); i += i & -i {
			gone[i]++
		}
	}
	return out
}

// ranks adds what was passed over.
func (r *Report) ranks(errors []int) {
	if len(errors) == 0 {
		return
	}
	slices.Sort(errors)
	at := func(q float64) float64 { return float64(errors[min(len(errors)-1, int(q*float64(len(errors))))]) }
	r.add("rank_error_p50", at(0.5), "tasks")
	r.add("rank_error_p99", at(0.99), "tasks")
	r.add("rank_error_max", at(1), "tasks")
}
