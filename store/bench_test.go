package store_test

import (
	"encoding/binary"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"

	"golang.org/x/sys/unix"
)

// BenchmarkOverlayWrites is the cost of one write, by how many are pending when
// they are taken.
func BenchmarkOverlayWrites(b *testing.B) {
	for _, pending := range []int{100, 1000, 10000} {
		b.Run(fmt.Sprintf("pending=%d", pending), func(b *testing.B) {
			tx := store.NewOverlay(memstore.New())
			key, value := make([]byte, 40), make([]byte, 100)
			n := uint64(0)
			b.ReportAllocs()
			for b.Loop() {
				n++
				binary.BigEndian.PutUint64(key, n*0x9e3779b97f4a7c15)
				tx.Set(key, value)
				if tx.Pending() >= pending {
					tx.Release(tx.Take())
				}
			}
		})
	}
}

// BenchmarkOverlayScan is a write of a new key and a scan of ten pairs around
// it with many writes pending, as a refill of a ready head does.
func BenchmarkOverlayScan(b *testing.B) {
	tx := store.NewOverlay(memstore.New())
	key, upper := make([]byte, 16), make([]byte, 16)
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		n++
		at := n * 0x9e3779b97f4a7c15
		binary.BigEndian.PutUint64(key, at)
		tx.Set(key, nil)
		binary.BigEndian.PutUint64(upper, max(at, at+1<<54))
		left := 10
		for range tx.Scan(key, upper) {
			if left--; left == 0 {
				break
			}
		}
		if tx.Pending() >= 5000 {
			tx.Release(tx.Take())
		}
	}
}

// BenchmarkOverlaySteps is many small steps in one batch, each a scan and the deletes of
// what it gave, as those of a collector: what a delete costs must not grow with their number.
func BenchmarkOverlaySteps(b *testing.B) {
	for _, all := range []int{3_000, 30_000, 240_000} {
		for _, step := range []int{8, 60} {
			b.Run(fmt.Sprintf("deletes=%d/step=%d", all, step), func(b *testing.B) { overlaySteps(b, all, step) })
		}
	}
}

func overlaySteps(b *testing.B, all, step int) {
	base := memstore.New()
	tx := store.NewOverlay(base)
	key := func(n int) []byte { return binary.BigEndian.AppendUint64([]byte{1}, uint64(n)) }
	for i := range all {
		tx.Set(key(i), nil)
	}
	base.Apply(tx.Take())
	steps := all / step
	b.ReportAllocs()
	for b.Loop() {
		for i := range steps {
			at := i * 7919 % steps * step // not one after the other, but all of them
			n := 0
			for range tx.Scan(key(at), key(at+step)) {
				n++
			}
			for i := range n {
				tx.Delete(key(at + i))
			}
		}
		if tx.Pending() != all {
			b.Fatalf("%d deletes, not %d", tx.Pending(), all)
		}
		tx.Release(tx.Take()) // the base has all of it again
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(all), "ns/delete")
}

// BenchmarkPipeline is the way of a node: one goroutine applies batches while
// another syncs, and a write is done when the sync that covers it is.
func BenchmarkPipeline(b *testing.B) {
	for _, writes := range []int{1, 10, 100, 1000} {
		b.Run(fmt.Sprintf("batch=%d", writes), func(b *testing.B) { pipeline(b, writes) })
	}
}

func pipeline(b *testing.B, writes int) {
	s, err := store.OpenPebble(store.PebbleOptions{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	// At most 64 batches wait for their sync, like so many callers.
	const waiting = 64
	applied := make(chan time.Time, waiting)
	done := make(chan []time.Duration)
	syncs := atomic.Int64{}
	go func() {
		var took []time.Duration
		for first := range applied {
			covered := []time.Time{first}
			for range len(applied) {
				covered = append(covered, <-applied)
			}
			s.Sync()
			syncs.Add(1)
			now := time.Now()
			for _, at := range covered {
				took = append(took, now.Sub(at))
			}
		}
		done <- took
	}()
	key, value := make([]byte, 40), make([]byte, 150)
	var batch store.Batch
	n := uint64(0)
	b.ReportAllocs()
	for b.Loop() {
		batch.Reset()
		for range writes {
			n++
			binary.BigEndian.PutUint64(key, n)
			batch.Set(key, value)
		}
		at := time.Now()
		s.Apply(&batch)
		applied <- at
	}
	close(applied)
	took := <-done
	slices.Sort(took)
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "writes/s")
	b.ReportMetric(float64(syncs.Load())/b.Elapsed().Seconds(), "syncs/s")
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
}

// BenchmarkLimitsDisk is the time of one fdatasync of 4 KiB into space that the
// file already has, as a log that is used again does: the least that any
// durable answer takes.
func BenchmarkLimitsDisk(b *testing.B) {
	f, err := os.Create(b.TempDir() + "/f")
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	const size = 16 << 20
	if _, err := f.Write(make([]byte, size)); err != nil {
		b.Fatal(err)
	}
	if err := f.Sync(); err != nil {
		b.Fatal(err)
	}
	page := make([]byte, 4096)
	var took []time.Duration
	at := int64(0)
	for b.Loop() {
		start := time.Now()
		if _, err := f.WriteAt(page, at%size); err != nil {
			b.Fatal(err)
		}
		if err := unix.Fdatasync(int(f.Fd())); err != nil {
			b.Fatal(err)
		}
		took = append(took, time.Since(start))
		at += int64(len(page))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1e3, "p50-µs")
	b.ReportMetric(float64(took[len(took)*99/100].Nanoseconds())/1e3, "p99-µs")
}
