package antientropy

import (
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
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
	if tree := NewTree(testTree, testPart); tree.Root(r.tx) != (Node{}) || tree.Damaged() != 1 {
		t.Errorf("root %v, %d damaged", tree.Root(r.tx), tree.Damaged())
	}
}

// counting counts what is read.
type counting struct {
	store.View
	reads int
}

func (c *counting) Get(key []byte) ([]byte, bool) {
	c.reads++
	return c.View.Get(key)
}

// TestTheRootIsReadOnce: replicas compare thousands of them each ten seconds, and nearly all
// are as they were. It is what the store has, too, after changes, a flush and a repair.
func TestTheRootIsReadOnce(t *testing.T) {
	r := newReplica()
	facts := recent(100, 10, someTime)
	for i, f := range facts {
		r.put(f)
		if i%10 == 9 {
			r.commit()
		}
	}
	view := &counting{View: r.tx}
	tree := NewTree(testTree, testPart)
	for range 3 {
		if got := tree.Root(view); got.Count != uint64(len(facts)) || got != r.tree.Root(r.tx) {
			t.Errorf("%v, want %v", got, r.tree.Root(r.tx))
		}
	}
	if view.reads != 1 {
		t.Errorf("%d reads", view.reads)
	}
	r.tree.put(r.tx, Path{}, Node{Count: 7})
	s := NewScrubber(r.tree, r)
	s.Start(Path{}, true)
	for done := false; !done; {
		_, done = s.Step(r.tx, 100)
	}
	if got := r.tree.Root(r.tx); got != tree.Root(view) || got != r.tree.Node(r.tx, Path{}) {
		t.Errorf("%v after a repair, want %v", got, tree.Root(view))
	}
}

// TestManyChangesAreFound: of few by a look at each, of more by an index.
func TestManyChangesAreFound(t *testing.T) {
	tree, one := NewTree(testTree, testPart), Node{Count: 1}
	for range 2 {
		for n := range uint64(3 * few) {
			tree.change(Path{timeLevel, n << 4}, one)
		}
	}
	if tree.Unflushed() != 3*few {
		t.Errorf("%d leaves of %d", tree.Unflushed(), 3*few)
	}
	for _, c := range tree.pending {
		if c.by.Count != 2 {
			t.Errorf("%v: %d", c.path, c.by.Count)
		}
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
