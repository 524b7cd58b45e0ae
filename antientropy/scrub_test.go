package antientropy

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// scrub runs a scrubber to its end; between is called after each step.
func scrub(t tb, s *Scrubber, r *replica, facts int, between func()) []Difference {
	t.Helper()
	var found []Difference
	for n := 0; ; n++ {
		if n > 100_000 {
			t.Fatal("the scrubber does not end")
		}
		more, done := s.Step(r.tx, facts)
		found = append(found, more...)
		r.commit()
		if done {
			return found
		}
		if between != nil {
			between()
		}
	}
}

func drawReplica(t *rapid.T) *replica {
	r := newReplica()
	for _, f := range rapid.SliceOfN(rapid.Custom(drawFact), 0, 100).Draw(t, "facts") {
		r.put(f)
	}
	r.commit()
	return r
}

// Of a tree that is right nothing is reported, whatever is written meanwhile.
func TestScrubFindsNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReplica(t)
		s := NewScrubber(r.tree, r)
		s.Start(Path{}, true)
		found := scrub(t, s, r, rapid.IntRange(1, 20).Draw(t, "budget"), func() {
			switch rapid.IntRange(0, 3).Draw(t, "write") {
			case 0:
				r.put(drawFact(t))
			case 1:
				if all := r.all(); len(all) > 0 {
					r.drop(rapid.SampledFrom(all).Draw(t, "gone"))
				}
			case 2:
				r.put(drawFact(t))
				r.commit()
			}
		})
		if len(found) > 0 {
			t.Fatalf("found %v", found)
		}
		r.commit()
		wantTree(t, r)
	})
}

// Whatever is wrong with the stored nodes is found and put right; what is not
// wrong is not reported.
func TestScrubRepairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := drawReplica(t)
		right := r.nodes()
		keys := make([]string, 0, len(right))
		for k := range right {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		wrong := map[Path]bool{}
		for range rapid.IntRange(0, 5).Draw(t, "wrong") {
			p := LeafOf(drawID(t))
			if len(keys) > 0 && rapid.Bool().Draw(t, "stored") {
				p, _ = r.tree.pathOf([]byte(rapid.SampledFrom(keys).Draw(t, "key")))
			}
			value := [][]byte{nil, []byte("?"), append([]byte{HashVersion}, make([]byte, 17)...)}[rapid.IntRange(0, 2).Draw(t, "how")]
			if value == nil {
				r.tx.Delete(r.tree.keyOf(p))
			} else {
				value[len(value)-1] = 7
				r.tx.Set(r.tree.keyOf(p), value)
			}
			wrong[p] = true
		}
		r.commit()
		s := NewScrubber(r.tree, r)
		s.Start(Path{}, true)
		for _, d := range scrub(t, s, r, rapid.IntRange(1, 50).Draw(t, "budget"), nil) {
			if !wrong[d.Path] {
				t.Fatalf("%+v is not wrong", d)
			}
		}
		got := r.nodes()
		for k, v := range got {
			if p, _ := r.tree.pathOf([]byte(k)); right[k] != v && (right[k] != "" || r.tree.decode([]byte(v)) != (Node{}) || p.Level > keyLevel) {
				t.Fatalf("node %x is %x, want %x", k, v, right[k])
			}
		}
		for k := range right {
			if got[k] == "" {
				t.Fatalf("node %x is missing", k)
			}
		}
	})
}

// A tree that was never there is built, with bounded work in each step.
func TestScrubRebuilds(t *testing.T) {
	r := newReplica()
	load(r, recent(3000, 700, someTime))
	want := r.nodes()
	for k := range want {
		r.tx.Delete([]byte(k))
	}
	r.commit()
	s := NewScrubber(r.tree, r)
	s.Start(Path{}, true)
	steps := 0
	scrub(t, s, r, 100, func() { steps++ })
	if steps < 30 {
		t.Errorf("%d steps for 3000 facts of 100 each", steps)
	}
	wantTree(t, r)
	if len(r.nodes()) != len(want) {
		t.Errorf("%d nodes, want %d", len(r.nodes()), len(want))
	}
}

// A suspect is checked alone, with what is above it.
func TestScrubOneNode(t *testing.T) {
	r := newReplica()
	facts := recent(3000, 700, someTime)
	load(r, facts)
	bad, other := LeafOf(facts[10].Task), LeafOf(facts[2990].Task)
	for _, p := range []Path{bad, other, bad.Parent(), other.Parent(), {}} {
		r.tx.Set(r.tree.keyOf(p), []byte("?"))
	}
	r.commit()
	s := NewScrubber(r.tree, r)
	s.Start(bad, false)
	var got []Path
	for _, d := range scrub(t, s, r, 1000, nil) {
		got = append(got, d.Path)
	}
	if want := []Path{bad, bad.Parent(), bad.Parent().Parent(), {}}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	s.Start(other.Parent(), true)
	scrub(t, s, r, 1000, nil)
	if n := r.tree.Node(r.tx, other); n.Count == 0 {
		t.Error("not repaired")
	}
	if n := r.tree.Node(r.tx, bad); n != (Node{}) {
		t.Error("repaired, though it was not to be looked at")
	}
}

// Facts that are there and were never counted, and ones that are gone and still
// are: found, and nothing else.
func TestScrubFindsDrift(t *testing.T) {
	r := newReplica()
	facts := recent(200, 10, someTime)
	load(r, facts)
	lost := facts[50]
	r.tx.Delete(factKey(positionOf(&lost)))
	extra := crdt.Cancelled{At: 1}.Fact(id.ID{9})
	r.tx.Set(factKey(positionOf(&extra)), extra.Body)
	r.commit()
	s := NewScrubber(r.tree, r)
	s.Start(Path{}, true)
	found := scrub(t, s, r, 10, nil)
	if len(found) < 2 || found[0].Path != LeafOf(extra.Task) || found[0].Found.Count != 1 || found[1].Path != LeafOf(lost.Task) || found[1].Stored.Count != found[1].Found.Count+1 {
		t.Errorf("found %v", found)
	}
	wantTree(t, r)
	if s.Start(Path{}, true); len(scrub(t, s, r, 10, nil)) > 0 {
		t.Error("found again")
	}
}
