package store_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"testing"

	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"
)

// TestOverlayManyKeys: with many new keys between scans, and few, an overlay
// reads like a plain map, and its batch brings the base to the same state.
func TestOverlayManyKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		base, want := memstore.New(), map[string]string{}
		tx := store.NewOverlay(base)
		key := rapid.Map(rapid.Uint16Range(0, 300), func(n uint16) []byte { return binary.BigEndian.AppendUint16(nil, n) })
		for range rapid.IntRange(1, 12).Draw(t, "rounds") {
			for range rapid.SampledFrom([]int{0, 1, 5, 40, 200}).Draw(t, "writes") {
				k, v := key.Draw(t, "key"), rapid.SampledFrom([]string{"", "x", "y", "long"}).Draw(t, "value")
				if rapid.IntRange(0, 3).Draw(t, "delete") == 0 {
					tx.Delete(k)
					delete(want, string(k))
				} else {
					tx.Set(k, []byte(v))
					want[string(k)] = v
				}
			}
			lower, upper := key.Draw(t, "lower"), key.Draw(t, "upper")
			var expected, got []string
			for _, k := range slices.Sorted(maps.Keys(want)) {
				if k >= string(lower) && k < string(upper) {
					expected = append(expected, fmt.Sprintf("%x=%s", k, want[k]))
				}
			}
			for k, v := range tx.Scan(lower, upper) {
				got = append(got, fmt.Sprintf("%x=%s", k, v))
			}
			if !slices.Equal(got, expected) {
				t.Fatalf("%x to %x: %v, want %v", lower, upper, got, expected)
			}
			if rapid.IntRange(0, 2).Draw(t, "take") == 0 {
				take(t, tx, base, want)
			}
		}
		take(t, tx, base, want)
	})
}

// take applies what is pending and compares base and overlay with the map.
func take(t *rapid.T, tx *store.Overlay, base store.Store, want map[string]string) {
	b := tx.Take()
	seen := map[string]bool{}
	n, size := 0, 0
	for op := range b.All() {
		if seen[string(op.Key)] {
			t.Fatalf("key %x is twice in the batch", op.Key)
		}
		seen[string(op.Key)] = true
		n, size = n+1, size+len(op.Key)+len(op.Value)
	}
	if n != b.Len() || size != b.Size() {
		t.Fatalf("a batch of %d writes and %d bytes says %d and %d", n, size, b.Len(), b.Size())
	}
	if tx.Pending() != 0 {
		t.Fatalf("%d writes are pending after Take", tx.Pending())
	}
	base.Apply(b)
	tx.Release(b)
	for _, view := range []store.View{base, tx} {
		got := map[string]string{}
		for k, v := range view.Scan(nil, nil) {
			got[string(k)] = string(v)
		}
		if !maps.Equal(got, want) {
			t.Fatalf("%T holds %v, want %v", view, got, want)
		}
	}
}

// TestOverlayScanWithinScan: a walk goes on in order although a write and a
// walk inside of it have sorted in a new key.
func TestOverlayScanWithinScan(t *testing.T) {
	tx := store.NewOverlay(memstore.New())
	for i := range 20 {
		tx.Set([]byte{byte(i), 1}, []byte{byte(i)})
	}
	next := byte(0)
	for key := range tx.Scan(nil, nil) {
		if key[0] != next {
			t.Fatalf("key %d comes when %d is due", key[0], next)
		}
		next++
		tx.Set([]byte{key[0], 0}, nil)
		inner := 0
		for range tx.Scan(nil, nil) {
			inner++
		}
		if want := 20 + int(next); inner != want {
			t.Fatalf("the walk inside sees %d keys, want %d", inner, want)
		}
	}
	if next != 20 {
		t.Fatalf("the walk ended at %d", next)
	}
}

// TestOverlayStays: a warm overlay allocates nothing for writes and reads, and
// a batch handed out is left alone by what comes after.
func TestOverlayStays(t *testing.T) {
	tx := store.NewOverlay(memstore.New())
	key, value := make([]byte, 40), make([]byte, 100)
	round := func() {
		for i := range 2000 {
			binary.BigEndian.PutUint32(key, uint32(i))
			tx.Set(key, value)
			if _, ok := tx.Get(key); !ok {
				t.Fatal("a write is not visible")
			}
		}
		tx.Release(tx.Take())
	}
	round()
	round()
	if n := testing.AllocsPerRun(5, round); n > 0 {
		t.Errorf("a round of 2000 writes allocates %v times", n)
	}

	tx.Set([]byte("a"), []byte("1"))
	b := tx.Take()
	tx.Set([]byte("a"), []byte("2"))
	for op := range b.All() {
		if !bytes.Equal(op.Value, []byte("1")) {
			t.Errorf("the taken batch has become %q", op.Value)
		}
	}
}

// TestBatchForgetsLargeBuffers: large batches that follow each other use the same
// memory, and small ones give it back.
func TestBatchForgetsLargeBuffers(t *testing.T) {
	var b store.Batch
	value := make([]byte, 8<<20)
	large := func() { b.Set([]byte("a"), value); b.Reset() }
	small := func() { b.Set([]byte("a"), []byte("b")); b.Reset() }
	large()
	if b.Len() != 0 || b.Size() != 0 {
		t.Errorf("a reset batch has %d writes and %d bytes", b.Len(), b.Size())
	}
	if n := testing.AllocsPerRun(1, large); n > 0 {
		t.Errorf("a large batch after a large one allocates %v times", n)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 100 {
		small()
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if freed := int64(before.HeapAlloc) - int64(after.HeapAlloc); freed < 7<<20 {
		t.Errorf("after small batches %d bytes are free again that a large one had", freed)
	}
	if n := testing.AllocsPerRun(1, small); n > 0 {
		t.Errorf("a small write allocates %v times after the first", n)
	}
	runtime.KeepAlive(value)
}

// TestAnOverlayForgetsLargeBuffers: of several batches that were large at once, one is
// used again and again afterwards. The others give their memory back, too.
func TestAnOverlayForgetsLargeBuffers(t *testing.T) {
	o := store.NewOverlay(memstore.New())
	value := make([]byte, 8<<20)
	var taken []*store.Batch
	for range 3 {
		o.Set([]byte("a"), value)
		taken = append(taken, o.Take())
	}
	for _, b := range taken {
		o.Release(b)
	}
	clear(taken)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 100 {
		o.Set([]byte("a"), []byte("b"))
		o.Release(o.Take())
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if freed := int64(before.HeapAlloc) - int64(after.HeapAlloc); freed < 23<<20 {
		t.Errorf("after small batches %d bytes are free again that three large ones had", freed)
	}
	runtime.KeepAlive(value)
	runtime.KeepAlive(o)
}

// TestAnOverlayAtRestKeepsNoBuffer: after load it gives up what it has, at once and whatever its
// size; a write that is pending stays.
func TestAnOverlayAtRestKeepsNoBuffer(t *testing.T) {
	o := store.NewOverlay(memstore.New())
	value := make([]byte, 1<<10)
	fill := func() *store.Batch {
		for i := range 400 {
			o.Set(fmt.Appendf(nil, "%06d", i*7919%1000), value)
		}
		return o.Take()
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, pending := range []bool{false, true} {
		before := heap()
		a, b := fill(), fill()
		o.Release(a)
		o.Release(b)
		a, b = nil, nil
		if kept := heap() - before; kept < 512<<10 {
			t.Fatalf("%d bytes are kept for later: the test fills too little", kept)
		}
		if pending {
			o.Set([]byte("a"), []byte("b"))
		}
		o.Rest()
		if kept := heap() - before; kept > 600<<10 || !pending && kept > 64<<10 {
			t.Errorf("pending %t: %d bytes are kept at rest", pending, kept)
		}
		if got, ok := o.Get([]byte("a")); ok != pending || pending && string(got) != "b" {
			t.Errorf("pending %t: %q, %t", pending, got, ok)
		}
	}
}

// TestPebbleKeepsNoBatch: what is written does not change when the batch is used
// again at once, whatever its size: Pebble is lent the buffer of a batch, but for
// one of half a memtable, which it keeps.
func TestPebbleKeepsNoBatch(t *testing.T) {
	const memTable = 1 << 20
	p, err := store.OpenPebble(store.PebbleOptions{Dir: t.TempDir(), MemTable: memTable})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Close() }()
	o := store.NewOverlay(p)
	want := map[string][]byte{}
	var waits []func()
	for n, size := range []int{100, 70 << 10, 130, memTable / 3, memTable/2 - 70<<10, memTable/2 - 60<<10, memTable/2 - 1000, memTable / 2, memTable, 3 * memTable, 10} {
		for i := range 3 {
			key := fmt.Appendf(nil, "%d/%d", n, i)
			value := bytes.Repeat([]byte{byte(n*3 + i)}, size/3)
			o.Set(key, value)
			o.Set(fmt.Appendf(nil, "twice %d", i), value)                     // of another length: replaces
			o.Set(fmt.Appendf(nil, "often"), fmt.Appendf(nil, "%d %d", n, i)) // mostly of the same length
			want[string(key)], want[fmt.Sprintf("twice %d", i)] = value, value
			want["often"] = fmt.Appendf(nil, "%d %d", n, i)
		}
		o.Set([]byte("twice 1"), nil)
		o.Delete(fmt.Appendf(nil, "%d/1", n-1))
		want["twice 1"] = nil
		delete(want, fmt.Sprintf("%d/1", n-1))
		b := o.Take()
		if n%2 == 0 {
			p.Apply(b)
		} else {
			waits = append(waits, p.Commit(b))
		}
		o.Release(b)
	}
	for _, wait := range waits {
		wait()
	}
	seen := 0
	for key, value := range p.Scan(nil, nil) {
		seen++
		if w, ok := want[string(key)]; !ok || !bytes.Equal(value, w) {
			t.Errorf("%q has a value of %d bytes, want %d (%v)", key, len(value), len(w), ok)
		}
	}
	if seen != len(want) {
		t.Errorf("%d keys, want %d", seen, len(want))
	}
}

// TestTakenWritesAreInOrder: by key, each once, with its last value.
func TestTakenWritesAreInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tx := store.NewOverlay(memstore.New())
		for range 3 { // buffers are used again
			want := map[string]string{}
			for range rapid.IntRange(8, 60).Draw(t, "writes") {
				key, value := rapid.StringMatching("[a-c][a-d]{0,2}").Draw(t, "key"), rapid.StringN(0, 5, -1).Draw(t, "value")
				if rapid.Bool().Draw(t, "delete") {
					tx.Delete([]byte(key))
					want[key] = "-"
				} else {
					tx.Set([]byte(key), []byte(value))
					want[key] = "+" + value
				}
			}
			b := tx.Take()
			last, n := "", 0
			for op := range b.All() {
				is := "+" + string(op.Value)
				if op.Delete {
					is = "-"
				}
				if key := string(op.Key); n > 0 && b.Len() >= 8 && key <= last || is != want[key] {
					t.Fatalf("%q %q after %q, want %q", key, is, last, want[key])
				}
				last, n = string(op.Key), n+1
			}
			if n != len(want) || b.Len() != n {
				t.Fatalf("%d writes of %d keys, %d said", n, len(want), b.Len())
			}
			tx.Release(b)
		}
	})
}

// TestWalksTogether: walks that share what they open read like walks that do not, one after the
// other or within each other, with what is pending, and after a batch was taken.
func TestWalksTogether(outer *testing.T) {
	rapid.Check(outer, func(t *rapid.T) {
		base := open(outer, vfs.NewMem(), func(o *store.PebbleOptions) { o.WriteBack = "w" })
		defer func() { _ = base.Close() }()
		tx := store.NewOverlay(base)
		key := rapid.Custom(func(t *rapid.T) []byte {
			return fmt.Appendf(nil, "%s%02d", rapid.SampledFrom([]string{"a", "w"}).Draw(t, "table"), rapid.IntRange(0, 30).Draw(t, "number"))
		})
		want := map[string]string{}
		done := tx.Together()
		var scan func(depth int)
		scan = func(depth int) {
			lower, upper := key.Draw(t, "lower"), key.Draw(t, "upper")
			if rapid.IntRange(0, 3).Draw(t, "a whole table") > 0 {
				lower, upper = lower[:1], []byte{lower[0] + 1}
			}
			var expected, got []string
			for _, k := range slices.Sorted(maps.Keys(want)) {
				if k >= string(lower) && k < string(upper) {
					expected = append(expected, k+"="+want[k])
				}
			}
			stop := rapid.IntRange(0, 60).Draw(t, "stop")
			for k, v := range tx.Scan(lower, upper) {
				if len(got) == stop {
					expected = expected[:stop]
					break
				}
				if got = append(got, string(k)+"="+string(v)); depth > 0 && rapid.IntRange(0, 9).Draw(t, "within") == 0 {
					scan(depth - 1)
				}
			}
			if !slices.Equal(got, expected) {
				t.Fatalf("%s to %s: %v, want %v", lower, upper, got, expected)
			}
		}
		for n := range rapid.IntRange(1, 40).Draw(t, "steps") {
			switch rapid.IntRange(0, 7).Draw(t, "step") {
			case 0:
				b := tx.Take()
				base.Apply(b)
				tx.Release(b)
			case 1:
				done()
				if rapid.Bool().Draw(t, "flush") {
					base.Rest()
				}
				done = tx.Together()
			case 2:
				k := key.Draw(t, "gone")
				tx.Delete(k)
				delete(want, string(k))
			case 3, 4:
				for range 4 {
					k := key.Draw(t, "key")
					tx.Set(k, fmt.Append(nil, n))
					want[string(k)] = fmt.Sprint(n)
				}
			default:
				scan(2)
			}
		}
		done()
	})
}
