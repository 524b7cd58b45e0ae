package store_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/norn-dev/norn/store"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// shortLived has keys that begin with s be those that are soon deleted, up to so many known.
func shortLived(t testing.TB, fs vfs.FS, known int) *store.Pebble {
	t.Helper()
	s := open(t, fs, func(o *store.PebbleOptions) { o.ShortLived = "s" })
	store.TablesFrom(s, 500)
	if known > 0 {
		store.ShortLivedUpTo(s, known)
	}
	return s
}

// TestShortLivedKeysReadAsOthers: whatever reaches the index and whenever, a key that is most
// often soon deleted is there when it was written last, and is not when it was deleted: after
// walks, tables, batches in bulk, very large ones and power failures, and with more of them than
// the store remembers.
// Long because: all steps of the law share the store and what should be in it.
func TestShortLivedKeysReadAsOthers(t *testing.T) {
	t.Parallel()
	tables := 0
	rapid.Check(t, func(rt *rapid.T) {
		fs, rnd := vfs.NewCrashableMem(), rand.New(rand.NewPCG(1, rapid.Uint64().Draw(rt, "crashes")))
		known := rapid.SampledFrom([]int{0, 3}).Draw(rt, "known")
		s, want := shortLived(t, fs, known), map[string]string{}
		defer func() { _ = s.Close() }()
		key := func(rt *rapid.T) string {
			return fmt.Sprintf("%s00%02d", rapid.SampledFrom([]string{"s", "s", "s", "l", "p"}).Draw(rt, "table"), rapid.IntRange(0, 11).Draw(rt, "key"))
		}
		batch := func(rt *rapid.T) *store.Batch {
			b := &store.Batch{}
			for range rapid.IntRange(1, 8).Draw(rt, "writes") {
				if k := key(rt); rapid.Bool().Draw(rt, "delete") {
					b.Delete([]byte(k))
					delete(want, k)
				} else {
					want[k] = rapid.StringN(0, 3, -1).Draw(rt, "value")
					b.Set([]byte(k), []byte(want[k]))
				}
			}
			return b
		}
		pad := func(b *store.Batch, n int) {
			want["q"] = string(make([]byte, n))
			b.Set([]byte("q"), []byte(want["q"]))
		}
		write := func(rt *rapid.T) { s.Apply(batch(rt)) }
		rt.Repeat(map[string]func(*rapid.T){
			"write": write, "write more": write, "write still more": write,
			"place": func(rt *rapid.T) { // in the log, with what waits
				b := batch(rt)
				pad(b, 17<<10)
				s.Apply(b)
			},
			"large": func(rt *rapid.T) { // it goes to the index as it is
				b := batch(rt)
				pad(b, 120<<10)
				s.Apply(b)
			},
			"row": func(rt *rapid.T) { // a table, where nothing was before
				b := batch(rt)
				b.Bulk()
				for i := range rapid.IntRange(2, 4).Draw(rt, "length") {
					k := fmt.Sprintf("s10%02d", i)
					want[k] = string(bytes.Repeat([]byte{'b'}, 400))
					b.Set([]byte(k), []byte(want[k]))
				}
				before := store.Tables(s)
				s.Apply(b)
				tables += store.Tables(s) - before
			},
			"delete the row": func(*rapid.T) {
				b := &store.Batch{}
				for i := range 4 {
					k := fmt.Sprintf("s10%02d", i)
					b.Delete([]byte(k))
					delete(want, k)
				}
				s.Apply(b)
			},
			"walk": func(rt *rapid.T) {
				var pairs []string
				for _, k := range slices.Sorted(maps.Keys(want)) {
					pairs = append(pairs, k+"="+want[k])
				}
				var got []string
				for k, v := range s.Scan(nil, nil) {
					got = append(got, string(k)+"="+string(v))
				}
				if !slices.Equal(got, pairs) {
					rt.Fatalf("a walk shows %d pairs, want %d", len(got), len(pairs))
				}
			},
			"table": func(rt *rapid.T) {
				if err := store.Flush(s); err != nil {
					rt.Fatal(err)
				}
			},
			"rest": func(*rapid.T) { s.Rest() },
			"power failure": func(rt *rapid.T) {
				s.Sync()
				left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rapid.IntRange(0, 100).Draw(rt, "survive"), RNG: rnd})
				if err := s.Close(); err != nil {
					rt.Fatal(err)
				}
				fs = left
				s = shortLived(t, fs, known)
			},
			"": func(rt *rapid.T) {
				for i := range 16 {
					k := fmt.Sprintf("s%d0%02d", i/12, i%12)
					value, ok := s.Get([]byte(k))
					if w, is := want[k]; ok != is || string(value) != w {
						rt.Fatalf("%s is %.9q, %t, want %.9q, %t", k, value, ok, w, is)
					}
				}
			},
		})
	})
	if tables == 0 {
		t.Error("no table was made")
	}
}

// TestWhatIsSoonDeletedLeavesNothing: of a key that is written and deleted before the index gets
// it the index gets nothing; of one that it has got, and of each where there are more than the
// store remembers, it gets the delete.
func TestWhatIsSoonDeletedLeavesNothing(t *testing.T) {
	t.Parallel()
	s := shortLived(t, vfs.NewMem(), 10)
	before := s.Snapshot() // compactions leave each delete that is later
	deleted := func() (n uint64) {
		t.Helper()
		store.Table(t, s)
		_, n, err := store.Tabled(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	each := func(from, n int, do func(b *store.Batch, key []byte)) {
		for i := range n {
			b := &store.Batch{}
			do(b, fmt.Appendf(nil, "s%03d", from+i))
			s.Apply(b)
		}
	}
	set := func(b *store.Batch, key []byte) { b.Set(key, []byte("v")) }
	del := func(b *store.Batch, key []byte) { b.Delete(key) }
	each(0, 100, func(b *store.Batch, key []byte) {
		b.Set(key, []byte("v"))
		s.Apply(b)
		b.Reset()
		b.Delete(key)
	})
	if n := deleted(); n != 0 {
		t.Errorf("%d deletes of 100 keys that the index never had", n)
	}
	each(100, 10, set)
	store.Table(t, s)
	each(100, 12, del)
	if n := deleted(); n != 10 {
		t.Errorf("%d deletes of 10 keys that the index had, and two that it had not", n)
	}
	each(200, 20, set)
	store.Table(t, s)
	each(200, 20, del)
	if n := deleted(); n != 30 {
		t.Errorf("%d deletes, with 20 more of which 10 can be remembered", n)
	}
	for range s.Scan([]byte("s"), []byte("t")) {
		t.Error("a key is there that was deleted")
	}
	each(300, 100, set)
	each(300, 100, del)
	if n := deleted(); n != 30 {
		t.Errorf("%d deletes, 30 of them from before the store looked again which keys there are", n)
	}
	before.Close()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
