package crdt

import (
	"math/bits"

	"github.com/cespare/xxhash/v2"

	"github.com/norn-dev/norn/id"
)

// Sum is the hash of a set of facts: the sum of its facts' hashes modulo 2^128,
// high half first. It does not depend on order, and a fact goes in or out
// without the others being read.
//
// It is a sum, not an exclusive or, because there duplicates cancel out; and it
// has 128 bits, because at 10^9 facts 64 collide (protocol (f)). It finds what
// differs by accident; it does not withstand somebody who looks for collisions.
type Sum [2]uint64

// Seeds of the two halves. They are part of what replicas compare: never
// change them.
const (
	seedHigh = 0x4e6f726e2048696e // "Norn Hin"
	seedLow  = 0x4e6f726e204c6f77 // "Norn Low"
)

// HashFact gives the sum of one fact: two xxhash64 with different seeds over
// task, key and body.
func HashFact(f Fact) Sum {
	var buf [id.Size + KeySize]byte
	head := f.Key.Append(append(buf[:0], f.Task[:]...))
	var d xxhash.Digest
	var s Sum
	for i, seed := range [...]uint64{seedHigh, seedLow} {
		d.ResetWithSeed(seed)
		_, _ = d.Write(head) // never fails
		_, _ = d.Write(f.Body)
		s[i] = d.Sum64()
	}
	return s
}

// Add gives the sum with o in it.
func (s Sum) Add(o Sum) Sum {
	low, carry := bits.Add64(s[1], o[1], 0)
	high, _ := bits.Add64(s[0], o[0], carry)
	return Sum{high, low}
}

// Sub gives the sum with o taken out.
func (s Sum) Sub(o Sum) Sum {
	low, borrow := bits.Sub64(s[1], o[1], 0)
	high, _ := bits.Sub64(s[0], o[0], borrow)
	return Sum{high, low}
}
