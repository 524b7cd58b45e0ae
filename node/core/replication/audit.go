package replication

import "fmt"

// Audit tells which invariant of a machine does not hold. It is for tests.
func (m *Machine) Audit() error {
	bytes := 0
	for i, o := range m.Writes.Open {
		if bytes += o.Bytes; i > 0 && int64(o.Number-m.Writes.Open[i-1].Number) <= 0 {
			return fmt.Errorf("replication: write %d comes after %d", o.Number, m.Writes.Open[i-1].Number)
		}
	}
	if bytes > m.Writes.Bytes { // tests pretend that there are more
		return fmt.Errorf("replication: %d writes have %d bytes, and %d are counted", len(m.Writes.Open), bytes, m.Writes.Bytes)
	}
	if len(m.Reads.Open) != len(m.Reads.byTime) {
		return fmt.Errorf("replication: %d reads wait, and %d for their time", len(m.Reads.Open), len(m.Reads.byTime))
	}
	return nil
}
