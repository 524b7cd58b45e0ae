package node

import (
	"context"
	"path/filepath"
	"time"

	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/node/core/operator"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/snapshots"
)

const (
	// snapshotsDir is where snapshots are in the data directory, and
	// localSnapshots how many: they are for a register that was damaged, not for
	// looking back.
	snapshotsDir   = "snapshots"
	localSnapshots = 4
	// snapshotRetry is the pause after one that failed, if the interval is longer.
	snapshotRetry = time.Minute
	// snapshotTime bounds the writing of one.
	snapshotTime = 2 * time.Minute
	// snapshotLook is between two looks at whether the register has a leader, at
	// the start.
	snapshotLook = 100 * time.Millisecond
)

// copying is one place for snapshots, and what was written there last.
type copying struct {
	name       string // of the place, for people
	store      objects.Store
	keep       int
	generation uint64
	revision   uint64 // 0: nothing yet
}

// written tells whether a state is there already.
func (c *copying) written(s *register.State) bool {
	return c.generation == s.Generation && c.revision == s.Revision
}

// copier writes snapshots of the register of a node.
type copier struct{ *Node }

// run writes snapshots of the register at an interval: each node to its own
// directory, and the register's leader to the second place.
func (n copier) run(ctx context.Context) {
	local, _ := objects.Open(filepath.Join(n.cfg.Data, snapshotsDir)) // a path cannot be wrong
	places := []*copying{{name: snapshotsDir, store: local, keep: localSnapshots}}
	if n.cfg.SnapshotTo != "" {
		second, err := objects.Open(n.cfg.SnapshotTo)
		if err != nil { // the configuration was checked
			n.log.Error("snapshot.failed", "place", "snapshot-to", "error", err)
			return
		}
		defer func() { _ = second.Close() }() // it has no more to say
		places = append(places, &copying{name: "snapshot-to", store: second, keep: n.cfg.SnapshotKeep})
	}
	pause, first := snapshotLook, true
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		g := n.members.group.Load()
		state, status := g.State(), g.Status()
		if status.Leader == (register.Member{}) || state.Cluster.Partitions == 0 {
			pause = min(snapshotLook, n.cfg.SnapshotEvery)
			continue
		}
		pause = n.cfg.SnapshotEvery
		for i, p := range places { // at the start the second place only: a restored cluster has nothing there yet
			if i > 0 && status.Leader != n.self || i == 0 && first || p.written(&state) || operator.Destroyed(&state) {
				continue
			}
			if !n.write(ctx, p, &state) {
				pause = min(pause, snapshotRetry)
			}
		}
		first = false
	}
}

// write writes one snapshot, and tells whether that went well.
func (n copier) write(ctx context.Context, p *copying, state *register.State) bool {
	ctx, cancel := context.WithTimeout(ctx, snapshotTime)
	defer cancel()
	h, b, err := snapshots.Encode(state, n.clock.Wall(), n.self.Node)
	if err == nil {
		err = snapshots.Save(ctx, p.store, h, b, p.keep)
	}
	if err != nil {
		if ctx.Err() != nil && n.ctx.Err() != nil {
			return true // the node stops
		}
		n.metrics.SnapshotFailures.Inc()
		n.log.Error("snapshot.failed", "place", p.name, "error", err, "meaning", "what is set from now on is lost if all nodes are; it is tried again")
		return false
	}
	first := p.revision == 0
	p.generation, p.revision = state.Generation, state.Revision
	if p.name != snapshotsDir {
		n.metrics.Snapshots.Inc()
		n.metrics.SnapshotTime.Set(float64(h.TakenAt.Unix()))
	}
	if first {
		n.log.Info("snapshot.written", "place", p.name, "snapshot", h.Name(), "bytes", len(b))
	}
	return true
}
