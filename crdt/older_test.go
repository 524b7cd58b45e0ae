package crdt

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// drawEnds draws failures and expiries of few claims, retries, and what leaders count of them.
func drawEnds(t *rapid.T, name string) []Fact {
	facts := drawFacts(t, name, KindFailed, KindExpired, KindRequeued, KindDead)
	for range rapid.IntRange(0, 2).Draw(t, name+" counted") {
		o := Older{
			Ends: Ends{Below: rapid.Uint64Range(1, 5).Draw(t, "below"), After: rapid.Uint64Range(0, 4).Draw(t, "after"),
				Attempts: rapid.Uint64Range(0, 3).Draw(t, "attempts"), Failures: rapid.Uint64Range(0, 3).Draw(t, "failures")},
			Claims: rapid.Uint64Range(0, 4).Draw(t, "claims"),
		}
		facts = append(facts, o.Fact(someTask()))
	}
	return facts
}

// TestABoundedHistoryIsASemilattice: whatever leaders count, whichever facts come before and
// after, in any order and as often as they like.
func TestABoundedHistoryIsASemilattice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := [][]Fact{drawEnds(t, "a"), drawEnds(t, "b"), drawEnds(t, "c")}
		a, b, c := setOf(t, all[0]), setOf(t, all[1]), setOf(t, all[2])
		same(t, "commutative", joined(t, a, b), joined(t, b, a))
		same(t, "associative", joined(t, joined(t, a, b), c), joined(t, a, joined(t, b, c)))
		same(t, "idempotent", joined(t, a, a), a)
		same(t, "absorbing", joined(t, a, joined(t, a, b)), joined(t, a, b))
		facts := slices.Concat(all...)
		same(t, "delivered in any order", setOf(t, rapid.Permutation(slices.Concat(facts, all[1])).Draw(t, "shuffled")), setOf(t, facts))
	})
}

// TestTheHigherCountStays: and what it covers is neither there nor taken again.
func TestTheHigherCountStays(t *testing.T) {
	low, high := Older{Ends: Ends{Below: 3, Attempts: 2}, Claims: 2}, Older{Ends: Ends{Below: 1 << 40, Attempts: 5}, Claims: 5}
	s := setOf(t, []Fact{Failed{Token: 1, Counted: true}.Fact(someTask()), Expired{Token: 7}.Fact(someTask()), low.Fact(someTask())})
	if s.Len() != 2 || view(t, s).Attempts() != 3 {
		t.Errorf("%d facts, %d attempts", s.Len(), view(t, s).Attempts())
	}
	for _, f := range []Fact{high.Fact(someTask()), low.Fact(someTask()), Failed{Token: 1, Counted: true}.Fact(someTask()), Expired{Token: 7}.Fact(someTask())} {
		if _, _, err := s.Add(f); err != nil {
			t.Fatal(err)
		}
	}
	task := view(t, s)
	if s.Len() != 1 || task.Attempts() != 5 || task.RuledOut() {
		t.Errorf("%d facts, %d attempts", s.Len(), task.Attempts())
	}
	if _, _, err := s.Add(Requeued{Generation: 1, AfterToken: 9}.Fact(someTask())); err != nil {
		t.Fatal(err)
	}
	if n := view(t, s).Attempts(); n != 0 {
		t.Errorf("%d attempts in a new run", n)
	}
}

// TestACountThatCannotBe: early facts out of order, above what is counted, or none at all.
func TestACountThatCannotBe(t *testing.T) {
	f := func(token uint64) Early { return Early{Failed{Token: token}.key(), Failed{Token: token}.Encode()} }
	for name, o := range map[string]Older{
		"nothing below":  {},
		"above":          {Ends: Ends{Below: 3}, Early: []Early{f(3)}},
		"out of order":   {Ends: Ends{Below: 3}, Early: []Early{f(2), f(1)}},
		"twice":          {Ends: Ends{Below: 3}, Early: []Early{f(1), f(1)}},
		"too many":       {Ends: Ends{Below: 9}, Early: []Early{f(1), f(2), f(3), f(4)}},
		"no end":         {Ends: Ends{Below: 9}, Early: []Early{{Key{Kind: KindUpdate}, Update{}.Encode()}}},
		"of another key": {Ends: Ends{Below: 9}, Early: []Early{{Key{Kind: KindFailed, A: 2}, Failed{Token: 1}.Encode()}}},
	} {
		if got, err := DecodeOlder(o.Encode()); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}
