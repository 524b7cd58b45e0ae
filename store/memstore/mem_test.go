package memstore

import (
	"testing"

	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/storetest"
)

type machine struct{ mem *Mem }

func (m *machine) Store() store.Store         { return m.mem }
func (m *machine) Crash(pick func(n int) int) { m.mem = m.mem.Crash(pick(m.mem.Unsynced())) }
func (m *machine) Close()                     { _ = m.mem.Close() }

func TestContract(t *testing.T) {
	storetest.Run(t, open)
}

func open(testing.TB) storetest.Machine { return &machine{New()} }

// TestCrashKeepsThePrefix: a crash keeps as many unsynced batches as it is
// told, and never less than what was synced.
func TestCrashKeepsThePrefix(t *testing.T) {
	for keep, want := range map[int]int{-1: 1, 0: 1, 1: 2, 2: 3, 9: 3} {
		m := New()
		for i := range 3 {
			var b store.Batch
			b.Set([]byte{byte(i)}, []byte("x"))
			b.Set([]byte{byte(i), 1}, []byte("y"))
			m.Apply(&b)
			if i == 0 {
				m.Sync()
			}
		}
		if n := m.Unsynced(); n != 2 {
			t.Fatalf("%d unsynced batches, want 2", n)
		}
		m = m.Crash(keep)
		n := 0
		for range m.Scan(nil, nil) {
			n++
		}
		if n != 2*want {
			t.Errorf("keeping %d: %d keys, want those of %d batches", keep, n, want)
		}
	}
}
