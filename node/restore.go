package node

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/node/core/operator"
	"github.com/norn-dev/norn/node/peer"
	"github.com/norn-dev/norn/node/sysclock"
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

// Shape is that of a cluster that begins anew: its partitions and replicas; 0: as they were.
type Shape struct{ Partitions, Replicas int }

// asking is how a directory is made from a snapshot. By hand nobody is asked.
type asking struct {
	ask   askPeer // how it is found out whether nodes of the cluster live; nil: it is not
	shape Shape
}

// byHand tells whether somebody has asked for the restore: a start alone may not mean it.
func (a *asking) byHand() bool { return a == nil || a.ask == nil }

// Restore makes an empty data directory from a snapshot, as a start with
// restore-from does, and starts nothing. It returns ErrDirectory when the directory
// is in use. fatal is called when its disk fails.
func Restore(ctx context.Context, cfg *config.Config, shape Shape, fatal func(error)) (from snapshots.Header, generation uint64, err error) {
	full := *cfg
	full.Complete()
	begun := exists(filepath.Join(full.Data, formattingFile)) // and not ended: nothing was acknowledged there
	for _, name := range []string{oldLifeFile, identityFile, factsDir} {
		if exists(filepath.Join(full.Data, name)) && (!begun || name == oldLifeFile) {
			return from, 0, fmt.Errorf("%w: %s is not empty; restore into a new one, and keep this: it may have the only copies of tasks (docs/how-to/backup.md)", ErrDirectory, full.Data)
		}
	}
	d, err := openDirectory(ctx, &full, &asking{shape: shape}, func(dir string) (*store.Pebble, error) {
		return store.OpenPebble(store.PebbleOptions{Dir: dir, Logger: slog.New(slog.DiscardHandler), Fatal: fatal})
	})
	if err != nil {
		return from, 0, err
	}
	return d.restored.from, d.restored.generation, d.close()
}

// restore makes a directory from a snapshot of the register: the beginning of the
// cluster's next generation, with this node alone (design 10).
func restore(ctx context.Context, cfg *config.Config, how *asking, open openStore) (*directory, error) {
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
	if how != nil {
		s.State = s.State.Reshaped(how.shape.Partitions, how.shape.Replicas)
	}
	if operator.Destroyed(&s.State) {
		return nil, fmt.Errorf("restore-from: %s is of a cluster that was destroyed (norn cluster destroy); name an older one", s.Name())
	}
	// Who restores by hand, or names the snapshot, means it. An empty directory alone may be
	// that of one node that has lost its disk, with restore-from still in its configuration.
	if !how.byHand() && name == "" {
		err := lives(ctx, &s.State, cfg, how.ask)
		if err == nil && !exists(filepath.Join(cfg.Data, formattingFile)) { // else the note may be of the start that was cut short
			err = begun(ctx, in, &s.Header, cfg)
		}
		if err != nil {
			return nil, fmt.Errorf("restore-from: %w; to begin anew all the same, name the snapshot in restore-from (PLACE/%s)", err, s.Name())
		}
	}
	// A crash from here on leaves a directory that goes on being made.
	if err := writeFile(filepath.Join(cfg.Data, formattingFile), []byte(restoring)); err != nil {
		return nil, err
	}
	d := &directory{self: register.Member{Node: cfg.Name}, cluster: s.State.Cluster, making: restoring}
	_, _ = rand.Read(d.self.Incarnation[:])
	now := sysclock.New(cfg).Wall()
	generation, err := snapshots.Begin(ctx, in, &s.Header, d.self, how.byHand(), now)
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

// askPeer asks who answers at the peer port of an address.
type askPeer func(ctx context.Context, addr string) (peer.Identity, error)

// aliveTime is how long the nodes of a snapshot have to answer.
const aliveTime = 2 * time.Second

// lives refuses to begin a cluster anew beside nodes of it that answer: they would go over to
// this one, with the settings of an old snapshot.
func lives(ctx context.Context, s *register.State, cfg *config.Config, ask askPeer) error {
	ctx, cancel := context.WithTimeout(ctx, aliveTime)
	defer cancel()
	own := record(cfg, register.Member{}, cfg.PeerListen).Addresses
	var at []string
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Status != register.Removed {
			at = append(at, slices.DeleteFunc(slices.Clone(n.Addresses), func(a string) bool { return slices.Contains(own, a) })...)
		}
	}
	met := make(chan error, len(at))
	for _, addr := range at {
		go func() {
			who, err := ask(ctx, addr)
			var refusal *peer.Refusal
			switch {
			case errors.As(err, &refusal) && refusal.By.Node != "": // of this cluster it may well be
				met <- fmt.Errorf("at %s, where a node of the cluster was, one lives that turns this one away (%w): correct that, and have this one join it (--join %s, without restore-from)", addr, refusal, addr)
			case err != nil || who.Cluster != s.Cluster.ID:
				met <- nil
			default:
				met <- fmt.Errorf("node %s of the cluster lives at %s: have this one join it (--join %s, without restore-from)", who.Member.Node, addr, addr)
			}
		}()
	}
	var found error
	for range at {
		if err := <-met; err != nil && found == nil {
			found = err
			cancel()
		}
	}
	return found
}

// begun refuses to begin a cluster anew a second time by itself: where the other nodes live
// and are out of reach of this one.
func begun(ctx context.Context, in objects.Store, s *snapshots.Header, cfg *config.Config) error {
	generation, at, err := snapshots.Begun(ctx, in, s.Cluster, cfg.Name)
	if err != nil {
		return fmt.Errorf("%s: %w", cfg.RestoreFrom, err)
	}
	if generation == 0 {
		return nil
	}
	return fmt.Errorf("node %s has begun the cluster anew from here before, at %s (generation %d), and its data directory %s is empty now: if other nodes of the cluster live, have it join one of them (--join, without restore-from)",
		cfg.Name, at.Format(time.RFC3339), generation, cfg.Data)
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
