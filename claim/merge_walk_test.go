package claim

import (
	"slices"
	"testing"

	"github.com/norn-dev/norn/id"

	"pgregory.net/rapid"
)

// TestWalkGoesInOrder: as far as it is wanted, and looks at no more than that.
func TestWalkGoesInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMerge()
		members := make([][]Rank, rapid.IntRange(0, 40).Draw(t, "members"))
		var want []Rank
		for i := range members {
			for range rapid.IntRange(0, 6).Draw(t, "ranks") {
				members[i] = append(members[i], NewRank(rapid.Int32().Draw(t, "priority"), [8]byte{}, id.ID{byte(i), byte(len(members[i]))}))
			}
			slices.SortFunc(members[i], func(a, b Rank) int { return a.Compare(&b) })
			want = append(want, members[i]...)
			if len(members[i]) > 0 {
				m.Set(i, &members[i][0])
			}
		}
		slices.SortFunc(want, func(a, b Rank) int { return a.Compare(&b) })
		most, looked := rapid.IntRange(0, len(want)).Draw(t, "most"), 0
		var got []Rank
		m.Walk(func(member, place int) *Rank {
			looked++
			if place >= len(members[member]) {
				return nil
			}
			return &members[member][place]
		}, func(r *Rank) bool {
			if len(got) < most {
				got = append(got, *r)
			}
			return len(got) < most
		})
		if !slices.Equal(got, want[:most]) {
			t.Fatalf("%d ranks, and not the first %d of %d in order", len(got), most, len(want))
		}
		if looked > most {
			t.Fatalf("%d looks for %d ranks", looked, most)
		}
	})
}

// BenchmarkWalk goes over 256 ranks of 22 partitions, as a leader of a third of 64 does
// every few milliseconds.
func BenchmarkWalk(b *testing.B) {
	m := NewMerge()
	members := make([][]Rank, 22)
	for i := range members {
		for j := range 64 {
			members[i] = append(members[i], NewRank(0, [8]byte{byte(j), byte(i * 31)}, id.ID{byte(i), byte(j)}))
		}
		m.Set(i, &members[i][0])
	}
	b.ReportAllocs()
	for b.Loop() {
		n := 0
		m.Walk(func(member, place int) *Rank {
			if place >= len(members[member]) {
				return nil
			}
			return &members[member][place]
		}, func(*Rank) bool { n++; return n < 256 })
	}
}
