package crdt

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
)

func setOf(t failer, facts []Fact) *Set {
	t.Helper()
	s := NewSet(someTask())
	for _, f := range facts {
		if _, _, err := s.Add(f); err != nil {
			t.Fatalf("%+v: %v", f, err)
		}
	}
	return s
}

// same tells whether two sets cannot be told apart: facts, sum, everything
// derived.
func same(t failer, what string, a, b *Set) {
	t.Helper()
	if x, y := slices.Collect(a.Facts()), slices.Collect(b.Facts()); !reflect.DeepEqual(x, y) {
		t.Fatalf("%s: %v and %v", what, x, y)
	}
	if a.Sum() != b.Sum() {
		t.Fatalf("%s: sums %x and %x", what, a.Sum(), b.Sum())
	}
	if x, y := view(t, a), view(t, b); !reflect.DeepEqual(x, y) || stateAt(x, 3) != stateAt(y, 3) {
		t.Fatalf("%s: %+v and %+v", what, x, y)
	}
}

func view(t failer, s *Set) *Task {
	t.Helper()
	task, err := s.Task()
	if err != nil {
		t.Fatalf("view: %v", err)
	}
	return task
}

func stateAt(t *Task, wall int64) State { return t.State(nil, clock.Time{Wall: wall}) }

func joined(t failer, sets ...*Set) *Set {
	t.Helper()
	all := NewSet(someTask())
	for _, s := range sets {
		if _, _, err := all.Join(s); err != nil {
			t.Fatalf("join: %v", err)
		}
	}
	return all
}

// The set is what a map from keys to the smallest body would hold.
func TestSetAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, model := NewSet(someTask()), map[Key][]byte{}
		for _, f := range drawFacts(t, "facts") {
			old, had := model[f.Key]
			wantClash := had && !bytes.Equal(old, f.Body)
			wantChanged := !had || bytes.Compare(f.Body, old) < 0
			if wantChanged {
				model[f.Key] = f.Body
			}
			changed, clash, err := s.Add(f)
			if err != nil || changed != wantChanged || clash != wantClash {
				t.Fatalf("changed %v, clash %v, %v; want %v, %v", changed, clash, err, wantChanged, wantClash)
			}
		}
		last, sum := Key{}, Sum{}
		for f := range s.Facts() {
			if f.Key.Compare(last) <= 0 {
				t.Fatalf("%v after %v", f.Key, last)
			}
			last = f.Key
			sum = sum.Add(HashFact(f))
			if body, ok := s.Get(f.Key); !ok || !bytes.Equal(body, model[f.Key]) || !bytes.Equal(body, f.Body) {
				t.Fatalf("%v: %x, want %x", f.Key, body, model[f.Key])
			}
		}
		if s.Len() != len(model) || s.Sum() != sum {
			t.Fatalf("%d facts with sum %x, want %d with %x", s.Len(), s.Sum(), len(model), sum)
		}
		if _, ok := s.Get(Key{Kind: KindUpdate, A: 99}); ok {
			t.Fatal("found what was never added")
		}
	})
}

func TestJoinIsASemilattice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := setOf(t, drawFacts(t, "a")), setOf(t, drawFacts(t, "b")), setOf(t, drawFacts(t, "c"))
		same(t, "commutative", joined(t, a, b), joined(t, b, a))
		same(t, "associative", joined(t, joined(t, a, b), c), joined(t, a, joined(t, b, c)))
		same(t, "idempotent", joined(t, a, a), a)
		same(t, "absorbing", joined(t, a, joined(t, a, b)), joined(t, a, b))
		same(t, "neutral", joined(t, a, NewSet(someTask())), a)
	})
}

// Any order, any duplication, any part of it first: the same in the end.
func TestDeliveryLeavesNoTrace(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := drawFacts(t, "facts")
		want := setOf(t, facts)
		if len(facts) == 0 {
			return
		}
		again := rapid.SliceOfN(rapid.SampledFrom(facts), 0, 10).Draw(t, "duplicates and a part first")
		shuffled := rapid.Permutation(slices.Concat(facts, again)).Draw(t, "shuffled")
		same(t, "shuffled with duplicates", setOf(t, shuffled), want)
		same(t, "a part, then all", setOf(t, slices.Concat(again, facts)), want)
		at := rapid.IntRange(0, len(shuffled)).Draw(t, "cut")
		same(t, "two replicas", joined(t, setOf(t, shuffled[:at]), setOf(t, shuffled[at:])), want)
	})
}

// A clash has the same winner in any order, and whoever brings two bodies
// together is told.
func TestClashesAreResolvedAndReported(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		facts := drawFacts(t, "facts")
		bodies := map[Key][][]byte{}
		for _, f := range facts {
			if !slices.ContainsFunc(bodies[f.Key], func(b []byte) bool { return bytes.Equal(b, f.Body) }) {
				bodies[f.Key] = append(bodies[f.Key], f.Body)
			}
		}
		reported := map[Key]bool{}
		s := NewSet(someTask())
		for _, f := range rapid.Permutation(facts).Draw(t, "shuffled") {
			if _, clash, _ := s.Add(f); clash {
				reported[f.Key] = true
			}
		}
		for k, b := range bodies {
			if reported[k] != (len(b) > 1) {
				t.Fatalf("%v has %d bodies, a clash was reported: %v", k, len(b), reported[k])
			}
			if got, _ := s.Get(k); !bytes.Equal(got, slices.MinFunc(b, bytes.Compare)) {
				t.Fatalf("%v: %x has won among %x", k, got, b)
			}
		}
	})
}

func TestJoinReports(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := setOf(t, drawFacts(t, "a")), setOf(t, drawFacts(t, "b"))
		before := joined(t, a)
		changed, clashes, err := a.Join(b)
		if err != nil || changed != !reflect.DeepEqual(a.facts, before.facts) {
			t.Fatalf("changed %v, %v", changed, err)
		}
		var want []Key
		for f := range b.Facts() {
			if body, ok := before.Get(f.Key); ok && !bytes.Equal(body, f.Body) {
				want = append(want, f.Key)
			}
		}
		if !slices.Equal(clashes, want) {
			t.Fatalf("clashes %v, want %v", clashes, want)
		}
	})
}

func TestSetRefuses(t *testing.T) {
	s := setOf(t, []Fact{Completed{Token: 1}.Fact(someTask())})
	sum := s.Sum()
	for name, f := range map[string]Fact{
		"another task":  Completed{Token: 2}.Fact(id.ID{9}),
		"no kind":       {Task: someTask()},
		"a broken body": {Task: someTask(), Key: Key{Kind: KindCompleted, A: 2}, Body: []byte{1}},
		"another key":   {Task: someTask(), Key: Key{Kind: KindCompleted, A: 2}, Body: Completed{Token: 3}.Encode()},
	} {
		if changed, clash, err := s.Add(f); changed || clash || !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: changed %v, clash %v, %v", name, changed, clash, err)
		}
	}
	if _, _, err := s.Join(NewSet(id.ID{9})); !errors.Is(err, ErrMalformed) {
		t.Errorf("the set of another task was joined: %v", err)
	}
	if s.Len() != 1 || s.Sum() != sum {
		t.Error("what was refused has left a trace")
	}
}

func TestViewRefuses(t *testing.T) {
	one, two := Expired{Token: 1}.Fact(someTask()), Expired{Token: 2}.Fact(someTask())
	other := Expired{Token: 3}.Fact(id.ID{9})
	broken := Fact{Task: someTask(), Key: Key{Kind: KindExpired, A: 3}, Body: []byte{1}}
	newer := Fact{Task: someTask(), Key: Key{Kind: 77}}
	for name, c := range map[string]struct {
		facts []Fact
		want  error
	}{
		"ascending":     {[]Fact{one, two}, nil},
		"descending":    {[]Fact{two, one}, ErrMalformed},
		"one key twice": {[]Fact{one, one}, ErrMalformed},
		"another task":  {[]Fact{one, other}, ErrMalformed},
		"no kind":       {[]Fact{{Task: someTask()}}, ErrMalformed},
		"a broken body": {[]Fact{one, broken}, ErrMalformed},
		"a newer kind":  {[]Fact{one, newer}, ErrUnknown},
	} {
		if _, err := View(someTask(), slices.Values(c.facts)); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestSumIsAGroup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		draw := func(name string) Sum {
			return Sum{drawUint(t, name+" high"), rapid.OneOf(rapid.Uint64(), rapid.Just(^uint64(0))).Draw(t, name+" low")}
		}
		a, b, c := draw("a"), draw("b"), draw("c")
		if a.Add(b) != b.Add(a) || a.Add(b).Add(c) != a.Add(b.Add(c)) || a.Add(b).Sub(b) != a || a.Sub(a) != (Sum{}) {
			t.Fatalf("%x, %x, %x", a, b, c)
		}
	})
	if got := (Sum{0, ^uint64(0)}).Add(Sum{0, 1}); got != (Sum{1, 0}) {
		t.Errorf("the halves do not carry: %x", got)
	}
}

// Every part of a fact is in its hash, in both halves, and the hash never
// changes: nodes compare it.
func TestHashFact(t *testing.T) {
	f := Update{Token: 1, Seq: 2, Data: []byte("data"), At: 3}.Fact(someTask())
	base := HashFact(f)
	if want := (Sum{0xd89d164eda9420b2, 0x3c41f6c98b2ed7ae}); base != want {
		t.Errorf("%#x, want %#x", base, want)
	}
	task, key, body := f, f, f
	task.Task[19] ^= 1
	key.Key.B ^= 1
	body.Body = append(slices.Clone(f.Body), 0)
	for name, other := range map[string]Fact{"task": task, "key": key, "body": body} {
		if h := HashFact(other); h[0] == base[0] || h[1] == base[1] {
			t.Errorf("another %s: %x and %x", name, h, base)
		}
	}
}
