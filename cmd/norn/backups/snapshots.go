package backups

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/proto/jsonform"
	"github.com/norn-dev/norn/register/snapshots"
	"github.com/norn-dev/norn/ring"
)

// place opens a place, and gives the snapshot in it that the address names.
func (b commands) place(address string) (objects.Store, string, error) {
	at, name := snapshots.Split(address)
	s, err := objects.Open(at)
	if err != nil {
		return nil, "", b.Usage(err)
	}
	return s, name, nil
}

// there checks that what is to be read is there.
func (b commands) there(address string) error {
	at, _ := snapshots.Split(address)
	return b.Existing(at)
}

func (b commands) create() *cobra.Command {
	var t takeFlags
	cmd := &cobra.Command{
		Use: "create PLACE", Short: "Write a backup now", Args: cobra.ExactArgs(1),
		Long: `Read the register of a running cluster and write a snapshot of it to a place that
this machine reaches; nothing there is deleted. Over 16 MiB only servers can do it
(--snapshot-to).

With --tasks the tasks are in it too, while the cluster works: of each partition what
a majority of its replicas holds, as of one moment. It is compressed, every part has
its checksum, and the backup counts when its manifest is there, which comes last. One
that was interrupted goes on with --resume. It has all tasks; with --unfinished, of
those that are completed or cancelled only that they are, so that they do not run again.

With --since only what has changed is read and written: the ranges of IDs whose sums
are others than in the backup before. To restore takes all of that chain. With
--key-file everything but the manifest is encrypted, with age.`,
		Example: "  norn backup create /mnt/backup/norn\n  norn backup create --tasks /mnt/backup/norn\n  norn backup create --tasks --unfinished --rate 20MiB 's3://backups/norn?region=eu-central-1'",
		RunE: func(cmd *cobra.Command, args []string) error {
			if t.tasks {
				return b.take(cmd, &t, args[0])
			}
			if err := t.alone(cmd); err != nil {
				return b.Usage(err)
			}
			to, name, err := b.place(args[0])
			if err != nil {
				return err
			}
			if name != "" {
				return b.usage("%s names a snapshot; name the place, and the snapshot gets a name of its own", args[0])
			}
			defer func() { _ = to.Close() }() // what was written counts
			return b.With(cmd.Context(), func(c *client.Client) error {
				state, err := c.Cluster().Export(cmd.Context())
				if err != nil {
					return err
				}
				h, data, err := snapshots.Pack(state, time.Now(), "norn backup")
				if err == nil {
					err = b.bounded(cmd.Context(), func(ctx context.Context) error { return snapshots.Save(ctx, to, h, data, math.MaxInt) })
				}
				if err != nil {
					return err
				}
				return b.Writer().Object(headerForm(h, len(data)), func(w io.Writer) { headerTable(w, h, len(data)) })
			})
		},
	}
	t.flags(cmd)
	return cmd
}

// bounded gives a call the time that --timeout says.
func (b commands) bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, *b.Timeout)
	defer cancel()
	return do(ctx)
}

func headerFields(h snapshots.Header, size int) []jsonform.Field {
	return []jsonform.Field{
		{Name: "snapshot", Value: jsonform.String(h.Name())},
		{Name: "cluster", Value: jsonform.String(h.Cluster)},
		{Name: "generation", Value: jsonform.Uint64(h.Generation)},
		{Name: "revision", Value: jsonform.Uint64(h.Revision)},
		{Name: "taken_at", Value: jsonform.Time(h.TakenAt)},
		{Name: "node", Value: jsonform.String(h.Node)},
		{Name: "bytes", Value: jsonform.Uint64(uint64(size))},
	}
}

func headerForm(h snapshots.Header, size int) jsonform.Value {
	return jsonform.Object(headerFields(h, size)...)
}

func headerTable(w io.Writer, h snapshots.Header, size int) {
	render.Pairs(w, headerPairs(h, size)...)
}

func headerPairs(h snapshots.Header, size int) [][2]string {
	return [][2]string{
		{"snapshot", h.Name()}, {"cluster", h.Cluster}, {"generation", fmt.Sprint(h.Generation)}, {"revision", fmt.Sprint(h.Revision)},
		{"taken", h.TakenAt.UTC().Format(time.RFC3339)}, {"by", h.Node}, {"bytes", render.Number(uint64(size))},
	}
}

func (b commands) inspect() *cobra.Command {
	tasks := false
	cmd := &cobra.Command{
		Use: "inspect PLACE | PLACE/BACKUP", Short: "List backups, or show what is in one", Args: cobra.ExactArgs(1),
		Long: `List the snapshots in a place, the newest of each cluster last; or read one in full,
compare it with its checksum, and show what is in it. With --tasks, or a name that
ends in .tasks, the backups of tasks: of one its manifest is shown, with how many
tasks each queue has in which state. norn backup verify reads all of it.`,
		Example: "  norn backup inspect /mnt/backup/norn\n  norn backup inspect /mnt/backup/norn/norn-….snapshot -o json\n  norn backup inspect --tasks /mnt/backup/norn",
		RunE: func(cmd *cobra.Command, args []string) error {
			if place, name := job.Split(args[0]); tasks || name != "" {
				return b.inspectTasks(cmd, place, name)
			}
			from, name, err := b.place(args[0])
			if err != nil {
				return err
			}
			defer func() { _ = from.Close() }() // what was read counts
			if err := b.there(args[0]); err != nil {
				return err
			}
			return b.bounded(cmd.Context(), func(ctx context.Context) error {
				if name != "" {
					return b.show(ctx, from, name)
				}
				all, err := snapshots.List(ctx, from)
				list := snapshotList(b.Writer()).None("no snapshots there")
				for _, l := range all {
					list.Add(l)
				}
				return errors.Join(err, list.Close())
			})
		},
	}
	cmd.Flags().BoolVar(&tasks, "tasks", false, "backups of tasks")
	return cmd
}

func snapshotList(w *render.Writer) *render.List[snapshots.Listed] {
	type column = render.Column[snapshots.Listed]
	return render.NewList(w, func(l snapshots.Listed) jsonform.Value {
		return jsonform.Object(
			jsonform.Field{Name: "snapshot", Value: jsonform.String(l.Name)},
			jsonform.Field{Name: "cluster", Value: jsonform.String(l.Cluster)},
			jsonform.Field{Name: "generation", Value: jsonform.Uint64(l.Generation)},
			jsonform.Field{Name: "revision", Value: jsonform.Uint64(l.Revision)},
			jsonform.Field{Name: "taken_at", Value: jsonform.Time(l.TakenAt)},
			jsonform.Field{Name: "bytes", Value: jsonform.Uint64(uint64(l.Size))},
		)
	},
		column{Head: "taken", Cell: func(l snapshots.Listed) string { return l.TakenAt.UTC().Format(time.RFC3339) }},
		column{Head: "cluster", Cell: func(l snapshots.Listed) string { return l.Cluster }},
		column{Head: "generation", Cell: func(l snapshots.Listed) string { return fmt.Sprint(l.Generation) }},
		column{Head: "revision", Cell: func(l snapshots.Listed) string { return fmt.Sprint(l.Revision) }},
		column{Head: "bytes", Cell: func(l snapshots.Listed) string { return render.Number(uint64(l.Size)) }},
		column{Head: "snapshot", Cell: func(l snapshots.Listed) string { return l.Name }},
	)
}

// noSnapshot says that a place does not have the snapshot that was named.
func (b commands) noSnapshot(name string) error {
	return b.Missing("there is no snapshot " + name + " in that place; norn backup inspect lists those that there are")
}

// show reads one snapshot and shows what is in it.
func (b commands) show(ctx context.Context, from objects.Store, name string) error {
	data, err := from.Get(ctx, name)
	if errors.Is(err, objects.ErrNotFound) {
		return b.noSnapshot(name)
	}
	if err != nil {
		return err
	}
	s, err := snapshots.Decode(data)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	queues := slices.Sorted(maps.Keys(s.State.Queues))
	var nodes, schedules []string
	for _, n := range s.State.Nodes {
		nodes = append(nodes, n.Node+" ("+n.Status.String()+")")
	}
	for x := range s.State.Schedules.All() {
		if x.Definition != nil { // else only its watermark is kept
			schedules = append(schedules, x.Name)
		}
	}
	slices.Sort(schedules)
	texts := func(all []string) jsonform.Value {
		var out []jsonform.Value
		for _, text := range all {
			out = append(out, jsonform.String(text))
		}
		return jsonform.List(out...)
	}
	form := append(headerFields(s.Header, len(data)),
		jsonform.Field{Name: "partitions", Value: jsonform.Number(float64(s.State.Cluster.Partitions))},
		jsonform.Field{Name: "nodes", Value: texts(nodes)},
		jsonform.Field{Name: "queues", Value: texts(queues)},
		jsonform.Field{Name: "schedules", Value: texts(schedules)},
	)
	return b.Writer().Object(jsonform.Object(form...), func(w io.Writer) {
		render.Pairs(w, append(headerPairs(s.Header, len(data)),
			[2]string{"partitions", fmt.Sprint(s.State.Cluster.Partitions)}, [2]string{"nodes", strings.Join(nodes, "\n")},
			[2]string{"queues with settings", strings.Join(queues, "\n")}, [2]string{"schedules", strings.Join(schedules, "\n")})...)
	})
}

func (b commands) restore() *cobra.Command {
	var g giveFlags
	var shape node.Shape
	cmd := &cobra.Command{
		Use: "restore PLACE | PLACE/BACKUP", Short: "Make a data directory from a snapshot, or give a cluster its tasks again", Args: cobra.ExactArgs(1),
		Long: `Make an empty data directory from the newest snapshot in a place, or from the one
that is named, and start nothing: then norn server begins the cluster anew with
it. The same happens in one step with norn server --restore-from.

Only when all nodes are lost, and for one node: the others join it. With --partitions
and --replicas the cluster has another shape from then on. See docs/how-to/backup.md, also
for what to do with disks that turn up again.

With --tasks a running cluster is given the tasks of a backup of itself: begin it anew
first, as above, then restore the tasks. All of the backup is checked before the first
one is written, and it may be repeated. Tasks keep their IDs, attempts and logs; one
that a worker had is free when its lease and --buffer are over.

With --prefix or --skip-existing the unfinished tasks of a backup, of whichever cluster,
are enqueued in one that is in use: attempts begin anew. --report maps their IDs.`,
		Example: "  norn backup restore /mnt/backup/norn --data /var/lib/norn --name a\n  norn server --data /var/lib/norn --name a\n  norn backup restore --tasks /mnt/backup/norn\n  norn backup restore --tasks --prefix old/ --dry-run /mnt/backup/norn",
	}
	f := cmd.Flags()
	g.flags(cmd)
	f.IntVar(&shape.Partitions, "partitions", 0, "partitions from now on, 1 to 4096 (default: as it was)")
	f.IntVar(&shape.Replicas, "replicas", 0, "replicas of each from now on, 1 to 9 (default: as it was)")
	cfg := config.Default()
	for _, s := range cfg.Settings() {
		if slices.Contains([]string{"data", "name", "peer-listen", "peer-advertise", "zone"}, s.Name) {
			f.VarPF(s, s.Name, "", s.Usage)
		}
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if g.tasks {
			return b.give(cmd, &g, args[0])
		}
		if err := g.alone(cmd); err != nil {
			return b.Usage(err)
		}
		if shape.Partitions < 0 || shape.Partitions > ring.MaxPartitions || shape.Replicas < 0 || shape.Replicas > ring.MaxReplicas {
			return b.usage("%d partitions, not 1 to %d, or %d replicas, not 1 to %d", shape.Partitions, ring.MaxPartitions, shape.Replicas, ring.MaxReplicas)
		}
		if err := b.there(args[0]); err != nil {
			return err
		}
		keys, err := b.keys(g.keyFile)
		if err != nil {
			return err
		}
		if keys != nil {
			return b.sealed(cmd, args[0], keys, func(from string) error { return b.begin(cmd, cfg, shape, from) })
		}
		return b.begin(cmd, cfg, shape, args[0])
	}
	return cmd
}

// begin makes a data directory.
func (b commands) begin(cmd *cobra.Command, cfg *config.Config, shape node.Shape, address string) error {
	cfg.RestoreFrom = address
	if err := cfg.Validate(); err != nil {
		return b.Usage(err)
	}
	cfg.Complete()
	h, generation, err := node.Restore(cmd.Context(), cfg, shape, b.Exit)
	if _, name := snapshots.Split(address); name != "" && errors.Is(err, objects.ErrNotFound) {
		return b.noSnapshot(name)
	}
	if err != nil {
		return err
	}
	fields := []jsonform.Field{
		{Name: "snapshot", Value: jsonform.String(h.Name())}, {Name: "cluster", Value: jsonform.String(h.Cluster)},
		{Name: "generation", Value: jsonform.Uint64(generation)}, {Name: "data", Value: jsonform.String(cfg.Data)}, {Name: "node", Value: jsonform.String(cfg.Name)},
	}
	return b.Writer().Object(jsonform.Object(fields...), func(w io.Writer) {
		fmt.Fprintf(w, "%s is cluster %s as of %s, generation %d; start it with\n  %s\n", cfg.Data, h.Cluster, h.TakenAt.UTC().Format(time.RFC3339), generation, startLine(cmd, cfg))
	})
}

// startLine is how to start the node that was restored. What was said of where it
// is reached has to be said again: the directory does not keep it.
func startLine(cmd *cobra.Command, cfg *config.Config) string {
	line := fmt.Sprintf("norn server --data %s --name %s", quoted(cfg.Data), quoted(cfg.Name))
	for _, name := range []string{"peer-listen", "peer-advertise", "zone"} {
		if f := cmd.Flags().Lookup(name); f.Changed {
			line += fmt.Sprintf(" --%s %s", name, quoted(f.Value.String()))
		}
	}
	return line
}

// quoted is a word as a shell takes it.
func quoted(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:,@+=%", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
