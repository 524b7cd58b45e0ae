package retention

import "fmt"

// Audit tells which invariant of a machine does not hold. It is for tests. That nothing is
// collected too early is what the checker of histories looks at.
func (m *Machine) Audit() error {
	if a := &m.Archiving; a.Tag != 0 && len(a.Safe) > 0 {
		return fmt.Errorf("retention: archive %d is under way, and %d tasks of another one are to be collected", a.Tag, len(a.Safe))
	}
	return nil
}
