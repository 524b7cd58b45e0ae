package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/proto/jsonform"
	"github.com/norn-dev/norn/register/snapshots"
)

// backupCommands make snapshots of the register, look into them and begin anew from
// them.
type backupCommands struct{ *app }

func (b backupCommands) commands() *cobra.Command {
	cmd := group(&cobra.Command{
		Use: "backup", Short: "Snapshots of settings, schedules and members",
		Long: `Make snapshots of the register (settings of queues, schedules, members), look into
them, and begin a cluster anew from one when all its nodes are lost. Servers make
them by themselves with --snapshot-to. Tasks are not in them: they are on the
nodes, and of finished ones in archives.

A place is a directory, or s3://BUCKET/PREFIX[?endpoint=URL&region=NAME].`,
		Example: "  norn backup create /mnt/backup/norn\n  norn backup inspect s3://backups/norn",
	})
	cmd.AddCommand(b.create(), b.inspect(), b.restore())
	return cmd
}

// place opens a place, and gives the snapshot in it that the address names.
func (b backupCommands) place(address string) (objects.Store, string, error) {
	at, name := snapshots.Split(address)
	s, err := objects.Open(at)
	if err != nil {
		return nil, "", usageError{err}
	}
	return s, name, nil
}

// there checks that what is to be read is there.
func (b backupCommands) there(address string) error {
	at, _ := snapshots.Split(address)
	return existing(at)
}

func (b backupCommands) create() *cobra.Command {
	return &cobra.Command{
		Use: "create PLACE", Short: "Write a snapshot now", Args: cobra.ExactArgs(1),
		Long: `Read the register of a running cluster and write a snapshot of it to a place that
this machine reaches; nothing there is deleted. Over 16 MiB only servers can do it
(--snapshot-to).`,
		Example: "  norn backup create /mnt/backup/norn\n  norn backup create 's3://backups/norn?region=eu-central-1'",
		RunE: func(cmd *cobra.Command, args []string) error {
			to, name, err := b.place(args[0])
			if err != nil {
				return err
			}
			if name != "" {
				return usage("%s names a snapshot; name the place, and the snapshot gets a name of its own", args[0])
			}
			defer func() { _ = to.Close() }() // what was written counts
			return b.with(cmd.Context(), func(c *client.Client) error {
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
				return b.writer().Object(headerForm(h, len(data)), func(w io.Writer) { headerTable(w, h, len(data)) })
			})
		},
	}
}

// bounded gives a call the time that --timeout says.
func (b backupCommands) bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, b.timeout)
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

func (b backupCommands) inspect() *cobra.Command {
	return &cobra.Command{
		Use: "inspect PLACE | PLACE/SNAPSHOT", Short: "List snapshots, or check one and show what is in it", Args: cobra.ExactArgs(1),
		Long: `List the snapshots in a place, the newest of each cluster last; or read one in full,
compare it with its checksum, and show what is in it.`,
		Example: "  norn backup inspect /mnt/backup/norn\n  norn backup inspect /mnt/backup/norn/norn-….snapshot -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
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
				list := snapshotList(b.writer()).None("no snapshots there")
				for _, l := range all {
					list.Add(l)
				}
				return errors.Join(err, list.Close())
			})
		},
	}
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

// missing says that a place does not have the snapshot that was named.
func (b backupCommands) missing(name string) error {
	b.complain("there is no snapshot " + name + " in that place; norn backup inspect lists those that there are")
	return reported{exitNotFound}
}

// show reads one snapshot and shows what is in it.
func (b backupCommands) show(ctx context.Context, from objects.Store, name string) error {
	data, err := from.Get(ctx, name)
	if errors.Is(err, objects.ErrNotFound) {
		return b.missing(name)
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
	return b.writer().Object(jsonform.Object(form...), func(w io.Writer) {
		render.Pairs(w, append(headerPairs(s.Header, len(data)),
			[2]string{"partitions", fmt.Sprint(s.State.Cluster.Partitions)}, [2]string{"nodes", strings.Join(nodes, "\n")},
			[2]string{"queues with settings", strings.Join(queues, "\n")}, [2]string{"schedules", strings.Join(schedules, "\n")})...)
	})
}

func (b backupCommands) restore() *cobra.Command {
	cmd := &cobra.Command{
		Use: "restore PLACE | PLACE/SNAPSHOT", Short: "Make a data directory from a snapshot, when all nodes are lost", Args: cobra.ExactArgs(1),
		Long: `Make an empty data directory from the newest snapshot in a place, or from the one
that is named, and start nothing: then norn server begins the cluster anew with
it. The same happens in one step with norn server --restore-from.

Only when all nodes are lost, and for one node: the others join it. See
docs/how-to/backup.md, also for what to do with disks that turn up again.`,
		Example: "  norn backup restore /mnt/backup/norn --data /var/lib/norn --name a\n  norn server --data /var/lib/norn --name a",
	}
	f := cmd.Flags()
	cfg := config.Default()
	for _, s := range cfg.Settings() {
		if slices.Contains([]string{"data", "name", "peer-listen", "peer-advertise", "zone"}, s.Name) {
			f.VarPF(s, s.Name, "", s.Usage)
		}
	}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cfg.RestoreFrom = args[0]
		if err := cfg.Validate(); err != nil {
			return usageError{err}
		}
		if err := b.there(args[0]); err != nil {
			return err
		}
		cfg.Complete()
		h, generation, err := node.Restore(cmd.Context(), cfg, func(err error) {
			fmt.Fprintln(b.errOut, "norn:", err)
			os.Exit(exitFailed)
		})
		if _, name := snapshots.Split(args[0]); name != "" && errors.Is(err, objects.ErrNotFound) {
			return b.missing(name)
		}
		if err != nil {
			return err
		}
		fields := []jsonform.Field{
			{Name: "snapshot", Value: jsonform.String(h.Name())}, {Name: "cluster", Value: jsonform.String(h.Cluster)},
			{Name: "generation", Value: jsonform.Uint64(generation)}, {Name: "data", Value: jsonform.String(cfg.Data)}, {Name: "node", Value: jsonform.String(cfg.Name)},
		}
		return b.writer().Object(jsonform.Object(fields...), func(w io.Writer) {
			fmt.Fprintf(w, "%s is cluster %s as of %s, generation %d; start it with\n  %s\n", cfg.Data, h.Cluster, h.TakenAt.UTC().Format(time.RFC3339), generation, startLine(cmd, cfg))
		})
	}
	return cmd
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
