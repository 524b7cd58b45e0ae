package leadership

import (
	"fmt"
	"slices"
)

// Audit tells which invariant of a machine does not hold. It is for tests. That promises are
// kept and votes are honest is what the simulator's witness looks at.
func (e *Machine) Audit() error {
	for p := range e.alone { // Any order: each is judged for itself.
		if e.env.Partitions.See(p).Leading() == 0 {
			return fmt.Errorf("leadership: partition %d lacks a majority for its leader, which this node is not", p)
		}
	}
	for p, o := range e.Hands { // Any order: likewise.
		if slices.Contains(o.pull, e.env.Self) || slices.Contains(o.left, e.env.Self) {
			return fmt.Errorf("leadership: partition %d is to be handed over to this node by itself", p)
		}
	}
	return nil
}
