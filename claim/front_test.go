package claim

import (
	"slices"
	"testing"

	"github.com/norn-dev/norn/id"

	"pgregory.net/rapid"
)

// TestFrontIsWhatAWalkVisits: after any changes, as far as it is wanted; and of members that have
// not changed nothing is read again.
func TestFrontIsWhatAWalkVisits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := NewMerge()
		members := make([][]Rank, rapid.IntRange(1, 12).Draw(t, "members"))
		changed, looked, serial := map[int]bool{}, 0, byte(0)
		next := func(member, place int) *Rank {
			looked++
			if place >= len(members[member]) {
				return nil
			}
			return &members[member][place]
		}
		const n = 4
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			i := rapid.IntRange(0, len(members)-1).Draw(t, "member")
			switch rapid.SampledFrom([]string{"insert", "insert", "first", "any", "hide", "look"}).Draw(t, "step") {
			case "insert":
				serial++
				members[i] = append(members[i], NewRank(int32(rapid.IntRange(-20, 20).Draw(t, "priority")), [8]byte{}, id.ID{byte(i), serial}))
				slices.SortFunc(members[i], func(a, b Rank) int { return a.Compare(&b) })
			case "first":
				members[i] = slices.Clone(members[i][min(1, len(members[i])):])
			case "any":
				if at := len(members[i]) / 2; at < len(members[i]) {
					members[i] = slices.Delete(slices.Clone(members[i]), at, at+1)
				}
			case "hide":
				m.Set(i, nil)
				changed[i] = true
				members[i] = nil
				continue
			case "look":
				var want []Rank
				m.Walk(next, func(r *Rank) bool { want = append(want, *r); return true })
				kept := m.front.touched != nil && len(m.front.ranks) >= 2*n
				few := 0
				for who := range changed {
					few += 1 + len(members[who])
				}
				looked = 0
				var got []Rank
				for _, r := range m.Front(n, next) {
					got = append(got, r.Rank)
				}
				if len(got) < min(n, len(want)) || len(got) > len(want) || !slices.Equal(got, want[:len(got)]) {
					t.Fatalf("%d ranks, and not the first of %d in order", len(got), len(want))
				}
				if kept && len(changed) == 0 && looked > 0 {
					t.Fatalf("nothing has changed, and %d were read", looked)
				}
				if kept && m.front.touched != nil && len(changed) == 1 && looked > max(few, 2*n) {
					t.Fatalf("%d looks after %v have changed", looked, changed)
				}
				clear(changed)
				continue
			}
			changed[i] = true
			if len(members[i]) == 0 {
				m.Set(i, nil)
			} else {
				m.Set(i, &members[i][0])
			}
		}
	})
}

// TestAFrontNobodyLooksAtIsForgotten: what is kept does not grow without a look.
func TestAFrontNobodyLooksAtIsForgotten(t *testing.T) {
	m := NewMerge()
	for i := range 100 {
		r := NewRank(0, [8]byte{byte(i)}, id.ID{byte(i)})
		m.Set(i, &r)
	}
	none := func(int, int) *Rank { return nil }
	if got := len(m.Front(8, none)); got < 8 {
		t.Fatalf("%d ranks", got)
	}
	for i := range 20 {
		m.Set(i, nil)
	}
	if m.front.touched != nil || m.front.ranks != nil {
		t.Errorf("%d ranks are kept", len(m.front.ranks))
	}
	if got := m.Front(8, none); got[0].Member != 20 {
		t.Errorf("the first is that of %d", got[0].Member)
	}
}

// BenchmarkFront looks at 256 ranks of 1,365 partitions with some tasks each, of which ten have
// changed, as a leader of a third of 4,096 does every few milliseconds.
func BenchmarkFront(b *testing.B) {
	for _, by := range []string{"walk", "front"} {
		b.Run(by, func(b *testing.B) {
			m := NewMerge()
			members, serial := make([][]Rank, 1365), 0
			add := func(i int) {
				serial++
				members[i] = append(members[i], NewRank(0, [8]byte{0, byte(serial >> 16), byte(serial >> 8), byte(serial)}, id.ID{byte(i >> 8), byte(i)}))
				m.Set(i, &members[i][0])
			}
			for i := range 5 * len(members) {
				add(i * 7 % len(members))
			}
			next := func(member, place int) *Rank {
				if place >= len(members[member]) {
					return nil
				}
				return &members[member][place]
			}
			b.ReportAllocs()
			for b.Loop() {
				for range 10 {
					i, _, _ := m.Best()
					members[i] = members[i][1:]
					m.Set(i, nil)
					add(i)
				}
				n := 0
				if by == "front" {
					n = len(m.Front(256, next))
				} else {
					m.Walk(next, func(*Rank) bool { n++; return n < 256 })
				}
				if n < 256 {
					b.Fatal(n)
				}
			}
		})
	}
}
