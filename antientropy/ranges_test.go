package antientropy

import (
	"iter"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// TestRangesAreSums: of any runs of IDs, whose bounds lie anywhere, also within leaves and
// among unique keys, the tree gives what the facts come to.
func TestRangesAreSums(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	r := newReplica()
	tree := r.tree
	var all []crdt.Fact
	draw := func() (i id.ID) {
		second := uint64(random.IntN(4)) << (8 * random.IntN(3))
		switch sub := uint64(random.IntN(1 << 30)); random.IntN(3) {
		case 0:
			i = idAt(second, sub<<2, uint64(random.IntN(1<<16)))
		default:
			i = idAt(second, uint64(id.KindKey), uint64(random.IntN(1<<16)))
		}
		i[19] = byte(random.IntN(256))
		return i
	}
	for range 3000 {
		f := crdt.Fact{Task: draw(), Key: crdt.Key{Kind: crdt.KindUpdate, A: random.Uint64(), B: 1}, Body: []byte("body")}
		all = append(all, f)
	}
	for i, f := range all {
		if tree.Add(f); i == len(all)-100 { // the others are changes in memory
			tree.Flush(r.tx)
		}
	}
	slices.SortFunc(all, func(a, b crdt.Fact) int { return a.Task.Compare(b.Task) })
	facts := func(span Span) iter.Seq[crdt.Fact] {
		return func(yield func(crdt.Fact) bool) {
			for _, f := range all {
				if span.Holds(f.Task) && !yield(f) {
					return
				}
			}
		}
	}
	for range 50 {
		bounds := []id.ID{{}}
		for range random.IntN(40) {
			bounds = append(bounds, draw())
		}
		slices.SortFunc(bounds, id.ID.Compare)
		bounds = slices.Compact(bounds)
		want := make([]Node, len(bounds))
		for _, f := range all {
			i := RunOf(bounds, f.Task)
			want[i] = want[i].plus(Node{crdt.HashFact(f), 1})
		}
		if got := tree.Ranges(r.tx, bounds, facts); !slices.Equal(got, want) {
			t.Fatalf("of %v\n%v, not\n%v", bounds, got, want)
		}
	}
}
