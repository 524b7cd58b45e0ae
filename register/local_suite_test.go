package register_test

import (
	"sync"
	"testing"

	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/registertest"
	"github.com/norn-dev/norn/store/memstore"
)

// alone is a cluster of one on its own disk.
type alone struct {
	t     testing.TB
	store *memstore.Mem
	mu    sync.Mutex // guards local
	local *register.Local
}

func (a *alone) open() {
	local, err := register.OpenLocal(a.store)
	if err != nil {
		a.t.Fatal(err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.local = local
}

func (a *alone) Register(int) register.Register {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.local
}

func (a *alone) Size() int { return 1 }
func (a *alone) Cut(int)   {}
func (a *alone) Heal()     {}
func (a *alone) Close()    { _ = a.Register(0).Close() }
func (a *alone) Crash(_, keep int) {
	_ = a.Register(0).Close() // waits for a change under way, which is durable then
	a.store = a.store.Crash(keep)
	a.open()
}

func TestLocalKeepsTheContract(t *testing.T) {
	registertest.Run(t, func(t testing.TB) registertest.Cluster {
		a := &alone{t: t, store: memstore.New()}
		c := register.Cluster{ID: register.UUID{7}, Partitions: registertest.Partitions, Replicas: 3}
		if err := register.Format(a.store, c, register.Member{Node: "n1", Incarnation: register.Incarnation{1}}); err != nil {
			t.Fatal(err)
		}
		a.open()
		return a
	})
}
