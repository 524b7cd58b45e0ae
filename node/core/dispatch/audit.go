package dispatch

import (
	"fmt"
)

// Audit tells which invariant of an index does not hold. It is for tests.
func (d *Index) Audit() error {
	bytes, waiting := 0, 0
	for _, w := range d.byTime {
		if bytes += w.bytes; w.done {
			return fmt.Errorf("dispatch: request %d of connection %d waits and is done", w.from.Request, w.from.Conn)
		}
	}
	for conn, all := range d.byConn { // Any order: they are counted.
		if waiting += len(all); len(all) == 0 {
			return fmt.Errorf("dispatch: connection %d is remembered for no request", conn)
		}
	}
	if bytes != d.bytes || waiting > len(d.byTime) {
		return fmt.Errorf("dispatch: %d requests wait with %d bytes, and %d with %d are counted", len(d.byTime), bytes, waiting, d.bytes)
	}
	for name, q := range d.queues { // Any order: each is judged for itself.
		done := 0
		for _, w := range q.wait {
			if w.done {
				done++
			}
		}
		if done != q.stale {
			return fmt.Errorf("dispatch: in the line of queue %s are %d requests that are done, and %d are counted", name, done, q.stale)
		}
	}
	for key, a := range d.asked { // Any order: likewise.
		if live := a.alive(); live != a.live || live == 0 {
			return fmt.Errorf("dispatch: request %d has %d grants that are not over, and %d are counted", key.Request, live, a.live)
		}
	}
	return nil
}

// alive counts the grants that are not over.
func (a *asked) alive() (n int) {
	for _, g := range a.grants {
		if !g.Over {
			n++
		}
	}
	return n
}
