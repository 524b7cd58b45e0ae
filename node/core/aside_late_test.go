package core

import (
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/vnode"
	"github.com/norn-dev/norn/vnode/audit"
)

// TestATombstoneIsNotSetAside: a member did not know a task, and another one that it was
// collected, which comes first. Its entry in the index stayed behind for ever.
func TestATombstoneIsNotSetAside(t *testing.T) {
	r, m, _ := leaving(t)
	task := r.at(0)
	r.now = r.now.Add(m.GCGrace + 10*eta)
	stone := crdt.Tombstone{Outcome: crdt.StateCompleted, At: r.now.Wall - int64(eta), Collected: r.now.Wall}.Fact(task)
	r.say(0, 4, &message.Facts{Write: 3, Parts: []message.PartFacts{{Partition: 0, Epoch: m.View.Cells[0].Epoch, Facts: []crdt.Fact{stone}}}})
	r.say(1, 4, &message.QuarantineFacts{Partition: 0, Epoch: m.View.Cells[0].Epoch, Tasks: []id.ID{task}})
	if n, _ := vnode.KeptAside(m.Partitions.See(0)); n != 0 {
		t.Errorf("%d tasks are kept aside", n)
	}
	if _, is := vnode.FactOf(m.Round.Tx, 0, task, stone.Key); !is {
		t.Error("nothing says any more that the task was collected")
	}
	if err := audit.Partition(r.peers[4].store, 0); err != nil {
		t.Error(err)
	}
}
