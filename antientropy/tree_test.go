package antientropy

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
)

// Whatever is added, removed and lost by crashes: the stored tree is the one of
// the stored facts.
func TestIncrementalIsRebuilt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := newReplica()
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) { r.put(drawFact(t)) },
			"put many": func(t *rapid.T) {
				for _, f := range rapid.SliceOfN(rapid.Custom(drawFact), 1, 30).Draw(t, "facts") {
					r.put(f)
				}
			},
			"drop": func(t *rapid.T) {
				if all := r.all(); len(all) > 0 {
					r.drop(rapid.SampledFrom(all).Draw(t, "fact"))
				}
			},
			"collect": func(t *rapid.T) { // all of one second, as garbage goes
				for _, f := range r.all() {
					if f.Task.Nanos()/1e9 == someTime/1e9 {
						r.drop(f)
					}
				}
			},
			"commit":  func(*rapid.T) { r.commit() },
			"restart": func(*rapid.T) { r.restart() },
			"": func(t *rapid.T) {
				if r.tx.Pending() > 0 {
					return
				}
				got, want := r.nodes(), r.rebuilt()
				if len(got) != len(want) {
					t.Fatalf("%d nodes, want %d", len(got), len(want))
				}
				for key, value := range want {
					if got[key] != value {
						t.Fatalf("node %x is %x, want %x", key, got[key], value)
					}
				}
			},
		})
		r.commit()
		for _, f := range r.all() {
			r.drop(f)
		}
		r.commit()
		if n := len(r.nodes()); n != 0 {
			t.Fatalf("%d nodes of no facts", n)
		}
	})
}

// Every ID lies in the spans of its leaf and of all nodes above it, and of no
// other ones.
func TestSpansArePartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		i := drawID(t)
		if rapid.Bool().Draw(t, "any") {
			i = id.ID(rapid.SliceOfN(rapid.Byte(), id.Size, id.Size).Draw(t, "bytes"))
		}
		other := drawID(t)
		leaf := LeafOf(i)
		if !leaf.Leaf() || !leaf.valid() {
			t.Fatalf("%v is no leaf", leaf)
		}
		for p := leaf; ; p = p.Parent() {
			in, otherIn, last := false, false, id.ID{}
			for n, s := range p.spans(nil) {
				if n > 0 && (last.IsZero() || s.From.Compare(last) < 0) || !s.To.IsZero() && s.To.Compare(s.From) <= 0 {
					t.Fatalf("spans of %v: %v", p, p.spans(nil))
				}
				in, otherIn, last = in || s.Holds(i), otherIn || s.Holds(other), s.To
			}
			if !in || !p.holds(i) {
				t.Fatalf("%x is not in %v", i, p)
			}
			if otherIn != p.holds(other) {
				t.Fatalf("%x in %v: spans say %v", other, p, otherIn)
			}
			if p.Level == 0 {
				break
			}
			if parent := p.Parent(); parent.Child(p.index()) != p || p.index() >= parent.FanOut() || !p.valid() {
				t.Fatalf("%v is not below %v", p, parent)
			}
		}
	})
}

// Where a fact is counted is a promise to every store and every peer.
func TestLeafOfIsStable(t *testing.T) {
	of := func(wall int64, k id.Kind, rest ...byte) id.ID {
		o := id.OrderOf(wall, k)
		var i id.ID
		copy(i[copy(i[:], o[:]):], rest)
		return i
	}
	for _, c := range []struct {
		task id.ID
		want string
	}{
		{id.ID{}, "7:000000000"},
		{of(someTime, id.KindTask), "7:173eed800"},
		{of(someTime+999_999_999, id.KindTask), "7:173eed80e"},
		{of(someTime, id.KindLaunch), "7:173eed800"},
		{of(someTime, id.KindKey, 0xab, 0xcd), "10:173eed80fabc"},
		{of(someTime+1, id.KindKey, 0xab, 0xcd), "7:173eed800"},
		{of(0, id.KindKey, 0xff, 0xff), "10:00000000ffff"},
	} {
		if got := LeafOf(c.task).String(); got != c.want {
			t.Errorf("%x: %s, want %s", c.task, got, c.want)
		}
	}
}

func TestDamagedNodeCountsAsNone(t *testing.T) {
	r := newReplica()
	r.put(crdt.Enqueued{Queue: "q"}.Fact(id.ID{1}))
	r.commit()
	r.tx.Set(r.tree.keyOf(Path{}), []byte("?"))
	if got := r.tree.Root(r.tx); got != (Node{}) || r.tree.Damaged() != 1 {
		t.Errorf("root %v, %d damaged", got, r.tree.Damaged())
	}
}

// recent gives facts of new tasks at so many per second.
func recent(n, perSecond int, from int64) []crdt.Fact {
	random := rand.New(rand.NewPCG(1, 2))
	g := id.NewGenerator(7, random.Uint64)
	facts := make([]crdt.Fact, n)
	for i := range facts {
		task := g.Next(from + int64(i)*1e9/int64(perSecond))
		facts[i] = crdt.Enqueued{Queue: "mail", Payload: make([]byte, 100)}.Fact(task)
	}
	return facts
}

func BenchmarkAdd(b *testing.B) {
	facts, tree, n := recent(16_000, 1400, someTime), NewTree(testTree, testPart), 0
	b.ReportAllocs()
	for b.Loop() {
		tree.Add(facts[n%len(facts)])
		n++
	}
}
