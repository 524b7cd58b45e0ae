package vnode

import (
	"bytes"

	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
)

// Ballot is what the acceptor of a partition has promised and seen proposed, as
// [SetBallot] stored it; nil when it never did. It outlives the vnode: [Drop]
// leaves it where it is, because a promise that is forgotten lets two leaders
// grant the same task (design 7.2, step 8).
func Ballot(view store.View, p ring.Partition) []byte {
	b, _ := view.Get(appendPrefix(nil, tableBallot, p))
	return bytes.Clone(b)
}

// SetBallot stores the acceptor's record, which means nothing here.
func SetBallot(tx store.Tx, p ring.Partition, b []byte) { tx.Set(appendPrefix(nil, tableBallot, p), b) }
