package backups

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/backup"
	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/proto/jsonform"
)

// size is a number of bytes as a flag.
type size struct{ config.Size }

func (s *size) Set(text string) (err error) {
	s.Size, err = config.ParseSize(strings.TrimSpace(text))
	return err
}

func (s *size) Type() string { return "size" }

// takeFlags are those of create with tasks.
type takeFlags struct {
	tasks, unfinished, all bool
	queues                 []string
	rate                   size
	resume, since, keyFile string
}

func (t *takeFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&t.tasks, "tasks", false, "the tasks, too")
	f.BoolVar(&t.unfinished, "unfinished", false, "of completed and cancelled tasks only that they are")
	f.BoolVar(&t.all, "all", false, "all of every task (the default)")
	f.StringSliceVar(&t.queues, "queue", nil, "only tasks of this `QUEUE`[,QUEUE…]")
	f.Var(&t.rate, "rate", "read at most so many `BYTES` a second, as 20MiB (0: as fast as it goes)")
	f.StringVar(&t.resume, "resume", "", "go on with the backup of this `NAME` that was interrupted")
	f.StringVar(&t.since, "since", "", "only what has changed since the backup of this `NAME`; last: since the newest one there")
	keyFlag(cmd, &t.keyFile)
	cmd.MarkFlagsMutuallyExclusive("unfinished", "all")
}

// alone refuses flags that make no sense without --tasks.
func (t *takeFlags) alone(cmd *cobra.Command) error {
	return needsTasks(cmd, "unfinished", "all", "queue", "rate", "resume", "since", "key-file")
}

func keyFlag(cmd *cobra.Command, file *string) {
	cmd.Flags().StringVar(file, "key-file", "", "`FILE` with keys of age: to encrypt public ones do, to decrypt it takes a private one")
}

// keys reads a key file; nil where none is given.
func (b commands) keys(file string) (*job.Keys, error) {
	if file == "" {
		return nil, nil
	}
	k, err := job.ReadKeys(file)
	if err != nil {
		return nil, b.Usage(err)
	}
	return k, nil
}

func needsTasks(cmd *cobra.Command, names ...string) error {
	for _, name := range names {
		if cmd.Flags().Changed(name) {
			return fmt.Errorf("--%s is about tasks: give --tasks with it", name)
		}
	}
	return nil
}

// take takes a backup of tasks.
func (b commands) take(cmd *cobra.Command, t *takeFlags, address string) error {
	place, name := job.Split(address)
	if name != "" {
		return b.usage("%s names a backup; name the place, and the backup gets a name of its own", address)
	}
	to, err := b.open(place)
	if err != nil {
		return err
	}
	defer func() { _ = to.Close() }() // what was written counts
	keys, err := b.keys(t.keyFile)
	if err != nil {
		return err
	}
	o := job.Options{
		Keys:  keys,
		Place: to, Scope: backup.All, Queues: t.queues, By: "norn " + b.Version, Rate: int64(t.rate.Size), Now: time.Now,
		Resume: strings.TrimSuffix(t.resume, backup.ManifestEnd), Progress: b.stages("partitions"),
	}
	if t.unfinished {
		o.Scope = backup.Unfinished
	}
	if t.since != "" {
		name := ""
		if t.since != "last" {
			name = strings.TrimSuffix(t.since, backup.ManifestEnd) + backup.ManifestEnd
		}
		if o.Since, err = job.Find(cmd.Context(), to, name); err != nil {
			return b.missing(err, name)
		}
	}
	return b.With(cmd.Context(), func(c *client.Client) error {
		o.From = job.Over(c)
		m, err := job.Create(cmd.Context(), o)
		if err != nil {
			return err
		}
		return b.showTasks(m, nil)
	})
}

// stages shows progress where somebody sees it.
func (b commands) stages(what string) func(job.Progress) {
	p := b.Progress("backup")
	if p == nil {
		return nil
	}
	return func(now job.Progress) { p.Stage(what, now.Done, now.Total) }
}

// showTasks shows a backup; whole is what it gives with all that it builds on, nil: that is not known.
func (b commands) showTasks(m *backup.Manifest, whole *backup.Summary) error {
	shown := *m
	if whole != nil {
		shown.Summary = *whole
	}
	return b.Writer().Object(form(&shown), func(w io.Writer) { table(w, &shown) })
}

// form is what a program is told of a backup.
func form(m *backup.Manifest) jsonform.Value {
	var queues []jsonform.Value
	for _, q := range slices.Sorted(maps.Keys(m.Counts)) {
		fields := []jsonform.Field{{Name: "queue", Value: jsonform.String(q)}}
		for _, state := range slices.Sorted(maps.Keys(m.Counts[q])) {
			fields = append(fields, jsonform.Field{Name: state, Value: jsonform.Uint64(m.Counts[q][state])})
		}
		queues = append(queues, jsonform.Object(fields...))
	}
	stored := int64(0)
	for i := range m.Parts {
		stored += m.Parts[i].Bytes
	}
	var to []jsonform.Value
	for _, key := range m.Encrypted {
		to = append(to, jsonform.String(key))
	}
	return jsonform.Object(
		jsonform.Field{Name: "backup", Value: jsonform.String(m.Name)},
		jsonform.Field{Name: "cluster", Value: jsonform.String(m.Cluster)},
		jsonform.Field{Name: "generation", Value: jsonform.Uint64(m.Generation)},
		jsonform.Field{Name: "snapshot", Value: jsonform.String(m.Snapshot)},
		jsonform.Field{Name: "partitions", Value: jsonform.Number(float64(m.Partitions))},
		jsonform.Field{Name: "began_at", Value: jsonform.Time(m.Began)},
		jsonform.Field{Name: "ended_at", Value: jsonform.Time(m.Ended)},
		jsonform.Field{Name: "scope", Value: jsonform.String(m.Scope)},
		jsonform.Field{Name: "since", Value: jsonform.String(m.Since)},
		jsonform.Field{Name: "encrypted_to", Value: jsonform.List(to...)},
		jsonform.Field{Name: "tasks", Value: jsonform.Uint64(m.Tasks)},
		jsonform.Field{Name: "facts", Value: jsonform.Uint64(m.Facts)},
		jsonform.Field{Name: "held_claims", Value: jsonform.Uint64(m.Held)},
		jsonform.Field{Name: "bytes", Value: jsonform.Uint64(uint64(stored))},
		jsonform.Field{Name: "root", Value: jsonform.String(m.Root)},
		jsonform.Field{Name: "queues", Value: jsonform.List(queues...)},
	)
}

func table(w io.Writer, m *backup.Manifest) {
	stored := int64(0)
	for i := range m.Parts {
		stored += m.Parts[i].Bytes
	}
	var queues []string
	for _, q := range slices.Sorted(maps.Keys(m.Counts)) {
		name := q
		if name == "" {
			name = "(ended)"
		}
		var states []string
		for _, state := range slices.Sorted(maps.Keys(m.Counts[q])) {
			states = append(states, render.Number(m.Counts[q][state])+" "+state)
		}
		queues = append(queues, render.Text([]byte(name), 60)+": "+strings.Join(states, ", "))
	}
	encrypted, since := "no", "nothing: it is a full one"
	if len(m.Encrypted) > 0 {
		encrypted = "to " + strings.Join(m.Encrypted, "\n")
	}
	if m.Since != "" {
		since = fmt.Sprintf("%s (%d before it)", m.Since, m.Depth)
	}
	render.Pairs(w, [][2]string{
		{"backup", m.Name}, {"since", since}, {"encrypted", encrypted}, {"cluster", m.Cluster}, {"generation", fmt.Sprint(m.Generation)}, {"snapshot", m.Snapshot},
		{"began", m.Began.Format(time.RFC3339)}, {"ended", m.Ended.Format(time.RFC3339)}, {"scope", m.Scope},
		{"tasks", render.Number(m.Tasks)}, {"claims held", render.Number(m.Held)},
		{"bytes", render.Number(uint64(stored))}, {"parts", fmt.Sprint(len(m.Parts))}, {"root", m.Root}, {"queues", strings.Join(queues, "\n")},
	}...)
}

// verify reads all of a backup.
func (b commands) verify() *cobra.Command {
	var keyFile string
	cmd := &cobra.Command{
		Use: "verify PLACE | PLACE/BACKUP.tasks", Short: "Read all of a backup of tasks, and say what it would give", Args: cobra.ExactArgs(1),
		Long: `Read all of the newest backup of tasks in a place, or of the one that is named, and
compare every part with its checksum, every task with its own, and all of it with what
the manifest says, over all backups that it is incremental to. What is wrong is told
with the place. Then show what a restore gives.`,
		Example: "  norn backup verify /mnt/backup/norn\n  norn backup verify /mnt/backup/norn/norn-….tasks -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			place, name := job.Split(args[0])
			return b.withBackup(cmd, place, name, func(from source) error {
				keys, err := b.keys(keyFile)
				if err != nil {
					return err
				}
				whole, err := job.Verify(cmd.Context(), from.Store, from.m, keys, b.stages("parts"))
				if err != nil {
					return err
				}
				return b.showTasks(from.m, whole)
			})
		},
	}
	keyFlag(cmd, &keyFile)
	return cmd
}

// keygen makes a key file.
func (b commands) keygen() *cobra.Command {
	return &cobra.Command{
		Use: "keygen FILE", Short: "Make a key file for encrypted backups", Args: cobra.ExactArgs(1),
		Long: `Make a key pair of age (age-encryption.org) and write it to a file that must not exist yet.
Show the public key: a file with that alone encrypts backups and cannot decrypt them.
Keep the private one where the loss of the cluster does not reach it: without it the
backups are lost, too.`,
		Example: "  norn backup keygen backup.key\n  norn backup create --tasks --key-file backup.key /mnt/backup/norn",
		RunE: func(_ *cobra.Command, args []string) error {
			text, public, err := job.NewKey()
			if err != nil {
				return err
			}
			out, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			_, err = io.WriteString(out, text)
			if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
				return err
			}
			return b.Writer().Object(jsonform.Object(jsonform.Field{Name: "file", Value: jsonform.String(args[0])}, jsonform.Field{Name: "public_key", Value: jsonform.String(public)}),
				func(w io.Writer) { _, _ = fmt.Fprintln(w, public) })
		},
	}
}

// inspectTasks lists backups of tasks, or shows one.
func (b commands) inspectTasks(cmd *cobra.Command, place, name string) error {
	if name != "" {
		return b.withBackup(cmd, place, name, func(from source) error { return b.showTasks(from.m, nil) })
	}
	from, err := b.open(place)
	if err != nil {
		return err
	}
	defer func() { _ = from.Close() }() // what was read counts
	if err := b.Existing(place); err != nil {
		return err
	}
	all, bad, err := job.List(cmd.Context(), from)
	type column = render.Column[*backup.Manifest]
	list := render.NewList(b.Writer(), form,
		column{Head: "began", Cell: func(m *backup.Manifest) string { return m.Began.Format(time.RFC3339) }},
		column{Head: "cluster", Cell: func(m *backup.Manifest) string { return m.Cluster }},
		column{Head: "scope", Cell: func(m *backup.Manifest) string { return m.Scope }},
		column{Head: "tasks", Cell: func(m *backup.Manifest) string { return render.Number(m.Tasks) }},
		column{Head: "kind", Cell: kind},
		column{Head: "backup", Cell: func(m *backup.Manifest) string { return m.Name + backup.ManifestEnd }},
	).None("no backups of tasks there")
	for _, m := range all {
		list.Add(m)
	}
	return errors.Join(append(bad, err, list.Close())...)
}

// kind says in a word or two what a backup is.
func kind(m *backup.Manifest) string {
	text := "full"
	if m.Since != "" {
		text = fmt.Sprintf("incremental %d", m.Depth)
	}
	if len(m.Encrypted) > 0 {
		text += ", encrypted"
	}
	return text
}

// giveFlags are those of restore with tasks.
type giveFlags struct {
	tasks, dryRun bool
	buffer        time.Duration
	rate          size
	asOf, keyFile string
	into          intoFlags
}

func (g *giveFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.BoolVar(&g.tasks, "tasks", false, "give a running cluster the tasks of a backup")
	f.BoolVar(&g.dryRun, "dry-run", false, "read all of it and say what would be done")
	f.DurationVar(&g.buffer, "buffer", 10*time.Second, "beyond its lease, before a task is free that a worker had (no less than eta)")
	f.StringVar(&g.asOf, "as-of", "", "the newest backup that began at this `TIME` or before, as 2026-11-29T03:00:00Z")
	g.into.flags(cmd)
	keyFlag(cmd, &g.keyFile)
	f.Var(&g.rate, "rate", "write at most so many `BYTES` a second, as 20MiB (0: as fast as it goes)")
}

func (g *giveFlags) alone(cmd *cobra.Command) error {
	return needsTasks(cmd, "dry-run", "buffer", "rate", "as-of", "prefix", "skip-existing", "gc-grace", "report")
}

// give restores the tasks of a backup.
func (b commands) give(cmd *cobra.Command, g *giveFlags, address string) error {
	for _, name := range []string{"data", "name", "partitions", "replicas"} {
		if cmd.Flags().Changed(name) {
			return b.usage("--%s is about a data directory: make that first, without --tasks, and start it", name)
		}
	}
	if g.buffer < 0 {
		return b.usage("--buffer %s is less than nothing", g.buffer)
	}
	asOf, err := g.time()
	if err != nil {
		return b.Usage(err)
	}
	keys, err := b.keys(g.keyFile)
	if err != nil {
		return err
	}
	place, name := job.Split(address)
	if name != "" && !asOf.IsZero() {
		return b.usage("%s names a backup already: --as-of is for a place", address)
	}
	return b.withBackupAsOf(cmd, place, name, asOf, func(from source) error {
		return b.With(cmd.Context(), func(c *client.Client) error {
			if g.into.asked() {
				return b.into(cmd, c, from, keys, g)
			}
			r, err := job.Restore(cmd.Context(), job.RestoreOptions{
				From: from, Manifest: from.m, To: job.Over(c), Keys: keys, Buffer: g.buffer, DryRun: g.dryRun, Rate: int64(g.rate.Size), Progress: b.stages("parts"),
			})
			if err != nil {
				return err
			}
			return b.report(from.m, r, g.dryRun)
		})
	})
}

// time is what --as-of says; zero: nothing.
func (g *giveFlags) time() (time.Time, error) {
	if g.asOf == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, g.asOf)
	if err != nil {
		return at, fmt.Errorf("--as-of: %q is no time as 2026-11-29T03:00:00Z", g.asOf)
	}
	return at, nil
}

func (b commands) report(m *backup.Manifest, r *job.Report, dry bool) error {
	var left []jsonform.Value
	for _, task := range r.LeftOutIDs {
		left = append(left, jsonform.String(task))
	}
	fields := []jsonform.Field{
		{Name: "backup", Value: jsonform.String(m.Name)}, {Name: "dry_run", Value: jsonform.Bool(dry)},
		{Name: "tasks", Value: jsonform.Uint64(r.Tasks)}, {Name: "written", Value: jsonform.Uint64(r.Written)}, {Name: "fresh", Value: jsonform.Uint64(r.Fresh)},
		{Name: "freed_claims", Value: jsonform.Uint64(r.Freed)}, {Name: "free_at", Value: jsonform.Time(r.FreeAt)},
		{Name: "left_out", Value: jsonform.Uint64(r.LeftOut)}, {Name: "left_out_ids", Value: jsonform.List(left...)},
	}
	return b.Writer().Object(jsonform.Object(fields...), func(w io.Writer) {
		if dry {
			_, _ = fmt.Fprintf(w, "%s tasks would be restored from %s, %s of them were claimed\n", render.Number(r.Tasks), m.Name, render.Number(r.Freed))
			return
		}
		_, _ = fmt.Fprintf(w, "%s tasks of %s are there, %s of them were not\n", render.Number(r.Written), m.Name, render.Number(r.Fresh))
		if r.Freed > 0 {
			_, _ = fmt.Fprintf(w, "%s were claimed, the last is free at %s\n", render.Number(r.Freed), r.FreeAt.Format(time.RFC3339))
		}
		if r.LeftOut > 0 {
			_, _ = fmt.Fprintf(w, "%s were left out: they are older than gc-grace and nothing is known of them, so that they may have been finished and forgotten\n  %s\n", render.Number(r.LeftOut), strings.Join(r.LeftOutIDs, "\n  "))
		}
	})
}
