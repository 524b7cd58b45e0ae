package storetest

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/norn-dev/norn/store"

	"pgregory.net/rapid"
)

// Machine is a store that can lose power.
type Machine interface {
	// Store is the open store.
	Store() store.Store
	// Crash loses power and opens what is left. pick chooses in [0, n] how
	// much of what was not synced survives, where the machine can be told.
	Crash(pick func(n int) int)
	// Close ends the machine.
	Close()
}

// Run runs the suite; open makes a machine with an empty store.
func Run(t *testing.T, open func(t testing.TB) Machine) {
	t.Run("ReadYourWrites", func(t *testing.T) { readYourWrites(t, open(t)) })
	t.Run("Snapshot", func(t *testing.T) { snapshots(t, open(t)) })
	t.Run("Bounds", func(t *testing.T) { bounds(t, open(t)) })
	t.Run("Overlay", func(t *testing.T) { overlay(t, open) })
	t.Run("Crash", func(t *testing.T) { crash(t, open) })
}

func write(s store.Store, pairs ...string) {
	var b store.Batch
	for i := 0; i < len(pairs); i += 2 {
		b.Set([]byte(pairs[i]), []byte(pairs[i+1]))
	}
	s.Apply(&b)
}

// list gives the pairs of a range; read from its end they are the same, or it says so.
func list(v store.View, lower, upper []byte) (all []string) {
	for key, value := range v.Scan(lower, upper) {
		all = append(all, string(key)+"="+string(value))
	}
	at := len(all)
	for key, value := range v.Back(lower, upper) {
		if at--; at < 0 || all[at] != string(key)+"="+string(value) {
			return append(all, "read from the end: "+string(key)+"="+string(value))
		}
	}
	if at > 0 {
		return append(all, "missing from the end: "+all[at-1])
	}
	return all
}

func expect(t testing.TB, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("got %v, want %v", got, want)
	}
}

func readYourWrites(t *testing.T, m Machine) {
	defer m.Close()
	s := m.Store()
	if _, ok := s.Get([]byte("a")); ok {
		t.Fatal("an empty store has a key")
	}
	write(s, "a", "1", "b", "", "a", "2") // the later write of a batch wins
	value, ok := s.Get([]byte("a"))
	if !ok || string(value) != "2" {
		t.Fatalf("a = %q, %v before any sync", value, ok)
	}
	if value, ok = s.Get([]byte("b")); !ok || len(value) != 0 {
		t.Fatalf("an empty value is %q, %v", value, ok)
	}
	var b store.Batch
	b.Delete([]byte("a"))
	b.Delete([]byte("never there"))
	s.Apply(&b)
	if _, ok := s.Get([]byte("a")); ok {
		t.Fatal("a deleted key is there")
	}
	expect(t, list(s, nil, nil), "b=")
}

func snapshots(t *testing.T, m Machine) {
	defer m.Close()
	s := m.Store()
	write(s, "a", "1")
	snapshot := s.Snapshot()
	defer snapshot.Close()
	write(s, "a", "2", "b", "3")
	expect(t, list(snapshot, nil, nil), "a=1")
	expect(t, list(s, nil, nil), "a=2", "b=3")
}

func bounds(t *testing.T, m Machine) {
	defer m.Close()
	s := m.Store()
	last, ok := s.(store.Reader)
	if !ok {
		t.Fatal("the store cannot find the end of a range")
	}
	write(s, "a", "1", "b", "2", "b\x00", "3", "c", "4")
	expect(t, list(s, []byte("b"), []byte("c")), "b=2", "b\x00=3")
	expect(t, list(s, []byte("b\x00"), nil), "b\x00=3", "c=4")
	expect(t, list(s, []byte("d"), nil))
	for range s.Scan(nil, nil) {
		break // a walk may end early
	}
	for range s.Back(nil, nil) {
		break
	}
	for upper, want := range map[string]string{"c": "b\x00", "b": "a", "zz": "c"} {
		if key, ok := last.Last([]byte("a"), []byte(upper)); !ok || string(key) != want {
			t.Fatalf("last below %q is %q, %v", upper, key, ok)
		}
	}
	if key, ok := last.Last([]byte("b"), nil); !ok || string(key) != "c" {
		t.Fatalf("last of all is %q, %v", key, ok)
	}
	if key, ok := last.Last([]byte("x"), []byte("z")); ok {
		t.Fatalf("last of nothing is %q", key)
	}
}

// model is what a store should hold.
type model map[string]string

func (m model) list(lower, upper []byte) (all []string) {
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if key >= string(lower) && (upper == nil || key < string(upper)) {
			all = append(all, key+"="+m[key])
		}
	}
	return all
}

func drawKey(t *rapid.T) []byte {
	return []byte(rapid.StringMatching(`[a-c]{0,3}`).Draw(t, "key"))
}

func clearAll(s store.Store) {
	var b store.Batch
	for key := range s.Scan(nil, nil) {
		b.Delete(key)
	}
	s.Apply(&b)
}

// overlay: reads through an overlay are those of a plain map, before and after
// its writes are taken and applied.
func overlay(t *testing.T, open func(t testing.TB) Machine) {
	m := open(t) // one for all runs: opening Pebble is what takes time
	defer m.Close()
	rapid.Check(t, func(rt *rapid.T) {
		clearAll(m.Store())
		tx, want := store.NewOverlay(m.Store()), model{}
		rt.Repeat(map[string]func(*rapid.T){
			"set": func(t *rapid.T) {
				key, value := drawKey(t), rapid.StringN(0, 3, -1).Draw(t, "value")
				tx.Set(key, []byte(value))
				want[string(key)] = value
			},
			"delete": func(t *rapid.T) {
				key := drawKey(t)
				tx.Delete(key)
				delete(want, string(key))
			},
			"take": func(*rapid.T) {
				b := tx.Take()
				m.Store().Apply(b)
				tx.Release(b)
			},
			"get": func(t *rapid.T) {
				key := drawKey(t)
				value, ok := tx.Get(key)
				if w, there := want[string(key)]; ok != there || string(value) != w {
					t.Fatalf("%q is %q, %v, want %q, %v", key, value, ok, w, there)
				}
			},
			"scan": func(t *rapid.T) {
				lower, upper := drawKey(t), drawKey(t)
				if bytes.Compare(lower, upper) > 0 {
					lower, upper = upper, lower
				}
				if rapid.Bool().Draw(t, "to the end") {
					upper = nil
				}
				if got, w := list(tx, lower, upper), want.list(lower, upper); !slices.Equal(got, w) {
					t.Fatalf("%q to %q: %v, want %v", lower, upper, got, w)
				}
			},
		})
	})
}

// crash: at any cut every synced batch is there whole, and of the others a
// prefix, each whole or not at all.
func crash(t *testing.T, open func(t testing.TB) Machine) {
	m := open(t)
	defer m.Close()
	rapid.Check(t, func(rt *rapid.T) {
		clearAll(m.Store())
		m.Store().Commit(&store.Batch{})()
		states := []model{{}} // after each batch since the last sync
		next := 0
		fill := func(t *rapid.T, b *store.Batch) {
			now := maps.Clone(states[len(states)-1])
			// Each batch marks itself in several keys: half a batch shows.
			next++
			for i := range rapid.IntRange(1, 4).Draw(t, "writes") {
				key := fmt.Sprintf("k%d", (next+i)%5)
				if rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
					b.Delete([]byte(key))
					delete(now, key)
					continue
				}
				b.Set([]byte(key), fmt.Append(nil, next))
				now[key] = fmt.Sprint(next)
			}
			b.Set([]byte("last"), fmt.Append(nil, next))
			now["last"] = fmt.Sprint(next)
			states = append(states, now)
		}
		apply := func(t *rapid.T) {
			var b store.Batch
			fill(t, &b)
			m.Store().Apply(&b)
		}
		rt.Repeat(map[string]func(*rapid.T){
			// Mostly writes: crashes are what takes time.
			"apply": apply, "apply more": apply, "apply still more": apply, "apply even more": apply,
			"sync": func(*rapid.T) {
				m.Store().Commit(&store.Batch{})()
				states = states[len(states)-1:]
			},
			"commit": func(t *rapid.T) {
				var b store.Batch
				if rapid.Bool().Draw(t, "with writes") { // without, it still covers what came before
					fill(t, &b)
				}
				wait := m.Store().Commit(&b)
				b.Reset() // it may be reused as soon as it is visible
				durable := len(states) - 1
				if rapid.Bool().Draw(t, "another in between") {
					apply(t)
				}
				wait()
				states = states[durable:]
			},
			"crash": func(t *rapid.T) {
				m.Crash(func(n int) int { return rapid.IntRange(0, n).Draw(t, "survive") })
				got := list(m.Store(), nil, nil)
				at := slices.IndexFunc(states, func(s model) bool { return slices.Equal(s.list(nil, nil), got) })
				if at < 0 {
					t.Fatalf("after the crash the store is %v, which it never was since the last sync: %v", got, states)
				}
				states = states[at : at+1]
			},
		})
	})
}
