package store_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"

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

// TestBatchForgetsLargeBuffers: one large batch must not keep its memory.
func TestBatchForgetsLargeBuffers(t *testing.T) {
	var b store.Batch
	large := make([]byte, 8<<20)
	b.Set([]byte("a"), large)
	b.Reset()
	if b.Len() != 0 || b.Size() != 0 {
		t.Errorf("a reset batch has %d writes and %d bytes", b.Len(), b.Size())
	}
	if n := testing.AllocsPerRun(1, func() { b.Set([]byte("a"), []byte("b")); b.Reset() }); n > 0 {
		t.Errorf("a small write allocates %v times after the first", n)
	}
}
