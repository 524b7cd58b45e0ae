package scope

import (
	"errors"
	"iter"
	"slices"
	"testing"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/partitions"
	"github.com/norn-dev/norn/node/guard"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/store/memstore"
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

// TestWhatIsAllowedCostsNoMore than to know which tasks it is about: nothing is kept for refusals of which there
// are none.
func TestWhatIsAllowedCostsNoMore(t *testing.T) {
	f := (&crdt.Enqueued{Queue: "q"}).Fact(id.ID{})
	// A task under a claim is in memory; these are read, and each reading allocates as much.
	v, err := vnode.Open(0, vnode.Config{Partitions: 1}, memstore.New(), clock.Time{})
	if err != nil {
		t.Fatal(err)
	}
	known := Known{View: one(f.AppendStored(nil)), Vnodes: partitions.New([]*vnode.Vnode{v}, v, nil), Partitions: 1}
	r := &message.Request{Scope: &guard.Scope{Rules: []guard.Rule{{Verbs: guard.Work, Pattern: "q"}}}}
	r.From.Method = uint16(nornv1.Method_METHOD_COMPLETE)
	allocs := func(n int) float64 {
		r.Body = &nornv1.CompleteRequest{Completions: slices.Repeat([]*nornv1.Completion{{Id: make([]byte, id.Size)}}, n)}
		return testing.AllocsPerRun(100, func() {
			if refused, left, err := Judge(known, r); refused != nil || left != nil || err != nil {
				t.Fatal(refused, left, err)
			}
		})
	}
	read := testing.AllocsPerRun(100, func() { _, _ = storedQueue(known.View, 0, id.ID{}) })
	if one, two := allocs(1), allocs(2); one > 1+read || two > 1+2*read {
		t.Errorf("one task takes %v allocations, two %v; to read one %v", one, two, read)
	}
}
