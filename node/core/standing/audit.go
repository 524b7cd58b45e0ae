package standing

import "fmt"

// Audit tells which invariant of a machine does not hold. It is for tests.
func (m *Machine) Audit() error {
	d := m.Disk
	if len(d.HeardOf) > MaxMarks || len(d.Words.of) > MaxMarks {
		return fmt.Errorf("standing: %d marks of others and %d words are kept, the limit is %d", len(d.HeardOf), len(d.Words.of), MaxMarks)
	}
	for o := range d.Peers.Of { // Any order: each is judged for itself.
		if !m.env.View.Up(o) {
			return fmt.Errorf("standing: node %s is out of reach, and what it has said of its disk counts", o.Node)
		}
	}
	if n := len(m.Clocks.asks); n > maxAsks {
		return fmt.Errorf("standing: answers to %d beats count, the limit is %d", n, maxAsks)
	}
	return nil
}
