package id

import (
	"testing"

	"github.com/cespare/xxhash/v2"
	"pgregory.net/rapid"
)

// TestHashedHasTheHash: the ID has the hash that was asked for, is a task's, and follows the one before.
func TestHashedHasTheHash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := NewGenerator(rapid.Uint32().Draw(t, "generator"), seeded(rapid.Uint64().Draw(t, "seed")).Uint64)
		last := ID{}
		for _, hash := range rapid.SliceOfN(rapid.Uint64(), 1, 20).Draw(t, "hashes") {
			i := g.Hashed(rapid.Int64Range(someWall, someWall+10).Draw(t, "wall"), hash)
			if got := xxhash.Sum64(i[:]); got != hash || i.Kind() != KindTask || i.Compare(last) <= 0 {
				t.Fatalf("%x of kind %d after %x has hash %x, want %x", i, i.Kind(), last, got, hash)
			}
			last = i
		}
	})
}

// TestHashedNeverCollides: of eight generators with the same clock, the same random bits and the same hashes
// no two IDs are the same, and all bits of the last twelve bytes change.
func TestHashedNeverCollides(t *testing.T) {
	const generators, each = 8, 20_000
	seen := make(map[ID]bool, generators*each)
	var ones [12][8]int
	for n := range generators {
		r, hashes := seeded(42), seeded(43)
		g := NewGenerator(uint32(n), r.Uint64)
		for k := range each {
			i := g.Hashed(someWall+int64(k/3), hashes.Uint64())
			if seen[i] {
				t.Fatalf("%s was made twice", i)
			}
			seen[i] = true
			for at, b := range i[8:] {
				for bit := range 8 {
					ones[at][bit] += int(b >> bit & 1)
				}
			}
		}
	}
	for at := range ones {
		for bit, n := range ones[at] {
			if share := float64(n) / float64(generators*each); share < 0.48 || share > 0.52 {
				t.Errorf("bit %d of byte %d is 1 in %.3f of all IDs", bit, at+8, share)
			}
		}
	}
}

func BenchmarkHashed(b *testing.B) {
	r := seeded(1)
	g := NewGenerator(1, r.Uint64)
	b.ReportAllocs()
	for b.Loop() {
		g.Hashed(someWall, r.Uint64())
	}
}
