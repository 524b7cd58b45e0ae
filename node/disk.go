package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/store"
)

// exit ends the process; 70 is EX_SOFTWARE: what is wrong is inside.
func exit(status int) { os.Exit(status) }

// ErrDiskFull is returned when the data disk has too little left to go on
// safely: the last bytes are kept so that a restart can open the store.
var ErrDiskFull = errors.New("the data disk is full")

// place is a directory that a node has open.
type place struct {
	path string
	was  os.FileInfo // as it was seen first
}

// gone tells whether the directory is not under its path any more: deleted, moved, or its
// volume taken away. What is open goes on taking writes and syncs, and no start finds them.
func (p *place) gone() bool {
	now, err := os.Stat(p.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return true
	case err != nil:
		return false // a disk that fails says so when it is written to
	case p.was == nil:
		p.was = now
	}
	return !os.SameFile(p.was, now)
}

// watchDisk tells the core how much space is left and ends the node before the
// last bytes are used, or when its directory is gone.
func (n *Node) watchDisk(ctx context.Context) {
	facts := &place{path: filepath.Join(n.cfg.Data, factsDir)}
	for {
		if n.begun.Load() && facts.gone() {
			n.fatal(fmt.Errorf("%w: %s is gone, or is another one, while the node runs: what it acknowledges would not be there after a start; bring the directory back and start again, or have the node join the others empty (--join)", ErrDirectory, n.cfg.Data))
			return
		}
		next, ok := lookAtDisk(n)
		if !ok {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(next):
		}
	}
}

// What a disk may be filled with between two looks at it: the nearer the limit, the
// sooner the next one. So a small volume needs no other settings.
const (
	fillRate  = 256 << 20 // bytes in a second
	leastLook = 50 * time.Millisecond
)

// nextLook is the time until a disk of which so many bytes are free is looked at again.
func nextLook(free, reserve, stop uint64, longest time.Duration) time.Duration {
	left := free - min(free, stop)
	if free >= reserve {
		left = free - reserve
	}
	if left >= uint64(longest.Seconds()*fillRate) {
		return longest
	}
	return min(longest, max(leastLook, time.Duration(left)*time.Second/fillRate))
}

// lookAtDisk tells the core what is free, and when to look again. It ends the node, and
// gives false, when that is too little.
func lookAtDisk(n *Node) (next time.Duration, ok bool) {
	free, volume, err := store.Volume(n.cfg.Data)
	if n.opts.FreeBytes != nil {
		free, err = n.opts.FreeBytes(n.cfg.Data)
	}
	if err != nil {
		n.log.Warn("disk.unknown", "data", n.cfg.Data, "error", err)
		return n.cfg.DiskCheckInterval, true
	}
	n.metrics.DiskFree.Set(float64(free))
	reserve, stop := n.cfg.DiskLimits(volume)
	low := free < reserve
	changed := n.crowded.Swap(low) != low
	if n.begun.Load() { // a joiner has nobody who takes it
		n.inbox.Post(message.DiskSpace{Free: free, Reserve: reserve})
	}
	if changed {
		n.log.Warn("disk.low", "low", low, "free_bytes", free, "reserve_bytes", reserve)
	}
	if free < stop {
		n.fatal(fmt.Errorf("%w: %d bytes left on %s, less than disk-stop (%d, which is the smaller of its bytes and its share of the volume of %d bytes); free space and start again, or lower disk-stop", ErrDiskFull, free, n.cfg.Data, stop, volume))
		return 0, false
	}
	return nextLook(free, reserve, stop, n.cfg.DiskCheckInterval), true
}

// Rest has the node give back what it needs only under load.
func Rest(n *Node) {
	if n.begun.Load() && n.Alive() == nil { // a failed store is not touched again
		n.inbox.Post(message.Rest{})
		n.facts.Rest()
	}
}
