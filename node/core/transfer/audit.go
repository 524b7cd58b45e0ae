package transfer

import (
	"fmt"
	"slices"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// Audit tells which invariant of a machine does not hold. It is for tests.
func (m *Machine) Audit() error {
	if len(m.Busy) > maxCopies {
		return fmt.Errorf("transfer: %d comparisons are under way, the limit is %d", len(m.Busy), maxCopies)
	}
	for p := range m.Incoming { // Any order: each is judged for itself.
		if m.Outgoing[p] != nil {
			return fmt.Errorf("transfer: partition %d is on its way here and away", p)
		}
		if err := m.auditMove(p, m.Incoming[p]); err != nil {
			return err
		}
	}
	for p := range m.Outgoing { // Any order: likewise.
		if m.View.Dropping[p] {
			return fmt.Errorf("transfer: partition %d is being deleted, and compared to be", p)
		}
		if err := m.auditMove(p, m.Outgoing[p]); err != nil {
			return err
		}
	}
	return nil
}

// auditMove looks at one partition that is on its way.
func (m *Machine) auditMove(p ring.Partition, move *Move) error {
	switch {
	case !slices.Contains(m.todo, p):
		return fmt.Errorf("transfer: partition %d is on its way, and nobody looks at it", p)
	case move.Busy != (register.Member{}) && !m.Busy[message.Pair{Partition: p, Peer: move.Busy}]:
		return fmt.Errorf("transfer: partition %d waits for a comparison with node %s that is not under way", p, move.Busy.Node)
	case move.Probe == 0 && len(move.Clear) > 0:
		return fmt.Errorf("transfer: %d members have answered what was not asked about partition %d", len(move.Clear), p)
	}
	return nil
}
