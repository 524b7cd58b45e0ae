package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/cmd/norn/serve"
	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/proto/jsonform"
)

// drillReady is how long the scratch node has to be ready, drillLook between two looks.
const (
	drillReady = time.Minute
	drillLook  = 20 * time.Millisecond
)

// drill restores a backup into a scratch node.
func (b commands) drill() *cobra.Command {
	var keyFile, scratch string
	cmd := &cobra.Command{
		Use: "drill PLACE | PLACE/BACKUP.tasks", Short: "Restore a backup of tasks into a scratch node, and compare", Args: cobra.ExactArgs(1),
		Long: `Restore the newest backup of tasks in a place, or the one that is named, as after the
loss of a cluster, but into a node on this machine that nobody reaches: the register
from the snapshot, then the tasks. Then read all of it back, compare the number of
tasks in each state of each queue, and the root over all facts, and delete the node.
It takes as much room as the tasks do. Do it regularly: the backup that was never
restored is none. Exit code 0 says that they are the same.`,
		Example: "  norn backup drill /mnt/backup/norn\n  norn backup drill --scratch /var/tmp 's3://backups/norn?region=eu-central-1'",
		RunE: func(cmd *cobra.Command, args []string) error {
			keys, err := b.keys(keyFile)
			if err != nil {
				return err
			}
			place, name := job.Split(args[0])
			return b.withBackup(cmd, place, name, func(from source) error {
				dir, err := os.MkdirTemp(scratch, "norn-drill-")
				if err != nil {
					return err
				}
				defer func() { _ = os.RemoveAll(dir) }() // its name says what it is
				d := &drill{commands: b, from: from, keys: keys, dir: dir}
				return d.run(cmd.Context())
			})
		},
	}
	keyFlag(cmd, &keyFile)
	cmd.Flags().StringVar(&scratch, "scratch", "", "`DIR` below which the scratch node is (default: that for temporary files)")
	return cmd
}

// drill is one that is under way.
type drill struct {
	commands
	from source
	keys *job.Keys
	dir  string
}

func (d *drill) run(ctx context.Context) error {
	began := time.Now()
	n, err := d.start(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = n.Stop(context.WithoutCancel(ctx)) }() // what it has is deleted
	to := serve.Cluster(n)
	if _, err := job.Restore(ctx, job.RestoreOptions{From: d.from, Manifest: d.from.m, To: to, Keys: d.keys, Progress: d.stages("parts restored")}); err != nil {
		return err
	}
	took := time.Since(began).Round(time.Millisecond)
	var want, got backup.Summary
	err = job.Each(ctx, d.from, d.from.m, d.keys, nil, func(t *backup.Task) error {
		t.Free(0)
		return want.Add(t, d.from.m.Began)
	})
	if err == nil {
		err = d.readBack(ctx, to, began, &got)
	}
	if err != nil {
		return err
	}
	if !got.Same(&want) {
		return fmt.Errorf("the scratch node has not what is in backup %s: %d tasks with %d facts, root %s, %v, and in the backup are %d with %d, root %s, %v",
			d.from.m.Name, got.Tasks, got.Facts, got.Root, got.Counts, want.Tasks, want.Facts, want.Root, want.Counts)
	}
	fields := []jsonform.Field{
		{Name: "backup", Value: jsonform.String(d.from.m.Name)}, {Name: "tasks", Value: jsonform.Uint64(got.Tasks)}, {Name: "facts", Value: jsonform.Uint64(got.Facts)},
		{Name: "root", Value: jsonform.String(got.Root)}, {Name: "restore_seconds", Value: jsonform.Number(took.Seconds())},
	}
	return d.Writer().Object(jsonform.Object(fields...), func(w io.Writer) {
		_, _ = fmt.Fprintf(w, "backup %s was restored within %s: %s tasks with %s facts, root %s, are the same there\n", d.from.m.Name, took, render.Number(got.Tasks), render.Number(got.Facts), got.Root)
	})
}

// start makes the scratch node from the snapshot of the register, and starts it.
func (d *drill) start(ctx context.Context) (*node.Node, error) {
	m := d.from.m
	data, err := d.from.Get(ctx, m.Snapshot)
	plain, sealed := strings.CutSuffix(m.Snapshot, job.SealedEnd)
	if err == nil && sealed {
		if d.keys == nil {
			return nil, fmt.Errorf("%w: %s is encrypted to %v: give the key file (--key-file)", backup.ErrSealed, m.Name, m.Encrypted)
		}
		data, err = d.keys.Open(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Snapshot, err)
	}
	at := filepath.Join(d.dir, "snapshot") // a copy: notes of restores do not belong into the place
	if err := errors.Join(os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(at, plain), data, 0o600)); err != nil {
		return nil, err
	}
	cfg := config.Default()
	cfg.Data, cfg.Name, cfg.RestoreFrom = filepath.Join(d.dir, "data"), "drill", filepath.Join(at, plain)
	cfg.Listen, cfg.PeerListen, cfg.CollectInterval = "127.0.0.1:0", "127.0.0.1:0", 0 // nothing is to be collected before it is compared
	cfg.Complete()
	if _, _, err := node.Restore(ctx, cfg, node.Shape{Replicas: 1}, d.Exit); err != nil {
		return nil, err
	}
	cfg.RestoreFrom = ""
	n, err := node.Start(cfg, node.Options{Version: d.Version, Starting: ctx, Fatal: d.Exit})
	if err != nil {
		return nil, err
	}
	end := time.Now().Add(drillReady)
	for enqueue, _ := n.Ready(); !enqueue; enqueue, _ = n.Ready() {
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case <-time.After(drillLook):
			if time.Now().After(end) {
				err = fmt.Errorf("the scratch node is not ready after %s", drillReady)
			}
		}
		if err != nil {
			return nil, errors.Join(err, n.Stop(context.WithoutCancel(ctx)))
		}
	}
	return n, nil
}

// readBack takes a backup of the scratch node and sums it up, without tasks that its schedules have
// launched since.
func (d *drill) readBack(ctx context.Context, to job.Cluster, began time.Time, got *backup.Summary) error {
	again, err := objects.Open(filepath.Join(d.dir, "again"))
	if err != nil {
		return err
	}
	defer func() { _ = again.Close() }() // it is deleted
	m, err := job.Create(ctx, job.Options{From: to, Place: again, By: d.Version, Now: time.Now, Progress: d.stages("partitions read back")})
	if err != nil {
		return err
	}
	return job.Each(ctx, again, m, nil, nil, func(t *backup.Task) error {
		if t.ID.Nanos() > began.UnixNano() {
			return nil
		}
		return got.Add(t, d.from.m.Began)
	})
}
