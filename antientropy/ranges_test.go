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

// TestDivide: runs begin with seconds, ascend, are no more than the limit, and have no more facts than they are to
// have unless one second has.
func TestDivide(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	r := newReplica()
	seconds := map[uint64]uint64{}
	for range 5000 {
		second := 1 + uint64(random.IntN(8))<<(8*random.IntN(3)) + uint64(random.IntN(50))
		i := idAt(second, uint64(random.IntN(1<<30))<<2, 0)
		seconds[second]++
		r.tree.Add(crdt.Fact{Task: i, Key: crdt.Key{Kind: crdt.KindUpdate, A: random.Uint64(), B: 1}, Body: []byte("body")})
	}
	r.tree.Flush(r.tx)
	for _, c := range [][2]int{{1, 1000}, {10, 1000}, {200, 1000}, {1, 7}, {1 << 20, 10}} {
		bounds := r.tree.Divide(r.tx, uint64(c[0]), c[1])
		most := uint64(max(c[0], 2*5000/c[1]+1))
		if len(bounds) > c[1]+1 || !bounds[0].IsZero() || most < 1000 && len(bounds) < 2 {
			t.Fatalf("%v: %d runs", c, len(bounds))
		}
		for i, from := range bounds {
			if i > 0 && (from.Compare(bounds[i-1]) <= 0 || from != idAt(uint64(from[0])<<24|uint64(from[1])<<16|uint64(from[2])<<8|uint64(from[3]), 0, 0)) {
				t.Fatalf("%v: run %d begins with %s after %s", c, i, from, bounds[i-1])
			}
		}
		have, parts := make([]uint64, len(bounds)), make([]int, len(bounds))
		for second, n := range seconds {
			i := RunOf(bounds, idAt(second, 0, 0))
			have[i], parts[i] = have[i]+n, parts[i]+1
		}
		for i := range have {
			if have[i] > most && parts[i] > 1 {
				t.Errorf("%v: run %d has %d facts of %d seconds, more than %d", c, i, have[i], parts[i], most)
			}
		}
	}
}
