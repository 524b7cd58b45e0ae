package store

import (
	"bytes"
	"slices"
	"sort"
)

// maxRows bounds the rows of a batch: they are searched one by one.
const maxRows = 64

// row is sets of a batch whose keys begin alike and ascend, as most of a batch in bulk does. A binary search finds them, and
// they make a table as they are; those alone are in the index that a walk has met. As soon as something else comes, a delete
// or a set of a key that is not behind the last one, they become keys as all others.
//
// Invariant: while a row is open, all writes to keys that begin so are in it.
type row struct {
	begin  [alike]byte
	ops    []int32 // in the batch
	closed bool
}

// find gives the first write of the row whose key is not below one.
func (r *row) find(b *Batch, key []byte) int {
	return sort.Search(len(r.ops), func(i int) bool { return bytes.Compare(b.keyOf(int(r.ops[i])), key) >= 0 })
}

// rows are those of the pending writes.
type rows struct {
	all  []row
	last [2]int // which were used last: a task has a fact and an entry of an index
}

// of gives the row of a key; nil: there is none.
func (r *rows) of(key []byte) *row {
	if len(key) < alike || len(r.all) == 0 {
		return nil
	}
	begin := [alike]byte(key)
	for _, i := range r.last {
		if r.all[i].begin == begin {
			return &r.all[i]
		}
	}
	for i := range r.all {
		if r.all[i].begin == begin {
			r.last = [2]int{i, r.last[0]}
			return &r.all[i]
		}
	}
	return nil
}

// or gives the row of a key, a new one where there is none; nil: there are too many.
func (r *rows) or(key []byte) *row {
	if found := r.of(key); found != nil || len(key) < alike || len(r.all) == maxRows {
		return found
	}
	r.all = append(r.all, row{begin: [alike]byte(key)})
	return &r.all[len(r.all)-1]
}

// Bulk says of the pending writes what [Batch.Bulk] says, and that about so many are to come, of so many bytes.
func (o *Overlay) Bulk(writes, bytes int) {
	o.batch.ops = slices.Grow(o.batch.ops, writes)
	o.batch.Grow(bytes)
	if o.batch.bulk {
		return
	}
	o.batch.Bulk()
	for _, i := range o.keys.last {
		if r := o.rows.or(o.batch.keyOf(int(i))); r != nil {
			r.closed = true
		}
	}
}

// inRow writes a pair that goes on with a row.
func (o *Overlay) inRow(key, value []byte) bool {
	r := o.rows.or(key)
	if r == nil || r.closed {
		return false
	}
	if n := len(r.ops); n > 0 && bytes.Compare(o.batch.keyOf(int(r.ops[n-1])), key) >= 0 {
		o.close(r)
		return false
	}
	r.ops = append(r.ops, int32(len(o.batch.ops)))
	o.batch.Set(key, value)
	return true
}

// close makes the keys of a row those that others are.
func (o *Overlay) close(r *row) {
	o.index(r.ops)
	r.ops, r.closed = nil, true
}

// index enters writes of a row.
func (o *Overlay) index(ops []int32) {
	for _, i := range ops {
		if s := &o.batch.ops[i]; !s.indexed {
			s.indexed = true
			key := o.batch.keyOf(int(i))
			_, hash, _ := o.keys.find(o.batch, key)
			o.keys.add(hash, i)
			o.order.add(key, int32(len(o.keys.last)-1))
		}
	}
}

// meet enters what a walk meets of rows.
func (o *Overlay) meet(lower, upper []byte) {
	for i := range o.rows.all {
		r := &o.rows.all[i]
		if len(r.ops) == 0 || upper != nil && bytes.Compare(o.batch.keyOf(int(r.ops[0])), upper) >= 0 {
			continue
		}
		to := len(r.ops)
		if upper != nil {
			to = r.find(o.batch, upper)
		}
		o.index(r.ops[min(r.find(o.batch, lower), to):to])
	}
}

// give hands the rows over with the batch.
func (r *rows) give(b *Batch) {
	for i := range r.all {
		if ops := r.all[i].ops; len(ops) > 0 {
			b.rows = append(b.rows, ops)
		}
	}
	clear(r.all)
	r.all, r.last = r.all[:0], [2]int{}
}
