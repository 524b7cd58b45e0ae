package roots

import (
	"errors"
	"fmt"
)

// Audit tells which invariant of a machine does not hold. It is for tests.
func (s *Machine) Audit() error {
	for i := 1; i < len(s.shared); i++ {
		if comparePeers(s.shared[i-1].Pair, s.shared[i].Pair) >= 0 {
			return errors.New("roots: what is shared with others is not in order, or twice")
		}
	}
	for _, k := range s.differ {
		if !s.waits[k] {
			return fmt.Errorf("roots: partition %d differs at node %s, and may be noted twice", k.Partition, k.Peer.Node)
		}
	}
	if len(s.waits) != len(s.differ) {
		return fmt.Errorf("roots: %d partitions differ, %d are in line", len(s.waits), len(s.differ))
	}
	return nil
}
