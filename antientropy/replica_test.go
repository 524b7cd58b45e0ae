package antientropy

import (
	"bytes"
	"encoding/binary"
	"iter"
	"slices"

	"pgregory.net/rapid"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
)

const (
	testFacts = 'f'
	testTree  = 'm'
	testPart  = 3
)

// replica is a partition as a vnode keeps it: facts by task and key, one body
// under each key, and the tree in the same batches.
type replica struct {
	mem  *memstore.Mem
	tx   *store.Overlay
	tree *Tree
	// refuse are facts that it does not take, though it says nothing.
	refuse func(crdt.Fact) bool
	// hide are facts that it counts but cannot read.
	hide    func(crdt.Fact) bool
	applied int // facts handed to Apply
}

func newReplica() *replica {
	r := &replica{}
	r.open(memstore.New())
	return r
}

func (r *replica) open(mem *memstore.Mem) {
	r.mem, r.tx, r.tree = mem, store.NewOverlay(mem), NewTree(testTree, testPart)
}

func factKey(p Position) []byte {
	return p.Key.Append(append([]byte{testFacts, 0, testPart}, p.Task[:]...))
}

func (r *replica) View() store.View { return r.tx }

func (r *replica) Facts(after Position, to id.ID) iter.Seq[crdt.Fact] {
	from, upper := append(factKey(after), 0), []byte{testFacts, 0, testPart + 1}
	if !to.IsZero() {
		upper = append(upper[:2], append([]byte{testPart}, to[:]...)...)
	}
	return func(yield func(crdt.Fact) bool) {
		for key, body := range r.tx.Scan(from, upper) {
			k := key[3+id.Size:]
			f := crdt.Fact{Task: id.ID(key[3:]), Body: body, Key: crdt.Key{
				Kind: crdt.Kind(k[0]), A: binary.BigEndian.Uint64(k[1:]), B: binary.BigEndian.Uint64(k[9:]),
			}}
			if (r.hide == nil || !r.hide(f)) && !yield(f) {
				return
			}
		}
	}
}

func (r *replica) Apply(facts []crdt.Fact) (changed, refused int) {
	for _, f := range facts {
		r.applied++
		switch {
		case r.refuse != nil && r.refuse(f):
			refused++
		case r.put(f):
			changed++
		}
	}
	r.commit()
	return changed, refused
}

// put stores a fact as a vnode does.
func (r *replica) put(f crdt.Fact) bool {
	key := factKey(positionOf(&f))
	if old, ok := r.tx.Get(key); ok {
		if bytes.Equal(old, f.Body) || !crdt.Wins(f.Body, old) {
			return false
		}
		r.tree.Remove(crdt.Fact{Task: f.Task, Key: f.Key, Body: old})
	}
	r.tx.Set(key, f.Body)
	r.tree.Add(f)
	return true
}

func (r *replica) drop(f crdt.Fact) {
	key := factKey(positionOf(&f))
	if old, ok := r.tx.Get(key); ok {
		r.tree.Remove(crdt.Fact{Task: f.Task, Key: f.Key, Body: old})
		r.tx.Delete(key)
	}
}

// commit ends a step and gives the bytes that it wrote.
func (r *replica) commit() int {
	r.tree.Flush(r.tx)
	b := r.tx.Take()
	size := b.Size()
	r.mem.Apply(b)
	r.mem.Sync()
	r.tx.Release(b)
	return size
}

// restart loses everything in memory.
func (r *replica) restart() { r.open(r.mem.Crash(0)) }

func (r *replica) all() []crdt.Fact {
	var out []crdt.Fact
	for f := range r.Facts(Position{}, id.ID{}) {
		f.Body = bytes.Clone(f.Body)
		out = append(out, f)
	}
	return out
}

// nodes are all stored nodes, by their stored keys.
func (r *replica) nodes() map[string]string {
	out := map[string]string{}
	for k, v := range r.mem.Scan([]byte{testTree}, []byte{testTree + 1}) {
		out[string(k)] = string(v)
	}
	return out
}

// rebuilt is the tree of the same facts from nothing.
func (r *replica) rebuilt() map[string]string {
	fresh := newReplica()
	for _, f := range r.all() {
		fresh.put(f)
	}
	fresh.commit()
	return fresh.nodes()
}

func same(a, b []crdt.Fact) bool {
	return slices.EqualFunc(a, b, func(x, y crdt.Fact) bool {
		return x.Task == y.Task && x.Key == y.Key && bytes.Equal(x.Body, y.Body)
	})
}

const someTime = 1_790_000_000_000_000_000

// drawID draws IDs that meet in nodes of every level.
func drawID(t *rapid.T) id.ID {
	kind := rapid.SampledFrom([]id.Kind{id.KindTask, id.KindTask, id.KindLaunch, id.KindKey, id.KindKey}).Draw(t, "kind")
	wall := int64(someTime)
	switch rapid.IntRange(0, 4).Draw(t, "distance") {
	case 0:
		wall += rapid.Int64Range(0, 3).Draw(t, "ns")
	case 1:
		wall += rapid.Int64Range(0, 30).Draw(t, "ms") * 10_000_000
	case 2:
		wall += rapid.Int64Range(0, 5000).Draw(t, "s") * 1_000_000_000
	case 3:
		wall = 0
	case 4:
		wall = rapid.Int64().Draw(t, "wall")
	}
	o := id.OrderOf(wall, kind)
	i := id.ID(append(o[:], make([]byte, 12)...))
	binary.BigEndian.PutUint16(i[8:], uint16(rapid.IntRange(0, 3).Draw(t, "hash")<<rapid.IntRange(0, 14).Draw(t, "shift")))
	i[19] = byte(rapid.IntRange(0, 3).Draw(t, "tail"))
	return i
}

func drawFact(t *rapid.T) crdt.Fact {
	task := drawID(t)
	n := rapid.Uint64Range(0, 3).Draw(t, "n")
	switch rapid.IntRange(0, 2).Draw(t, "what") {
	case 0:
		return crdt.Enqueued{Queue: "q", Payload: make([]byte, rapid.IntRange(0, 200).Draw(t, "size"))}.Fact(task)
	case 1:
		return crdt.Update{Token: n, At: int64(n), Data: []byte(rapid.SampledFrom([]string{"", "a"}).Draw(t, "data"))}.Fact(task)
	}
	return crdt.Completed{Token: 1, At: int64(n)}.Fact(task)
}

// wantTree fails unless the tree is that of the facts.
func wantTree(t tb, r *replica) {
	t.Helper()
	got, want := r.nodes(), r.rebuilt()
	for key, value := range want {
		if got[key] != value {
			t.Fatalf("node %x is %x, want %x", key, got[key], value)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d nodes, want %d", len(got), len(want))
	}
}

// tb is what testing.T and rapid.T have in common.
type tb interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
