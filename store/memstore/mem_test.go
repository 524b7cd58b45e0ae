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
	storetest.Run(t, func(testing.TB) storetest.Machine { return &machine{New()} })
}
