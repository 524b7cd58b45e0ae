package scope

import (
	"errors"
	"iter"
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/vnode"
)

// one is a view that has one value, under whatever key; nil: it has none. Nobody walks through it.
type one []byte

func (o one) Get([]byte) ([]byte, bool)                     { return o, o != nil }
func (one) Scan(_, _ []byte) iter.Seq2[[]byte, []byte]      { panic("a walk for the queue of a task") }
func (o one) Back(low, up []byte) iter.Seq2[[]byte, []byte] { return o.Scan(low, up) }

// TestADamagedTaskHasNoQueue: who may see a task is judged by its queue, so a bit that flips in its spec
// makes that fail, and does not make it another queue or none. One key is read for it.
func TestADamagedTaskHasNoQueue(t *testing.T) {
	task := id.ID{1}
	f := (&crdt.Enqueued{Queue: "q", Payload: []byte("payload")}).Fact(task)
	if queue, err := storedQueue(one(nil), 0, task); queue != "" || err != nil {
		t.Errorf("a task that is not there: %q, %v", queue, err)
	}
	if queue, err := storedQueue(one(f.AppendStored(nil)), 0, task); queue != "q" || err != nil {
		t.Errorf("%q, %v", queue, err)
	}
	if queue, err := storedQueue(one(f.Body), 0, task); queue != "q" || err != nil { // a record of before has no CRC
		t.Errorf("without a CRC: %q, %v", queue, err)
	}
	for bit := range 8 * (len(f.Body) + crdt.StoredExtra) {
		value := f.AppendStored(nil)
		value[bit/8] ^= 1 << (bit % 8)
		if queue, err := storedQueue(one(value), 0, task); queue != "" || !errors.Is(err, vnode.ErrDamaged) {
			t.Errorf("bit %d: %q, %v", bit, queue, err)
		}
	}
}
