package store_test

import (
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/norn-dev/norn/store"

	"github.com/cockroachdb/pebble/v2"
	"golang.org/x/sys/unix"
)

// BenchmarkLimits measures what this machine allows, so that Norn's figures can
// be read as fractions of it (numbers.md).
func BenchmarkLimits(b *testing.B) {
	b.Run("fdatasync=4KiB", func(b *testing.B) {
		f, err := os.Create(b.TempDir() + "/f")
		if err != nil {
			b.Fatal(err)
		}
		defer func() { _ = f.Close() }()
		page := make([]byte, 4096)
		for b.Loop() {
			if _, err := f.Write(page); err != nil {
				b.Fatal(err)
			}
			if err := unix.Fdatasync(int(f.Fd())); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "syncs/s")
	})
	for _, keys := range []int{1, 100} {
		b.Run(fmt.Sprintf("pebble64x%d", keys), func(b *testing.B) { pebbleLimit(b, keys) })
	}
}

// pebbleLimit commits from 64 goroutines, each commit synced by itself.
func pebbleLimit(b *testing.B, keys int) {
	db, err := pebble.Open(b.TempDir(), &pebble.Options{MemTableSize: 64 << 20, Logger: quiet{}})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	var next atomic.Uint64
	var left sync.WaitGroup
	share := b.N/(64*keys) + 1
	b.ResetTimer()
	for range 64 {
		left.Go(func() {
			for range share {
				w := db.NewBatch()
				for range keys {
					_ = w.Set(fmt.Appendf(nil, "key%020d", next.Add(1)), make([]byte, 200), nil)
				}
				if err := w.Commit(pebble.Sync); err != nil {
					b.Error(err)
				}
				_ = w.Close()
			}
		})
	}
	left.Wait()
	b.ReportMetric(float64(share*64*keys)/b.Elapsed().Seconds(), "keys/s")
}

// BenchmarkOverlay is the cost of the writes of one enqueue and a read.
func BenchmarkOverlay(b *testing.B) {
	s, err := store.OpenPebble(store.PebbleOptions{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	tx := store.NewOverlay(s)
	key, value := make([]byte, 40), make([]byte, 150)
	n := 0
	b.ReportAllocs()
	for b.Loop() {
		n++
		key[0], key[1], key[2] = byte(n), byte(n>>8), byte(n>>16)
		tx.Set(key, value)
		key[39]++
		tx.Set(key, nil)
		key[39]--
		if _, ok := tx.Get(key); !ok {
			b.Fatal("a write is not visible")
		}
		if tx.Pending() > 4000 {
			tx.Release(tx.Take())
		}
	}
}

// quiet keeps Pebble's own lines out of the benchmark's.
type quiet struct{}

func (quiet) Infof(string, ...any)  {}
func (quiet) Errorf(string, ...any) {}
func (quiet) Fatalf(format string, args ...any) {
	panic(fmt.Sprintf(format, args...))
}
