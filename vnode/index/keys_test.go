package index

import (
	"bytes"
	"slices"
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// TestKeysOfATableAreInItsOrder: by partition, queue, state and time, whatever the names are.
func TestKeysOfATableAreInItsOrder(t *testing.T) {
	task := id.ID{255, 255}
	all := [][]byte{
		AppendFinished(nil, 1, crdt.StateCompleted, "a", 1, task),
		AppendFinished(nil, 1, crdt.StateCompleted, "a", 2, id.ID{}),
		AppendFinished(nil, 1, crdt.StateCompleted, "a", 256, id.ID{}),
		AppendFinished(nil, 1, crdt.StateCompleted, "aa", 1, id.ID{}),
		AppendFinished(nil, 1, crdt.StateCompleted, "b", 1, id.ID{}),
		AppendFinished(nil, 1, crdt.StateDead, "a", 1, id.ID{}),
		AppendFinished(nil, 256, crdt.StateCompleted, "a", 1, id.ID{}),
	}
	if crdt.StateDead < crdt.StateCompleted {
		t.Fatal("the states are in another order")
	}
	if !slices.IsSortedFunc(all, bytes.Compare) {
		t.Errorf("keys are not in the order of partition, state, queue and time: %x", all)
	}
	timed := [][]byte{AppendTimed(nil, Scheduled, 3, 1, task), AppendTimed(nil, Scheduled, 3, 2, id.ID{}), AppendTimed(nil, Scheduled, 3, 1<<40, id.ID{})}
	if !slices.IsSortedFunc(timed, bytes.Compare) {
		t.Errorf("keys are not in the order of their time: %x", timed)
	}
}

// TestAQueueHasItsKeysAlone: none of a queue whose name goes on, and what is after them is after all.
func TestAQueueHasItsKeysAlone(t *testing.T) {
	prefix, longer := AppendQueue(nil, Ready, 7, "a"), AppendQueue(nil, Ready, 7, "ab")
	if bytes.HasPrefix(longer, prefix) {
		t.Errorf("%x is a key of %x", longer, prefix)
	}
	end := After(prefix)
	last := append(slices.Clone(prefix), bytes.Repeat([]byte{255}, 40)...)
	if bytes.Compare(last, end) >= 0 || bytes.Compare(end, longer) > 0 {
		t.Errorf("after %x is %x: %x is not before it, or %x not behind", prefix, end, last, longer)
	}
	if got := After([]byte{1, 255, 255}); !bytes.Equal(got, []byte{2}) {
		t.Errorf("after a prefix that ends in 255 is %x", got)
	}
	if got := After([]byte{255}); got != nil {
		t.Errorf("after the last of all is %x", got)
	}
}
