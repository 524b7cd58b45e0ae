package store

import "iter"

// View reads. Keys and values are bytes; a value that is there may be empty.
type View interface {
	// Get gives the value of a key. It is valid until the next call on the
	// view; callers copy what they keep.
	Get(key []byte) (value []byte, ok bool)
	// Scan gives the pairs with lower <= key < upper in ascending order; a nil
	// upper has no end. The slices are valid during one step. The store must
	// not be written through the same view during the walk.
	Scan(lower, upper []byte) iter.Seq2[[]byte, []byte]
	// Back gives the pairs that Scan gives in descending order: whoever needs the
	// end of a long run reads no more than that.
	Back(lower, upper []byte) iter.Seq2[[]byte, []byte]
}

// Reader is a view that can also find the end of a range.
type Reader interface {
	View
	// Last gives the greatest key with lower <= key < upper.
	Last(lower, upper []byte) (key []byte, ok bool)
}

// Writer collects writes. It keeps neither key nor value.
type Writer interface {
	Set(key, value []byte)
	Delete(key []byte)
}

// Tx reads and writes; reads see the writes.
type Tx interface {
	View
	Writer
}

// Snapshot is a view that does not change. It must be closed.
type Snapshot interface {
	View
	Close()
}

// Store is an ordered map on a disk. Apply, Commit and Snapshot may be called
// from different goroutines; the order of Apply calls is the order of writes.
type Store interface {
	View
	// Apply makes the batch visible. The batch may be reused afterwards.
	Apply(b *Batch)
	// Commit makes the batch visible, like Apply, and begins to make it durable
	// with everything applied before; an empty batch is a plain sync. wait
	// returns when that is done. It must be called once, on any goroutine,
	// before Close.
	Commit(b *Batch) (wait func())
	// Snapshot gives the store as it is now.
	Snapshot() Snapshot
	// Close ends the store. What is not synced may be lost.
	Close() error
}
