package quota

import (
	"fmt"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
	"github.com/norn-dev/norn/vnode/tally"
)

// Prefix is what a name has up to its first slash, with that; empty: it has none.
func Prefix(name string) string { return tally.Prefix(name) }

// Claimed is how many tasks below a prefix are under a claim here.
func (m *Machine) Claimed(prefix string) uint64 {
	c := m.Tally.Of(prefix)
	return c[crdt.StateClaimed]
}

// Unfinished is how many tasks below a prefix are not finished here.
func (m *Machine) Unfinished(prefix string) uint64 {
	c := m.Tally.Of(prefix)
	return c.Total() - c[crdt.StateCompleted] - c[crdt.StateDead] - c[crdt.StateCancelled]
}

// Audit tells whether the tally is not what the vnodes of some partitions have. It is for tests.
func (m *Machine) Audit(partitions int, see func(ring.Partition) *vnode.Vnode) error {
	if m.Tally.Len() == 0 {
		return nil // as in nearly all tests: to add up takes long
	}
	want := make(map[string]vnode.Counts)
	for p := range partitions {
		see(ring.Partition(p)).Queues(func(name string, c *vnode.Counts) {
			sum := want[tally.Prefix(name)]
			sum.Add(c)
			want[tally.Prefix(name)] = sum
		})
	}
	delete(want, "")
	if len(want) != m.Tally.Len() {
		return fmt.Errorf("%d tenants are counted, there are %d", m.Tally.Len(), len(want))
	}
	for prefix, n := range want { // Any order: any of them is an error.
		if m.Tally.Of(prefix) != n {
			return fmt.Errorf("%s is counted as %v, there are %v", prefix, m.Tally.Of(prefix), n)
		}
	}
	return nil
}
