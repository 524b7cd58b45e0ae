package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/norn-dev/norn/node/core"
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
	free := n.opts.FreeBytes
	if free == nil {
		free = store.FreeBytes
	}
	tick := time.NewTicker(n.cfg.DiskCheckInterval)
	defer tick.Stop()
	facts := &place{path: filepath.Join(n.cfg.Data, factsDir)}
	for {
		if n.begun.Load() && facts.gone() {
			n.fatal(fmt.Errorf("%w: %s is gone, or is another one, while the node runs: what it acknowledges would not be there after a start; bring the directory back and start again, or have the node join the others empty (--join)", ErrDirectory, n.cfg.Data))
			return
		}
		b, err := free(n.cfg.Data)
		if err != nil {
			n.log.Warn("disk.unknown", "data", n.cfg.Data, "error", err)
		} else {
			n.metrics.diskFree.Set(float64(b))
			low := b < uint64(n.cfg.DiskReserve)
			changed := n.crowded.Swap(low) != low
			if n.begun.Load() { // a joiner has nobody who takes it
				n.inbox.post(core.DiskSpace{Free: b})
			}
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
