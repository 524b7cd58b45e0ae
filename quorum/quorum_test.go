package quorum

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestMajority(t *testing.T) {
	for n, want := range []int{1, 1, 2, 2, 3, 3, 4, 4} {
		if got := Majority(n); got != want {
			t.Errorf("majority of %d is %d, want %d", n, got, want)
		}
	}
	if got := Majority(-5); got != 1 {
		t.Errorf("majority of fewer than none is %d", got)
	}
}

// Every two majorities share a member, and every set of fewer has a disjoint
// majority beside it: the number is exactly right.
func TestMajoritiesIntersect(t *testing.T) {
	for n := 1; n <= 7; n++ {
		reached := func(set int) bool {
			members := make([]int, n)
			for m := range members {
				members[m] = m
			}
			tally := NewTally(members)
			for m := range n {
				if set>>m&1 == 1 {
					tally.Add(m)
				}
			}
			return tally.Reached()
		}
		all := 1<<n - 1
		for a := range all + 1 {
			for b := range all + 1 {
				if a&b == 0 && reached(a) && reached(b) {
					t.Fatalf("of %d members, %b and %b are majorities and share none", n, a, b)
				}
			}
			if !reached(a) && n%2 == 1 && !reached(all&^a) {
				t.Fatalf("of %d members, neither %b nor the others are a majority", n, a)
			}
		}
	}
}

// model counts the way the definition reads.
type model struct {
	cohorts [][]int
	yes, no map[int]bool
}

// holds tells whether w of each cohort count, or all of it and a majority if so.
func (m *model) holds(w int, count func(int) bool, most bool) bool {
	for _, c := range m.cohorts {
		members, n := slices.Compact(slices.Sorted(slices.Values(c))), 0
		for _, x := range members {
			if count(x) {
				n++
			}
		}
		if most && (2*n <= len(members) || n < w && n < len(members)) || !most && n < w {
			return false
		}
	}
	return len(m.cohorts) > 0 || !most
}

func (m *model) first(count func(int) bool) (n, size int) {
	if len(m.cohorts) == 0 {
		return 0, 0
	}
	members := slices.Compact(slices.Sorted(slices.Values(m.cohorts[0])))
	for _, x := range members {
		if count(x) {
			n++
		}
	}
	return n, len(members)
}

func (m *model) reachedW(w int, count func(int) bool) bool {
	n, size := m.first(count)
	w = max(w, 1)
	return len(m.cohorts) > 0 && n >= w && (2*w <= size || m.holds(w, count, true))
}

func TestTally(t *testing.T) {
	members := rapid.IntRange(0, 9)
	cohort := rapid.SliceOfN(members, 0, 7) // members twice, empty cohorts too
	rapid.Check(t, func(t *rapid.T) {
		m := &model{cohorts: rapid.SliceOfN(cohort, 0, 3).Draw(t, "cohorts"), yes: map[int]bool{}, no: map[int]bool{}}
		tally := NewTally(m.cohorts...)
		added := func(x int) bool { return m.yes[x] }
		open := func(x int) bool { return m.yes[x] || !m.no[x] }
		for range rapid.IntRange(0, 20).Draw(t, "answers") {
			x := rapid.IntRange(0, 12).Draw(t, "member") // 10 to 12 are strangers
			if rapid.Bool().Draw(t, "refuses") {
				tally.Refuse(x)
				m.no[x] = true
			} else {
				tally.Add(x)
				m.yes[x] = true
			}
			if got, want := tally.Reached(), m.holds(0, added, true); got != want {
				t.Fatalf("reached is %v, want %v", got, want)
			}
			if got, want := tally.Lost(), !m.holds(0, open, true); got != want {
				t.Fatalf("lost is %v, want %v", got, want)
			}
			if got, _ := m.first(added); got != tally.Count() {
				t.Fatalf("count is %d, want %d", tally.Count(), got)
			}
			if n := tally.Least(); !m.holds(n, added, false) || m.holds(n+1, added, false) && len(m.cohorts) > 0 {
				t.Fatalf("the least is %d of %v in %v", n, m.yes, m.cohorts)
			}
			for w := -1; w <= 8; w++ {
				if got, want := tally.ReachedW(w), m.reachedW(w, added); got != want {
					t.Fatalf("reached %d is %v, want %v", w, got, want)
				}
				if got, want := tally.LostW(w), !m.reachedW(w, open); got != want {
					t.Fatalf("lost %d is %v, want %v", w, got, want)
				}
			}
			if tally.Reached() && tally.Lost() {
				t.Fatal("reached and lost at once")
			}
		}
	})
}

// What a tally says does not depend on the order of the answers, and more
// answers with yes never take it back.
func TestTallyOrderDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, target := []string{"a", "b", "c"}, []string{"b", "c", "d", "e"}
		answers := rapid.SliceOf(rapid.SampledFrom([]string{"+a", "+b", "+c", "+d", "+e", "-a", "-b", "-c", "-d", "-e", "+x"})).Draw(t, "answers")
		shuffled := rapid.Permutation(answers).Draw(t, "shuffled")
		one, two := NewTally(old, target), NewTally(old, target)
		apply := func(tally *Tally[string], answer string) {
			if answer[0] == '+' {
				tally.Add(answer[1:])
			} else {
				tally.Refuse(answer[1:])
			}
		}
		reached := false
		for i := range answers {
			apply(one, answers[i])
			apply(two, shuffled[i])
			if reached && !one.Reached() {
				t.Fatalf("%s took the majority back", answers[i])
			}
			reached = one.Reached()
		}
		if one.Reached() != two.Reached() || one.Lost() != two.Lost() || one.Count() != two.Count() {
			t.Fatalf("%v and %v end differently", answers, shuffled)
		}
	})
}

func TestTallyWithoutCohorts(t *testing.T) {
	for name, tally := range map[string]*Tally[int]{"none": NewTally[int](), "an empty one": NewTally([]int{}), "an empty one beside": NewTally([]int{1}, nil)} {
		tally.Add(1)
		if tally.Reached() || !tally.Lost() {
			t.Errorf("%s: reached %v, lost %v", name, tally.Reached(), tally.Lost())
		}
	}
}

func BenchmarkTallyOfThree(b *testing.B) {
	cohort := []uint64{1, 2, 3}
	b.ReportAllocs()
	for b.Loop() {
		t := NewTally(cohort)
		t.Add(3)
		t.Add(1)
		if !t.Reached() {
			b.Fatal("two of three are a majority")
		}
	}
}
