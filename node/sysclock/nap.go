package sysclock

import (
	"sync"
	"sync/atomic"
)

// nap is the monotonic clock of a machine that is suspended now and then: it stands
// still meanwhile, as Linux has it, while the wall clock goes on. A test stops the
// program by a signal, which stops no clock; what passes between two readings then is
// taken out of the monotonic one. It is for tests only.
type nap struct {
	least  atomic.Int64 // ns without a reading that are a nap; 0: none is
	missed atomic.Int64 // ns of all naps

	mu          sync.Mutex // guards what follows
	last, shown int64      // the latest reading; what was shown
}

// at is what the clock shows at a reading of the machine's, which has gone on all the
// time. Invariant: it never goes back, whichever of two readings comes first.
func (n *nap) at(mono int64) int64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	if least, gap := n.least.Load(), mono-n.last; least > 0 && n.last > 0 && gap >= least {
		n.missed.Add(gap)
	}
	n.last = max(n.last, mono)
	n.shown = max(n.shown, mono-n.missed.Load())
	return n.shown
}
