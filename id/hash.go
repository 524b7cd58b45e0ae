package id

import (
	"encoding/binary"
	"math/bits"
)

// The primes of xxhash64, and what undoes a multiplication by them.
const (
	prime1 = 0x9E3779B185EBCA87
	prime2 = 0xC2B2AE3D27D4EB4F
	prime3 = 0x165667B19E3779F9
	prime4 = 0x85EBCA77C2B2AE63
	prime5 = 0x27D4EB2F165667C5
)

var (
	inverse1 = inverse(prime1)
	inverse2 = inverse(prime2)
	inverse3 = inverse(prime3)
)

// inverse is the number that gives 1 mod 2^64 when multiplied by n, which is odd.
func inverse(n uint64) uint64 {
	x := n // right in the last 3 bits, and in twice as many after each step
	for range 5 {
		x *= 2 - n*x
	}
	return x
}

// Hashed makes an ID like [Generator.Next] whose xxhash64 is the given one: that
// is how an ID comes to lie in a partition of the caller's choice, at the cost of
// one hash (design 3). The last twelve bytes are as random as the hash and the
// generator's random bits.
//
// Each step of xxhash64 over 20 bytes can be undone, so of the last two words
// one is random and the other one follows from the hash. The generator's number is in
// the random one, so that IDs of two generators differ where all else is the same.
func (g *Generator) Hashed(nowWall int64, hash uint64) ID {
	g.last = max(nowWall, g.last+1)
	var i ID
	order := OrderOf(g.last, KindTask)
	copy(i[:8], order[:])
	last := uint32(g.random()) ^ g.incarnation
	binary.LittleEndian.PutUint32(i[16:20], last)

	first := bits.RotateLeft64(binary.LittleEndian.Uint64(i[:8])*prime2, 31) * prime1
	first = bits.RotateLeft64((prime5+Size)^first, 27)*prime1 + prime4 // what xxhash64 holds after 8 bytes

	hash ^= hash >> 32
	hash *= inverse3
	hash ^= hash>>29 ^ hash>>58
	hash *= inverse2
	hash ^= hash >> 33
	hash = bits.RotateLeft64((hash-prime3)*inverse2, -23) ^ uint64(last)*prime1 // and after 16
	middle := bits.RotateLeft64((hash-prime4)*inverse1, -27) ^ first
	binary.LittleEndian.PutUint64(i[8:16], bits.RotateLeft64(middle*inverse1, -31)*inverse2)
	return i
}
