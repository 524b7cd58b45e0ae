package router

import (
	"fmt"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/waiting"
)

// Audit tells which invariant of a machine does not hold. It is for tests.
func Audit(r *Machine) error {
	for number, p := range r.parts { // Any order: each is judged for itself.
		if p.g.left[number] != p || !p.g.waits.Open() {
			return fmt.Errorf("router: part %d is of a request that does not wait for it", number)
		}
	}
	left, held := 0, 0
	for _, g := range r.byTime {
		left += len(g.left)
	}
	for conn, n := range r.held { // Any order: likewise.
		if held += n; n <= 0 {
			return fmt.Errorf("router: connection %d has %d requests", conn, n)
		}
	}
	if left != len(r.parts) || held != len(r.byTime) {
		return fmt.Errorf("router: %d requests wait with %d parts; %d and %d are counted", len(r.byTime), len(r.parts), held, left)
	}
	if err := r.Pending.Agrees(waiting.Parts, "router", len(r.byTime)); err != nil {
		return err
	}
	for i, m := range r.peers {
		if n, known := r.conns[m]; !known || r.Peer(n) != m || n != message.PeerConns|uint64(i) {
			return fmt.Errorf("router: node %s has the connection %d, and is the peer %d", m.Node, n, i)
		}
	}
	return r.abandonedLegs.audit()
}

// audit compares the two views of parts that nobody waits for.
func (f *abandonedLegs) audit() error {
	has := 0
	for _, number := range f.order {
		if f.has[number] {
			has++
		}
	}
	if has < len(f.has) || len(f.order) > MaxWaiting {
		return fmt.Errorf("router: %d parts are remembered, of %d it is known when they were given up, the limit is %d", len(f.has), len(f.order), MaxWaiting)
	}
	return nil
}
