package sim

import (
	"time"

	"github.com/norn-dev/norn/node/core/message"
)

// drain stops the node cleanly: it sends its clients away, answers what it has
// taken in, and ends.
func (n *node) drain() {
	n.draining = true
	n.s.note("node drains")
	n.put(message.Drain{}, true)
	n.later(n.s.Between(100*time.Millisecond, 2*time.Second), func() {
		n.stop()
		n.s.nextCrash()
	})
}

// fillDisk makes the data disk nearly full for a while.
func (s *sim) fillDisk() {
	n := s.node
	if !n.up {
		return
	}
	s.note("the disk is nearly full")
	n.put(message.DiskSpace{Free: diskReserve - 1}, true)
	s.After(s.About(3*time.Second), n.freeDisk)
}

// freeDisk ends that.
func (n *node) freeDisk() {
	if n.up {
		n.put(message.DiskSpace{Free: 1 << 40}, true)
	}
}
