package vnode

import (
	"encoding/binary"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Key is what is remembered of a unique key without a window.
type Key struct {
	First      id.ID  // of generation 0: names the key
	Generation uint64 // in use
	Current    id.ID  // of that generation, or of the one before: the newest that anybody knows
	Changed    int64  // wall ns
}

const keySize = 8 + 8 + id.Size

// KeyGeneration is the generation that a unique key is in; first is the ID of
// its generation 0, p that ID's partition.
func KeyGeneration(view store.View, p ring.Partition, first id.ID) uint64 {
	if b, ok := view.Get(appendTask(nil, tableKeys, p, first)); ok && len(b) == keySize {
		return binary.BigEndian.Uint64(b)
	}
	return 0
}

// KeyTask is the newest task of a unique key that is remembered; ok is false when
// none is.
func KeyTask(view store.View, p ring.Partition, first id.ID) (task id.ID, ok bool) {
	if b, ok := view.Get(appendTask(nil, tableKeys, p, first)); ok && len(b) == keySize {
		return id.ID(b[16:]), true
	}
	return id.ID{}, false
}

// SetKey remembers the generation of a key.
func SetKey(tx store.Tx, p ring.Partition, k Key) {
	b := binary.BigEndian.AppendUint64(nil, k.Generation)
	b = binary.BigEndian.AppendUint64(b, uint64(k.Changed))
	tx.Set(appendTask(nil, tableKeys, p, k.First), append(b, k.Current[:]...))
}

// DropKey forgets a key: it begins again at generation 0. That is safe once
// nobody knows any of its tasks.
func DropKey(tx store.Tx, p ring.Partition, first id.ID) {
	tx.Delete(appendTask(nil, tableKeys, p, first))
}

// Keys gives up to limit keys of a partition after one.
func Keys(view store.View, p ring.Partition, last id.ID, limit int) (keys []Key) {
	prefix := appendPrefix(nil, tableKeys, p)
	from := prefix
	if !last.IsZero() {
		from = after(appendTask(nil, tableKeys, p, last))
	}
	for key, value := range view.Scan(from, after(prefix)) {
		if len(keys) == limit {
			break
		}
		k := Key{First: id.ID(key[prefixSize:])}
		if len(value) == keySize {
			k.Generation = binary.BigEndian.Uint64(value)
			k.Changed = int64(binary.BigEndian.Uint64(value[8:]))
			k.Current = id.ID(value[16:])
		}
		keys = append(keys, k)
	}
	return keys
}
