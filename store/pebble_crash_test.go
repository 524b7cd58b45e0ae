package store_test

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/norn-dev/norn/store"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestCrashUnderLoad loses power while one goroutine applies, another syncs
// and Pebble changes logs, flushes and compacts. Batch n writes n under a few
// keys of its own and under "last", some batches are larger than a memtable:
// what Sync promised must be there, of the rest a prefix, each batch whole.
func TestCrashUnderLoad(t *testing.T) {
	t.Parallel()
	for seed := range 6 {
		rnd := rand.New(rand.NewPCG(uint64(seed), 1))
		fs := vfs.NewCrashableMem()
		s := open(t, fs)
		var applied, synced atomic.Uint64
		stop := make(chan struct{})
		var running sync.WaitGroup
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				n := applied.Load()
				s.Sync()
				synced.Store(n)
			}
		})
		sizes := rand.New(rand.NewPCG(uint64(seed), 2))
		batches := uint64(30 + rnd.IntN(100))
		for n := uint64(1); n <= batches; n++ {
			s.Apply(marked(n, sizes))
			applied.Store(n)
		}
		// Read before the cut: whatever is promised by now must survive it.
		promised := synced.Load()
		left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rnd.IntN(101), RNG: rnd})
		close(stop)
		running.Wait()
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, left)
		last := check(t, s)
		if last < promised || last > batches {
			t.Fatalf("seed %d: %d batches after the crash, %d were synced of %d", seed, last, promised, batches)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestOneWriteSurvivesAPowerFailure: a batch of one write, as the promise of an acceptor is,
// is there after a power failure once it was synced.
func TestOneWriteSurvivesAPowerFailure(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	for n := range uint64(5) {
		b := &store.Batch{}
		b.Set([]byte("promise"), binary.BigEndian.AppendUint64(nil, n))
		s.Commit(b)()
		left := fs.CrashClone(vfs.CrashCloneCfg{})
		after := open(t, left)
		if v, ok := after.Get([]byte("promise")); !ok || binary.BigEndian.Uint64(v) != n {
			t.Errorf("promise %d was synced, and is %v after the power failure", n, v)
		}
		if err := after.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestNoTableIsAheadOfTheLog: a batch of which a table has a part and the rest waits is whole after
// a power failure, though nobody has synced it: before the table was made the log had it.
func TestNoTableIsAheadOfTheLog(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	b := &store.Batch{}
	b.Set([]byte("first"), []byte("1"))
	b.Set([]byte("last"), []byte("1")) // waits before the index gets it
	s.Apply(b)
	if err := store.Flush(s); err != nil {
		t.Fatal(err)
	}
	after := open(t, fs.CrashClone(vfs.CrashCloneCfg{}))
	_, first := after.Get([]byte("first"))
	if _, last := after.Get([]byte("last")); !first || !last {
		t.Errorf("after a power failure the part of a batch in a table is there: %t, and the rest: %t", first, last)
	}
	for _, s := range []*store.Pebble{after, s} {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestThePlaceHasWhatWaited: a write that waits before the index gets it is in the tables
// that say that the log before a place is not needed.
func TestThePlaceHasWhatWaited(t *testing.T) {
	t.Parallel()
	fs := vfs.NewCrashableMem()
	s := open(t, fs)
	sizes := rand.New(rand.NewPCG(5, 5))
	for n := uint64(1); n <= 60; n++ {
		s.Commit(marked(n, sizes))()
		if n%7 == 0 {
			store.Table(t, s)
			after := open(t, fs.CrashClone(vfs.CrashCloneCfg{}))
			if last := check(t, after); last != n {
				t.Errorf("%d of %d batches after a power failure, all of which were synced", last, n)
			}
			if err := after.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// marked makes batch n.
func marked(n uint64, sizes *rand.Rand) *store.Batch {
	value := binary.BigEndian.AppendUint64(nil, n)
	switch sizes.IntN(20) {
	case 0:
		value = append(value, make([]byte, 100<<10)...) // times 3: larger than a memtable
	case 1, 2:
		value = append(value, make([]byte, 10<<10)...)
	}
	b := &store.Batch{}
	for i := range 3 {
		b.Set(fmt.Appendf(nil, "%08d/%d", n, i), value)
	}
	b.Set([]byte("last"), value[:8])
	if n%rare == 0 {
		b.Set([]byte("late"), value[:8])
	}
	b.Delete(fmt.Appendf(nil, "%08d/%d", n-7, 0)) // a fixed rule, so that it can be checked
	return b
}

// rare is how many batches there are for one that writes a key that is not written often.
const rare = 16

// check compares a store with the first batches and says how many there are.
func check(t *testing.T, s store.Store) uint64 {
	t.Helper()
	value, ok := s.Get([]byte("last"))
	if !ok {
		value = make([]byte, 8)
	}
	last := binary.BigEndian.Uint64(value)
	if value, ok := s.Get([]byte("late")); last >= rare && (!ok || binary.BigEndian.Uint64(value) != last-last%rare) {
		t.Fatalf("of %d batches: the key of every 16th has %d, %v", last, value, ok)
	}
	got := map[string]uint64{}
	for k, v := range s.Scan(nil, []byte("last")) {
		got[string(k)] = binary.BigEndian.Uint64(v)
	}
	want := 0
	for n := uint64(1); n <= last; n++ {
		for i := range 3 {
			key := fmt.Sprintf("%08d/%d", n, i)
			deleted := i == 0 && n+7 <= last
			if v, ok := got[key]; ok == deleted || ok && v != n {
				t.Fatalf("of %d batches: %s is %d, %v", last, key, v, ok)
			}
			if !deleted {
				want++
			}
		}
	}
	if len(got) != want {
		t.Fatalf("of %d batches: %d keys, want %d", last, len(got), want)
	}
	return last
}

// TestReadersBesideTheWriter: snapshots read on other goroutines stay as they
// were while batches are applied, flushed and synced.
func TestReadersBesideTheWriter(t *testing.T) {
	s := open(t, vfs.NewMem())
	var running sync.WaitGroup
	sizes := rand.New(rand.NewPCG(3, 3))
	for n := uint64(1); n <= 200; n++ {
		s.Apply(marked(n, sizes))
		if n%20 != 0 {
			continue
		}
		snapshot := s.Snapshot()
		running.Go(func() {
			defer snapshot.Close()
			s.Sync()
			value, ok := snapshot.Get([]byte("last"))
			if !ok || binary.BigEndian.Uint64(value) != n {
				t.Errorf("a snapshot after batch %d has %v, %v", n, value, ok)
			}
			keys := 0
			for range snapshot.Scan(nil, nil) {
				keys++
			}
			if want := int(3*n - max(n, 7) + 7 + 2); keys != want {
				t.Errorf("a snapshot after batch %d has %d keys, want %d", n, keys, want)
			}
		})
	}
	running.Wait()
	m := s.Metrics()
	if m.Flushes == 0 || m.DiskBytes == 0 || m.MemTableBytes == 0 || m.LiveBytes == 0 || m.Snapshots != 0 {
		t.Errorf("figures after 200 batches: %+v", m)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
