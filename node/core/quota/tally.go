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

// Bytes is what the tasks below a prefix hold here, finished ones too: see [crdt.Enqueued.Size].
func (m *Machine) Bytes(prefix string) uint64 { return m.Tally.Bytes(prefix) }

// Use is what one tenant uses here.
type Use struct {
	Tenant                                         string
	Queues, Tasks, Bytes, Schedules, Claims, Waits uint64
}

// Used is what each tenant uses here. It looks at all of them.
func (m *Machine) Used() (all []Use) {
	for prefix, t := range m.tenants { // Any order: it is for metrics, which have none.
		queues, schedules, waits := m.Use(prefix)
		all = append(all, Use{
			Tenant: t.Name, Queues: uint64(queues), Tasks: m.Unfinished(prefix), Bytes: m.Bytes(prefix),
			Schedules: uint64(schedules), Claims: m.Claimed(prefix), Waits: uint64(waits),
		})
	}
	return all
}

// Audit tells whether the tally is not what the vnodes of some partitions have. It is for tests.
//
// Invariant: the tally of a prefix is the sum over the partitions that are here, tasks and
// bytes: who would add to it and not take off what leaves would refuse a tenant for ever.
func (m *Machine) Audit(partitions int, see func(ring.Partition) *vnode.Vnode) error {
	if m.Tally.Len() == 0 {
		return nil // as in nearly all tests: to add up takes long
	}
	want, bytes := make(map[string]vnode.Counts), make(map[string]uint64)
	for p := range partitions {
		v := see(ring.Partition(p))
		v.Queues(func(name string, c *vnode.Counts) {
			bytes[tally.Prefix(name)] += vnode.Bytes(v, name)
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
		if m.Bytes(prefix) != bytes[prefix] {
			return fmt.Errorf("%s is counted as %d bytes, there are %d", prefix, m.Bytes(prefix), bytes[prefix])
		}
	}
	return nil
}
