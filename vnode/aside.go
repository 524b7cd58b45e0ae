package vnode

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Facts that are kept aside are no part of their partition: no index, counter or
// tree knows them, nobody compares them, nobody is granted their tasks. They are
// of tasks that may have been collected long ago, or never have come to anybody
// else: nobody can tell any more (design 6).

// asideFixed is about what a fact takes beside its body, asideHeader the length
// of what is noted of a task that is kept aside.
const (
	asideFixed  = prefixSize + id.Size + crdt.KeySize
	asideHeader = 8 + 8
)

// Aside is a task of which facts are kept aside.
type Aside struct {
	Task  id.ID
	Since int64 // wall ns at which it was put aside here
	Bytes int64 // of its facts
}

// asides counts what is kept aside of a partition.
type asides struct {
	tasks int
	bytes int64
}

// AsideSize is how many bytes facts count for when they are kept aside.
func AsideSize(facts []crdt.Fact) (n int64) {
	for i := range facts {
		n += int64(asideFixed + len(facts[i].Body))
	}
	return n
}

// KeptAside is of how many tasks of the partition facts are kept aside, and how
// many bytes those have.
func KeptAside(v *Vnode) (tasks int, bytes int64) { return v.aside.tasks, v.aside.bytes }

// load counts what is kept aside.
func (all *asides) load(view store.View, p ring.Partition) error {
	prefix := appendPrefix(nil, tableAside, p)
	for key, value := range view.Scan(prefix, after(prefix)) {
		a, err := decodeAside(key, value)
		if err != nil {
			return err
		}
		all.tasks++
		all.bytes += a.Bytes
	}
	return nil
}

func decodeAside(key, value []byte) (Aside, error) {
	if len(key) != prefixSize+id.Size || len(value) != asideHeader {
		return Aside{}, fmt.Errorf("%w: what is kept aside, %x", ErrDamaged, key)
	}
	return Aside{
		Task: id.ID(key[prefixSize:]), Since: int64(binary.BigEndian.Uint64(value)), Bytes: int64(binary.BigEndian.Uint64(value[8:])),
	}, nil
}

// SetAside takes a task out of the partition and keeps its facts aside, at the
// wall ns now. Its claims end, for nobody here may decide about it any more.
// facts are all that [Facts] gives of it. It returns ErrDamaged when something
// stored cannot be read.
func SetAside(v *Vnode, tx store.Tx, task id.ID, facts []crdt.Fact, now int64) error {
	held := v.shelf.hold(tx, task)
	t, err := held.load()
	if err != nil {
		return err
	}
	was := v.stands(tx, t)
	v.leave(tx, task, &was)
	v.endClaims(tx, task, 0, false)
	v.shelf.dropEnded(tx, task)
	v.record.settled(tx, v.Partition, task)
	v.shelf.drop(tx, held)
	return PutAside(v, tx, facts, now)
}

// PutAside keeps facts of one task aside, beside those of it that are aside
// already: of two under one key the same one stays everywhere.
func PutAside(v *Vnode, tx store.Tx, facts []crdt.Fact, now int64) error {
	task := facts[0].Task
	header := appendTask(nil, tableAside, v.Partition, task)
	a := Aside{Task: task, Since: now}
	value, ok := tx.Get(header)
	if ok {
		var err error
		if a, err = decodeAside(header, value); err != nil {
			return err
		}
	} else {
		v.aside.tasks++
	}
	before := a.Bytes
	for i := range facts {
		f := &facts[i]
		key := f.Key.Append(appendTask(nil, tableAsideFacts, v.Partition, task))
		old, err := bodyUnder(tx, key)
		if err != nil {
			return err
		}
		if old != nil {
			if !crdt.Wins(f.Body, old) {
				continue
			}
			a.Bytes -= int64(asideFixed + len(old))
		}
		a.Bytes += int64(asideFixed + len(f.Body))
		tx.Set(key, f.AppendStored(nil))
	}
	v.aside.bytes += a.Bytes - before
	value = binary.BigEndian.AppendUint64(nil, uint64(a.Since))
	tx.Set(header, binary.BigEndian.AppendUint64(value, uint64(a.Bytes)))
	return nil
}

// IsAside tells whether facts of a task are kept aside.
func IsAside(v *Vnode, view store.View, task id.ID) bool {
	return v.aside.tasks > 0 && HasKey(view, appendTask(nil, tableAside, v.Partition, task))
}

// Asides gives up to limit tasks of a partition that are kept aside, after one,
// by ID. It returns ErrDamaged when a record cannot be read.
func Asides(view store.View, p ring.Partition, last id.ID, limit int) (all []Aside, err error) {
	prefix := appendPrefix(nil, tableAside, p)
	from := prefix
	if !last.IsZero() {
		from = after(appendTask(nil, tableAside, p, last))
	}
	for key, value := range view.Scan(from, after(prefix)) {
		if len(all) == limit {
			break
		}
		a, err := decodeAside(key, value)
		if err != nil {
			return nil, err
		}
		all = append(all, a)
	}
	return all, nil
}

// AsideFacts gives the facts of a partition that are kept aside, after a place,
// until they have so many bytes; more than that only where a single fact has. It
// gives the place to go on from, which is as it was when there are none. It
// returns ErrDamaged when a record cannot be read.
func AsideFacts(view store.View, p ring.Partition, from AsidePlace, bytesMost int64) (facts []crdt.Fact, next AsidePlace, err error) {
	prefix := appendPrefix(nil, tableAsideFacts, p)
	start := prefix
	if from.key != nil {
		start = append(bytes.Clone(from.key), 0)
	}
	next = from
	for key, value := range view.Scan(start, after(prefix)) {
		f, err := decodeAsideFact(key, value)
		if err != nil {
			return nil, from, err
		}
		if bytesMost -= int64(asideFixed + len(f.Body)); bytesMost < 0 && len(facts) > 0 {
			break
		}
		facts, next.key = append(facts, f), bytes.Clone(key)
	}
	return facts, next, nil
}

// AsidePlace is a place among the facts that are kept aside. The zero value is
// before all of them.
type AsidePlace struct{ key []byte }

func decodeAsideFact(key, value []byte) (crdt.Fact, error) {
	if len(key) < prefixSize+id.Size {
		return crdt.Fact{}, fmt.Errorf("%w: what is kept aside, %x", ErrDamaged, key)
	}
	f, err := intactFact(key, bytes.Clone(value))
	if err != nil {
		return crdt.Fact{}, fmt.Errorf("what is kept aside: %w", err)
	}
	return f, nil
}

// AsideOf gives the facts of one task that are kept aside, by key. It returns
// ErrDamaged when a record cannot be read.
func AsideOf(view store.View, p ring.Partition, task id.ID) (facts []crdt.Fact, err error) {
	prefix := appendTask(nil, tableAsideFacts, p, task)
	for key, body := range view.Scan(prefix, after(prefix)) {
		f, err := decodeAsideFact(key, body)
		if err != nil {
			return nil, err
		}
		facts = append(facts, f)
	}
	return facts, nil
}

// DropAside lets go what is kept aside of a task, and tells whether there was
// something. It returns ErrDamaged when the record cannot be read.
func DropAside(v *Vnode, tx store.Tx, task id.ID) (bool, error) {
	header := appendTask(nil, tableAside, v.Partition, task)
	value, ok := tx.Get(header)
	if !ok {
		return false, nil
	}
	a, err := decodeAside(header, value)
	if err != nil {
		return false, err
	}
	v.aside.tasks--
	v.aside.bytes -= a.Bytes
	tx.Delete(header)
	drop(tx, appendTask(nil, tableAsideFacts, v.Partition, task))
	return true, nil
}
