package waiting

import (
	"fmt"

	"github.com/norn-dev/norn/node/core/message"
)

// Audit tells which invariant does not hold. It costs as much as there is.
func (t *Table) Audit() error {
	var counts [kinds]int
	for conn, all := range t.of { // Any order: they are counted.
		if len(all) == 0 {
			return fmt.Errorf("waiting: connection %d is kept, and nothing of it waits", conn)
		}
		for at, some := range all { // Any order: likewise.
			for _, w := range some {
				if w.in != t || w.From.Conn != conn || message.NumberOf(w.From) != at {
					return fmt.Errorf("waiting: request %v is found under %v", w.From, at)
				}
				counts[w.kind]++
			}
			if len(some) == 0 {
				return fmt.Errorf("waiting: request %v is kept, and does not wait", at)
			}
		}
	}
	if counts != t.counts {
		return fmt.Errorf("waiting: by kind %v wait, and %v are counted", counts, t.counts)
	}
	return nil
}

// Agrees tells whether so many wait for something as a machine has, and says where not.
func (t *Table) Agrees(kind Kind, machine string, has int) error {
	if n := t.counts[kind]; n != has {
		return fmt.Errorf("waiting: %d requests of %s are in the table, and it has %d", n, machine, has)
	}
	return nil
}
