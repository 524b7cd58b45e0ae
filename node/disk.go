package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/store"
)

// exit ends the process; 70 is EX_SOFTWARE: what is wrong is inside.
func exit(status int) { os.Exit(status) }

// ErrDiskFull is returned when the data disk has too little left to go on
// safely: the last bytes are kept so that a restart can open the store.
var ErrDiskFull = errors.New("the data disk is full")

// watchDisk tells the core how much space is left and ends the node before the
// last bytes are used.
func (n *Node) watchDisk(ctx context.Context) {
	free := n.opts.FreeBytes
	if free == nil {
		free = store.FreeBytes
	}
	tick := time.NewTicker(n.cfg.DiskCheckInterval)
	defer tick.Stop()
	for {
		b, err := free(n.cfg.Data)
		if err != nil {
			n.log.Warn("disk.unknown", "data", n.cfg.Data, "error", err)
		} else {
			n.metrics.diskFree.Set(float64(b))
			low := b < uint64(n.cfg.DiskReserve)
			changed := n.crowded.Swap(low) != low
			n.inbox.post(core.DiskSpace{Free: b})
			if changed {
				n.log.Warn("disk.low", "low", low, "free_bytes", b, "reserve_bytes", int64(n.cfg.DiskReserve))
			}
			if b < uint64(n.cfg.DiskStop) {
				n.fatal(fmt.Errorf("%w: %d bytes left on %s, less than disk-stop (%d); free space and start again", ErrDiskFull, b, n.cfg.Data, int64(n.cfg.DiskStop)))
				return
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// Rest has the node give back what its store needs only under load.
func Rest(n *Node) {
	if n.begun.Load() && n.Alive() == nil { // a failed store is not touched again
		n.facts.Rest()
	}
}
