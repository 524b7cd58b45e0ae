package vnode

import (
	"fmt"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
)

// StoredFact reads a fact from what is stored under a key, without looking at its body
// or its CRC. The fact shares value. ErrDamaged: it cannot be read.
func StoredFact(key, value []byte) (crdt.Fact, error) {
	task := id.ID(key[prefixSize:])
	k, err := crdt.DecodeKey(key[prefixSize+id.Size:])
	var f crdt.Fact
	if err == nil {
		f, err = crdt.Stored(task, k, value)
	}
	if err != nil {
		return f, fmt.Errorf("%w: task %s: %w", ErrDamaged, task, err)
	}
	return f, nil
}

// intactFact is the same for who does not give the fact to a [crdt.Viewer], which looks:
// ErrDamaged also where it does not fit its CRC.
func intactFact(key, value []byte) (crdt.Fact, error) {
	f, err := StoredFact(key, value)
	if err == nil {
		err = intact(f)
	}
	return f, err
}

func intact(f crdt.Fact) error {
	if err := f.Intact(); err != nil {
		return fmt.Errorf("%w: task %s: %w", ErrDamaged, f.Task, err)
	}
	return nil
}

// bodyUnder reads the body of a fact, which is valid until the next read; nil: there is
// none (no body is empty). ErrDamaged: it does not fit its CRC.
func bodyUnder(view store.View, key []byte) ([]byte, error) {
	value, ok := view.Get(key)
	if !ok {
		return nil, nil
	}
	f, err := intactFact(key, value)
	return f.Body, err
}

// specOf gives the enqueue fact of a task that is ready, from memory where it is there. It
// is valid until the next read. ErrDamaged: there is none, or it does not fit its CRC.
func specOf(v *Vnode, view store.View, task id.ID, r *claim.Ready) ([]byte, error) {
	enqueued := crdt.Key{Kind: crdt.KindEnqueued}
	if r.Body != nil {
		return r.Body, intact(crdt.Fact{Task: task, Key: enqueued, Body: r.Body, CRC: r.CRC})
	}
	body, err := bodyUnder(view, appendFact(v.keyspace[:0], v.Partition, task, enqueued))
	if err == nil && body == nil {
		err = fmt.Errorf("%w: %s is ready but has no enqueue fact", ErrDamaged, task)
	}
	return body, err
}
