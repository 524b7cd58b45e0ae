package vnode

import (
	"bytes"
	"errors"
	"testing"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// TestDamagedFactsAreNotTaken: a fact of which a bit has flipped on its way is merged by
// nobody, whether the task is known here or not; the good one is, afterwards.
func TestDamagedFactsAreNotTaken(t *testing.T) {
	task := id.ID{1}
	for name, facts := range map[string][]crdt.Fact{
		"an enqueue":   {(&crdt.Enqueued{Queue: "q", Payload: []byte("payload")}).Fact(task)},
		"a completion": {crdt.Completed{Token: 3, At: 9, Result: []byte("result")}.Fact(task)},
		"several":      {(&crdt.Enqueued{Queue: "q"}).Fact(task), crdt.Completed{Token: 3, At: 9, Result: []byte("result")}.Fact(task)},
	} {
		r := newRig(t)
		last := len(facts) - 1
		good := facts[last].Body
		for bit := range 8 * len(good) {
			facts[last].Body = bytes.Clone(good)
			facts[last].Body[bit/8] ^= 1 << (bit % 8)
			if m, err := Merge(r.v, r.tx, facts, r.now); !errors.Is(err, crdt.ErrMalformed) || m.Stored > 0 {
				t.Errorf("%s, bit %d: %+v, %v", name, bit, m, err)
			}
		}
		facts[last].Body = good
		if m, err := Merge(r.v, r.tx, facts, r.now); err != nil || m.Stored != len(facts) || m.Clashes > 0 {
			t.Errorf("%s: %+v, %v", name, m, err)
		}
		r.audit()
	}
}

// TestDamageInTheStoreIsNoContent: a bit that flips in a stored fact makes reads fail; it
// does not change what they say.
func TestDamageInTheStoreIsNoContent(t *testing.T) {
	task := id.ID{1}
	r := newRig(t)
	facts := []crdt.Fact{
		(&crdt.Enqueued{Queue: "q", Payload: []byte("payload")}).Fact(task),
		crdt.Update{Token: 3, Data: []byte("data")}.Fact(task),
		crdt.Completed{Token: 3, Seq: 1, At: 9, Result: []byte("result")}.Fact(task),
	}
	if _, err := Merge(r.v, r.tx, facts, r.now); err != nil {
		t.Fatal(err)
	}
	r.v.Flush(r.tx)
	reads := map[string]func() error{
		"the task":         func() error { _, err := ReadTask(r.tx, r.v.Partition, task, ReadOptions{}); return err },
		"its facts":        func() error { _, err := Facts(r.tx, r.v.Partition, task); return err },
		"its newest facts": func() error { _, err := Newest(r.tx, r.v.Partition, task, 1<<20); return err },
		"a walk": func() error {
			for _, err := range Walk(r.tx, r.v.Partition, id.ID{}, nil) {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"the audit": func() error { return Audit(r.tx, r.v.Partition) },
		"another one": func() error {
			_, err := Merge(r.v, r.tx, []crdt.Fact{crdt.Cancelled{At: 5}.Fact(task)}, r.now)
			return err
		},
	}
	for what, read := range reads {
		if what != "another one" && read() != nil {
			t.Fatalf("%s: %v", what, read())
		}
	}
	f := facts[2]
	key := appendFact(nil, r.v.Partition, task, f.Key)
	for bit := range 8 * (len(f.Body) + crdt.StoredExtra) {
		value := f.AppendStored(nil)
		value[bit/8] ^= 1 << (bit % 8)
		r.tx.Set(key, value)
		for what, read := range reads {
			if err := read(); !errors.Is(err, ErrDamaged) {
				t.Errorf("bit %d: %s: %v", bit, what, err)
			}
		}
		if n := 0; true {
			for got := range FactsAfter(r.v.Partition, r.tx, antientropy.Position{}, id.ID{}) {
				if n++; got.Key == f.Key {
					t.Errorf("bit %d: it is sent to others", bit)
				}
			}
		}
	}
	// A record of before has no CRC, and is as good as ever.
	r.tx.Set(key, f.Body)
	for what, read := range reads {
		if err := read(); err != nil {
			t.Errorf("without a CRC: %s: %v", what, err)
		}
	}
}
