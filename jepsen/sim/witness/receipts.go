package witness

import (
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// Receipts holds what leaves a node to the disks: as many have a task, or its end, as
// the receipt says (P1), so that no crash takes it away. Where disks get lost, and nodes come and go, they may have had
// it; and while a cluster forms, or has just changed a cohort, partitions move on: who has
// handed its copy over to a majority drops it.
func Receipts(f Fleet, asked any, reply *message.Reply) {
	if f.Look().Lossy || f.Look().Forming {
		return
	}
	switch m := reply.Message.(type) {
	case *nornv1.EnqueueReply:
		for _, r := range m.GetResults() {
			copied(f, r.GetReceipt(), vnode.Known)
		}
	case *nornv1.WriteReply:
		if _, is := asked.(*nornv1.CompleteRequest); !is {
			return
		}
		for _, r := range m.GetResults() {
			copied(f, r.GetReceipt(), func(view store.View, p ring.Partition, task id.ID) bool {
				end, err := vnode.Outcome(view, p, task)
				return err == nil && end.Finished()
			})
		}
	}
}

// movingFor is for how long after a change of a cohort copies may go.
const movingFor = 10 * time.Second

// moving tells whether the cohort of a partition has changed so recently.
func moving(f Fleet, p ring.Partition) bool {
	at, changed := f.Look().Moved[p]
	return changed && f.Look().Now < at+int64(movingFor)
}

func copied(f Fleet, r *nornv1.Receipt, has func(store.View, ring.Partition, id.ID) bool) {
	task, n, who := convert.Parse(r.GetId()), 0, ""
	if task.IsZero() || moving(f, ring.Of(task, f.Look().Partitions)) {
		return
	}
	for o := range f.Nodes() {
		if has(o.Disk().Safe(), ring.Of(task, f.Look().Partitions), task) {
			n, who = n+1, who+" "+o.Self().Node
		}
	}
	if n < int(r.GetDurableCopies()) {
		f.Violation(check.Lost, "the receipt of task %s says that %d disks have it, and %d do:%s", task, r.GetDurableCopies(), n, who)
	}
}
