package node

import (
	"sync"

	"github.com/norn-dev/norn/node/core/message"
)

// acks holds messages back that may leave because what they speak of is durable, while the
// loop is about to cut a round anyway: they leave with that round, in the same frames. An ack
// travels alone only when there is nothing else.
type acks struct {
	mu    sync.Mutex // guards the fields below
	holds bool
	sends []message.Send
}

// hold begins to hold back; the loop calls it before it gathers.
func (a *acks) hold() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.holds = true
}

// add holds messages back; false: they are to be sent at once.
func (a *acks) add(sends []message.Send) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.holds {
		a.sends = append(a.sends, sends...)
	}
	return a.holds
}

// take ends the holding back and gives what was held.
func (a *acks) take() []message.Send {
	a.mu.Lock()
	defer a.mu.Unlock()
	sends := a.sends
	a.holds, a.sends = false, nil
	return sends
}
