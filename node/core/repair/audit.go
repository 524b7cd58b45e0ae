package repair

import (
	"fmt"
	"slices"
)

// Audit tells which invariant of a machine does not hold. It is for tests.
func (r *Machine) Audit() error {
	for i, k := range r.begun {
		if slices.Contains(r.begun[:i], k) {
			return fmt.Errorf("repair: partition %d is compared with node %s twice", k.Partition, k.Peer.Node)
		}
	}
	u := &r.urgent
	for i, k := range u.todo {
		if !u.waits[k] || slices.Contains(u.todo[:i], k) {
			return fmt.Errorf("repair: partition %d is to be compared with node %s, and may be twice", k.Partition, k.Peer.Node)
		}
	}
	if len(u.waits) != len(u.todo) {
		return fmt.Errorf("repair: %d comparisons wait, %d are in line", len(u.waits), len(u.todo))
	}
	for i, x := range r.scrubs.suspects {
		if i >= maxSuspects || slices.Contains(r.scrubs.suspects[:i], x) {
			return fmt.Errorf("repair: %d places are to be checked, one is there twice or they are too many", len(r.scrubs.suspects))
		}
	}
	return r.Roots.Audit()
}
