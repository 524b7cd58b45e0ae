package vnode

import (
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode/record"
	"github.com/norn-dev/norn/vnode/tally"
)

// Bytes is what the tasks of a queue hold here ([crdt.Enqueued.Size]); 0 where its name has no first part, a tenant's.
func Bytes(v *Vnode, name string) (n uint64) {
	if q := v.queues[name]; q != nil {
		n = q.bytes
	}
	return n
}

// resize changes what the tasks of a queue hold, and gives by how much.
func (q *queue) resize(by int) int {
	if by = max(by, -int(q.bytes)); tally.Prefix(q.name) == "" { // more go where a build did not count
		return 0
	}
	q.bytes += uint64(by)
	return by
}

// keepSize writes what the tasks of a queue hold, or deletes it with the last of them.
func keepSize(v *Vnode, tx store.Tx, q *queue) {
	if key := appendQueue(v.keyspace[:0], tableSizes, v.Partition, q.name); tally.Prefix(q.name) != "" && q.counts.Total() == 0 {
		tx.Delete(key)
	} else if tally.Prefix(q.name) != "" {
		tx.Set(key, record.AppendSize(nil, q.bytes, &q.counts))
	}
}
