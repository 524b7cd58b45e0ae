package follow

import (
	"fmt"

	"github.com/norn-dev/norn/node/core/waiting"
)

// Audit tells which invariant of a machine does not hold. It is for tests.
func (l *Machine) Audit() error {
	byConn, byTask, idle := 0, 0, 0
	for _, all := range l.byConn { // Any order: they are counted.
		byConn += len(all)
		for _, w := range all { // Any order: likewise.
			if !w.reading {
				idle++
			}
		}
	}
	for _, all := range l.byTask { // Any order: likewise.
		byTask += len(all)
	}
	if byConn != l.count || byTask != l.count || idle != len(l.byTime) {
		return fmt.Errorf("follow: %d requests are counted; %d are there by connection, %d by task; %d do not read, and %d wait for their time", l.count, byConn, byTask, idle, len(l.byTime))
	}
	return l.Pending.Agrees(waiting.Log, "follow", l.count)
}
