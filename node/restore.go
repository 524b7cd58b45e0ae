package node

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/raftnode"
	"github.com/norn-dev/norn/register/snapshots"
	"github.com/norn-dev/norn/store"
)

// restoreTime bounds the reading of a snapshot: 512 MiB at 5 MB/s.
const restoreTime = 2 * time.Minute

// restored is what a directory was made from.
type restored struct {
	from       snapshots.Header
	generation uint64
	passed     []error // newer snapshots that are damaged
}

// Restore makes an empty data directory from a snapshot, as a start with
// restore-from does, and starts nothing. It returns ErrDirectory when the directory
// is in use. fatal is called when its disk fails.
func Restore(ctx context.Context, cfg *config.Config, fatal func(error)) (from snapshots.Header, generation uint64, err error) {
	full := *cfg
	full.Complete()
	for _, name := range []string{identityFile, oldLifeFile, factsDir} {
		if exists(filepath.Join(full.Data, name)) {
			return from, 0, fmt.Errorf("%w: %s is not empty; restore into a new one, and keep this: it may have the only copies of tasks (docs/backup.md)", ErrDirectory, full.Data)
		}
	}
	// It is meant to be made from that place, whatever this node did before: see begun.
	err = os.MkdirAll(full.Data, 0o750)
	if err == nil {
		err = writeFile(filepath.Join(full.Data, formattingFile), nil)
	}
	if err != nil {
		return from, 0, fmt.Errorf("data directory: %w", err)
	}
	d, err := openDirectory(ctx, &full, func(dir string) (*store.Pebble, error) {
		return store.OpenPebble(store.PebbleOptions{Dir: dir, Logger: slog.New(slog.DiscardHandler), Fatal: fatal, Prefill: -1})
	})
	if err != nil {
		return from, 0, err
	}
	return d.restored.from, d.restored.generation, d.close()
}

// restore makes a directory from a snapshot of the register: the beginning of the
// cluster's next generation, with this node alone (design 10).
func restore(ctx context.Context, cfg *config.Config, open openStore) (*directory, error) {
	ctx, cancel := context.WithTimeout(ctx, restoreTime)
	defer cancel()
	place, name := snapshots.Split(cfg.RestoreFrom)
	in, err := objects.Open(place)
	if err != nil {
		return nil, fmt.Errorf("restore-from: %w", err)
	}
	defer func() { _ = in.Close() }() // what was read counts
	s, passed, err := snapshots.Latest(ctx, in, name)
	if err != nil {
		return nil, fmt.Errorf("restore-from: %s: %w", cfg.RestoreFrom, err)
	}
	if core.Destroyed(&s.State) {
		return nil, fmt.Errorf("restore-from: %s is of a cluster that was destroyed (norn cluster destroy); name an older one", s.Name())
	}
	if name == "" && !exists(filepath.Join(cfg.Data, formattingFile)) {
		if err := begun(ctx, in, &s.Header, cfg); err != nil {
			return nil, err
		}
	}
	// A crash from here on leaves a directory that goes on being made.
	if err := writeFile(filepath.Join(cfg.Data, formattingFile), nil); err != nil {
		return nil, err
	}
	d := &directory{self: register.Member{Node: cfg.Name}, cluster: s.State.Cluster}
	_, _ = rand.Read(d.self.Incarnation[:])
	now := newSystemClock(cfg).wall()
	generation, err := snapshots.Begin(ctx, in, &s.Header, d.self, now)
	if err != nil {
		return nil, fmt.Errorf("restore-from: a note that the snapshot is used has to be left beside it, so that two restores are never taken for one: %w", err)
	}
	d.restored = &restored{s.Header, generation, passed}
	err = d.format(cfg, open, func() error {
		return raftnode.Restore(d.register, s.State, generation, now.UnixNano(), record(cfg, d.self, cfg.PeerListen))
	})
	if err != nil {
		return nil, err
	}
	return d, nil
}

// begun refuses to begin a cluster anew a second time only because restore-from is still in
// the configuration of the node that began it, which has lost its disk: the others live as a
// rule, and would go over to this one, with the settings of an old snapshot.
func begun(ctx context.Context, in objects.Store, s *snapshots.Header, cfg *config.Config) error {
	generation, at, err := snapshots.Begun(ctx, in, s.Cluster, cfg.Name)
	if err != nil {
		return fmt.Errorf("restore-from: %s: %w", cfg.RestoreFrom, err)
	}
	if generation == 0 {
		return nil
	}
	return fmt.Errorf("restore-from: node %s has begun the cluster anew from here at %s (generation %d), and its data directory %s is empty now: "+
		"while other nodes of the cluster live, have it join one of them (--join, without restore-from); if all of them are lost again, name the snapshot in restore-from too (PLACE/%s)",
		cfg.Name, at.Format(time.RFC3339), generation, cfg.Data, s.Name())
}

// sayRestored logs what the directory was made from.
func (d *directory) sayRestored(cfg *config.Config, log *slog.Logger) {
	r := d.restored
	if r == nil {
		if cfg.RestoreFrom != "" && !d.joins() {
			log.Info("restore.ignored", "data", cfg.Data, "meaning", "the data directory is in use already: nothing is restored")
		}
		return
	}
	for _, err := range r.passed {
		log.Warn("restore.passed_over", "error", err, "meaning", "a newer snapshot is damaged: what was set since the one before is lost")
	}
	log.Warn("restore.done", "snapshot", r.from.Name(), "taken_at", r.from.TakenAt, "age", time.Since(r.from.TakenAt).Round(time.Second), "generation", r.generation,
		"meaning", "the cluster begins anew with its settings of then and without tasks; start the other nodes with --join to this one, those with their old disks too: they hand over the tasks they have")
}
