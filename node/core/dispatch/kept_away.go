package dispatch

import (
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/away"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// takerOf is whom a task is kept from: the worker by its name and session, so that another
// process of the same name may try it.
func takerOf(a *vnode.Ask) away.Taker { return away.Taker{Worker: a.Worker, Session: a.Session} }

// beyond is the best task of a queue that is not among those which are kept from a worker.
//
// It walks the merged heads in rank order and ends at the first one that may be given. It costs
// as many steps as there are tasks kept away before that one, which [away.Kept] bounds.
func (d *Index) beyond(q *queue, kept map[id.ID]int64, now int64) (partition int, rank *claim.Rank, ok bool) {
	q.heads.Walk(func(member, place int) *claim.Rank {
		window, _ := vnode.Window(d.see(ring.Partition(member)), q.name)
		if place >= len(window) {
			return nil
		}
		return &window[place].Rank
	}, func(r *claim.Rank) bool {
		if kept[r.Task()] > now {
			return true
		}
		rank = r
		return false
	})
	if rank == nil {
		return 0, nil, false
	}
	return int(ring.Of(rank.Task(), d.partitions)), rank, true
}
