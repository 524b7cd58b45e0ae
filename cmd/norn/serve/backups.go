package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/node/config"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	// backupLook is between two looks at whether it is time for a backup of tasks, and whether
	// this node is the one that takes it; backupWatch between two at whether it still is.
	backupLook  = 10 * time.Second
	backupWatch = time.Second
)

// backups takes backups of tasks at an interval. The node that leads the register does it: so it is
// one, and another one goes on when that is lost.
type backups struct {
	cfg *config.Config
	log *slog.Logger
	by  string

	newest          atomic.Int64 // when it was begun, Unix seconds; 0: not known to be any
	taken, failures prometheus.Counter
}

// newBackups makes it; nil: no backups are asked for.
func newBackups(cfg *config.Config, o *Options) *backups {
	if cfg.BackupTasksTo == "" {
		return nil
	}
	return &backups{
		cfg: cfg, log: o.Logger, by: "norn " + o.Version,
		taken:    prometheus.NewCounter(prometheus.CounterOpts{Name: "norn_tasks_backups_total", Help: "Backups of tasks that this node has written to backup-tasks-to."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "norn_tasks_backups_failed_total", Help: "Backups of tasks to backup-tasks-to that have failed; they are tried again."}),
	}
}

// collectors are the metrics.
func (b *backups) collectors() []prometheus.Collector {
	if b == nil {
		return nil
	}
	gauge := func(name, help string, read func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, read)
	}
	return []prometheus.Collector{
		b.taken, b.failures,
		gauge("norn_tasks_backup_timestamp_seconds", "When the newest backup of tasks in backup-tasks-to was begun, as far as this node has seen, Unix time; 0: it has seen none. Only the node that takes them looks.",
			func() float64 { return float64(b.newest.Load()) }),
		gauge("norn_tasks_backup_interval_seconds", "The setting backup-tasks-every.", func() float64 { return b.cfg.BackupTasksEvery.Seconds() }),
	}
}

// run takes them until ctx ends.
func (b *backups) run(ctx context.Context, n *node.Node) {
	if b == nil {
		return
	}
	place, err := objects.Open(b.cfg.BackupTasksTo)
	if err != nil { // the configuration was checked
		b.failed(err)
		return
	}
	defer func() { _ = place.Close() }() // it has no more to say
	rounds := job.Rounds{
		Options: job.Options{From: own{n}, Place: place, By: b.by, Rate: int64(b.cfg.BackupTasksRate), Now: time.Now},
		Every:   b.cfg.BackupTasksEvery, Keep: b.cfg.BackupTasksKeep, Incrementals: b.cfg.BackupTasksIncrementals,
	}
	for pause := min(backupLook, b.cfg.BackupTasksEvery); ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		if !node.LeadsRegister(n) {
			continue
		}
		if rounds.Keys = nil; b.cfg.BackupTasksKeyFile != "" { // read each time: keys change
			if rounds.Keys, err = job.ReadKeys(b.cfg.BackupTasksKeyFile); err != nil {
				b.failed(err)
				continue
			}
		}
		b.round(ctx, n, &rounds)
	}
}

// round looks whether it is time for one. It ends when another node leads.
func (b *backups) round(ctx context.Context, n *node.Node, rounds *job.Rounds) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		tick := time.NewTicker(backupWatch)
		defer tick.Stop()
		for node.LeadsRegister(n) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
		cancel()
	}()
	newest, taken, err := rounds.Round(ctx)
	if !newest.IsZero() {
		b.newest.Store(newest.Unix())
	}
	switch {
	case err != nil && ctx.Err() != nil: // another node goes on, or this one stops
	case err != nil:
		b.failed(err)
	case taken != nil:
		b.taken.Inc()
		b.log.Info("backup.written", "backup", taken.Name, "tasks", taken.Tasks, "since", taken.Since)
	}
}

func (b *backups) failed(err error) {
	b.failures.Inc()
	b.log.Error("backup.failed", "error", err, "meaning", "what happens to tasks since the last backup is lost if the cluster is; it is tried again")
}

// Cluster is the cluster of a node, asked through it as the process itself.
func Cluster(n *node.Node) job.Cluster { return own{n} }

type own struct{ n *node.Node }

// asked asks, and gives the answer in the type of its method.
func asked[M gproto.Message](ctx context.Context, n *node.Node, method nornv1.Method, m gproto.Message) (reply M, err error) {
	a := n.Call(ctx, access.Self(), method, m)
	if e := a.Err; e != nil {
		switch e.Kind {
		case nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT, nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED, nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED:
			return reply, fmt.Errorf("%w: %w", job.ErrFinal, e)
		}
		return reply, e
	}
	reply, ok := a.Message.(M)
	if !ok {
		return reply, errors.New("an answer of another kind")
	}
	return reply, nil
}

func (o own) Status(ctx context.Context) (*nornv1.StatusReply, error) {
	return asked[*nornv1.StatusReply](ctx, o.n, nornv1.Method_METHOD_STATUS, &nornv1.StatusRequest{})
}

func (o own) Export(ctx context.Context) ([]byte, error) {
	m, err := asked[*nornv1.ClusterReply](ctx, o.n, nornv1.Method_METHOD_CLUSTER, &nornv1.ClusterRequest{Action: &nornv1.ClusterRequest_Export{Export: &nornv1.ExportRegister{}}})
	return m.GetRegister(), err
}

func (o own) Backup(ctx context.Context, m *nornv1.BackupRequest) (*nornv1.BackupReply, error) {
	return asked[*nornv1.BackupReply](ctx, o.n, nornv1.Method_METHOD_BACKUP, gproto.CloneOf(m))
}

func (o own) Restore(ctx context.Context, partition int, tasks []byte) (*nornv1.RestoreReply, error) {
	return asked[*nornv1.RestoreReply](ctx, o.n, nornv1.Method_METHOD_RESTORE, &nornv1.RestoreRequest{Partition: uint32(partition), Tasks: tasks})
}
