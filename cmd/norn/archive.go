package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/archive"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/cmd/norn/sheet"
	"github.com/norn-dev/norn/internal/objects"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// archiveCommands read directories of archives. They need no server.
type archiveCommands struct{ *app }

func (a archiveCommands) commands() *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "archive", Short: "Read archives of finished tasks", Aliases: []string{"archives"},
		Long: `Read archives of finished tasks, as servers with --archive-dir write them before
they delete. No server is needed: DIR is a directory that this machine can read, or
s3://BUCKET/PREFIX.`,
		Example: "  norn archive list /srv/norn/archive\n  norn archive show /srv/norn/archive -q mail -o jsonl\n  norn archive verify /srv/norn/archive",
	})
	cmd.AddCommand(a.list(), a.show(), a.verify())
	return cmd
}

// directory completes a command about one directory.
func directory(cmd *cobra.Command) *cobra.Command {
	cmd.Args = cobra.ExactArgs(1)
	cmd.ValidArgsFunction = func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return nil, cobra.ShellCompDirectiveFilterDirs
	}
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := existing(args[0]); err != nil {
			return err
		}
		return run(cmd, args)
	}
	return cmd
}

// existing checks a place that is to be read: what is no directory is a mistake,
// not an empty place; a directory that cannot be read is a failure.
func existing(place string) error {
	path, is, err := objects.Directory(place)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	if !is {
		return nil
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return cli.Usage("there is no directory %s", path)
	case err != nil:
		return err
	case !info.IsDir():
		return cli.Usage("%s is not a directory", path)
	}
	return nil
}

func (a archiveCommands) list() *cobra.Command {
	return directory(&cobra.Command{
		Use: "list DIR", Aliases: []string{"ls"}, Short: "List archives, the oldest first",
		Long: `List archives, the oldest first, from their manifests: which node wrote them when,
and from when to when their tasks were finished. Data files are not read: see
norn archive verify.`,
		Example: "  norn archive list /srv/norn/archive\n  norn archive list /srv/norn/archive -o json | jq 'map(.tasks) | add'",
		RunE: func(_ *cobra.Command, args []string) error {
			all, err := archive.Manifests(args[0])
			list := archiveList(a.Writer()).None("no files in this archive")
			for _, m := range all {
				list.Add(m)
			}
			return errors.Join(err, list.Close())
		},
	})
}

func archiveList(w *render.Writer) *render.List[archive.Manifest] {
	type column = render.Column[archive.Manifest]
	stamp := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	return render.NewList(w, manifestForm,
		column{Head: "created", Cell: func(m archive.Manifest) string { return stamp(m.CreatedAt) }},
		column{Head: "node", Cell: func(m archive.Manifest) string { return render.Text([]byte(m.Node), 40) }},
		column{Head: "tasks", Cell: func(m archive.Manifest) string { return render.Number(uint64(m.Tasks)) }},
		column{Head: "bytes", Cell: func(m archive.Manifest) string { return render.Number(m.Bytes) }},
		column{Head: "finished from", Cell: func(m archive.Manifest) string { return stamp(m.MinFinishedAt) }},
		column{Head: "to", Cell: func(m archive.Manifest) string { return stamp(m.MaxFinishedAt) }},
		column{Head: "file", Cell: func(m archive.Manifest) string { return m.File }},
	)
}

// manifestForm has the members of a manifest, in the form of all output.
func manifestForm(m archive.Manifest) jsonform.Value {
	str, number := jsonform.String, func(n int) jsonform.Value { return jsonform.Number(float64(n)) }
	return jsonform.Object(
		jsonform.Field{Name: "format", Value: number(m.Format)},
		jsonform.Field{Name: "cluster", Value: str(m.Cluster)},
		jsonform.Field{Name: "node", Value: str(m.Node)},
		jsonform.Field{Name: "file", Value: str(m.File)},
		jsonform.Field{Name: "tasks", Value: number(m.Tasks)},
		jsonform.Field{Name: "first_id", Value: str(m.FirstID)},
		jsonform.Field{Name: "last_id", Value: str(m.LastID)},
		jsonform.Field{Name: "min_finished_at", Value: jsonform.Time(m.MinFinishedAt)},
		jsonform.Field{Name: "max_finished_at", Value: jsonform.Time(m.MaxFinishedAt)},
		jsonform.Field{Name: "bytes", Value: jsonform.Uint64(m.Bytes)},
		jsonform.Field{Name: "records_bytes", Value: jsonform.Uint64(m.RecordsBytes)},
		jsonform.Field{Name: "sha256", Value: str(m.SHA256)},
		jsonform.Field{Name: "records_sha256", Value: str(m.RecordsSHA256)},
		jsonform.Field{Name: "created_at", Value: jsonform.Time(m.CreatedAt)},
	)
}

func (a archiveCommands) show() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show DIR", Short: "Show the tasks in archives",
		Long: `Show the tasks in archives, the oldest archive first. A task can be in two
archives, when a server ended between archiving and deleting it; --id shows the
first it finds. What can be read of a damaged archive is shown, then the command
exits with 1.`,
		Example: "  norn archive show /srv/norn/archive -q mail\n  norn archive show /srv/norn/archive --id 3ZyfAz4TTlNLdMEJYWbpzCDKw1p -o yaml\n" +
			"  norn archive show /srv/norn/archive -o jsonl | jq -r .queue | sort | uniq -c",
	}
	queue := cmd.Flags().StringP("queue", "q", "", "of this `queue` only")
	task := cmd.Flags().String("id", "", "the task with this `ID` only")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cli.NotEmpty(cmd, "queue", "id"); err != nil {
			return err
		}
		if *task != "" {
			if _, err := cli.ParseID(*task); err != nil {
				return err
			}
		}
		list := sheet.List(a.Writer()).None("no task in the archive is like that")
		err := a.search(cmd.Context(), args[0], *task, func(t *nornv1.Task) {
			if (*queue == "" || t.GetQueue() == *queue) && (*task == "" || t.GetId() == *task) {
				list.Add(t)
			}
		})
		if closed := list.Close(); err == nil {
			err = closed
		}
		if err == nil && *task != "" && list.Len() == 0 {
			a.Complain(fmt.Sprintf("no archive in %s holds task %s", args[0], *task))
			return cli.Reported{Code: cli.ExitNotFound}
		}
		return err
	}
	return directory(cmd)
}

// search reads tasks; with an ID only archives that can hold it, until it is
// found.
func (a archiveCommands) search(ctx context.Context, dir, task string, see func(*nornv1.Task)) error {
	all, err := archive.Manifests(dir)
	errs := []error{err}
	var line *render.Progress
	if task != "" {
		line = a.Progress("searched")
	}
	defer line.Clear()
	seen := uint64(0)
	for _, m := range all {
		if task != "" && (task < m.FirstID || task > m.LastID) {
			continue
		}
		for t, err := range archive.Read(dir, m) {
			if err != nil {
				errs = append(errs, err)
				break
			}
			if seen++; seen%256 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			line.Set(seen)
			see(t)
			if task != "" && t.GetId() == task {
				return nil
			}
		}
	}
	return errors.Join(errs...)
}

func (a archiveCommands) verify() *cobra.Command {
	return directory(&cobra.Command{
		Use: "verify DIR", Short: "Read archives in full and compare them with their manifests",
		Long: `Read every archive in full and compare it with its manifest: size, hashes, number
of tasks, IDs and times. Exits with 1 when one differs or cannot be read. Files of
a write that is under way or was interrupted are named, and are no difference:
nothing was deleted on their word.`,
		Example: "  norn archive verify /srv/norn/archive\n  norn archive verify /srv/norn/archive -o json | jq -r '.problems[].file'",
		RunE: func(cmd *cobra.Command, args []string) error {
			line := a.Progress("verified")
			r, err := archive.Verify(cmd.Context(), args[0], func(done, total int) { line.Stage("verified", done, total) })
			line.Clear()
			if err != nil {
				return err
			}
			if err := a.Writer().Object(reportForm(r), func(w io.Writer) { reportTable(w, r) }); err != nil {
				return err
			}
			if n := len(r.Problems); n > 0 {
				return fmt.Errorf("%d of %d archives cannot be read as they were written", n, n+r.Archives)
			}
			return nil
		},
	})
}

func reportForm(r archive.Report) jsonform.Value {
	var unfinished, problems []jsonform.Value
	for _, f := range r.Unfinished {
		unfinished = append(unfinished, jsonform.String(f))
	}
	for _, p := range r.Problems {
		problems = append(problems, jsonform.Object(
			jsonform.Field{Name: "file", Value: jsonform.String(p.File)}, jsonform.Field{Name: "error", Value: jsonform.String(p.Err.Error())}))
	}
	return jsonform.Object(
		jsonform.Field{Name: "archives", Value: jsonform.Number(float64(r.Archives))},
		jsonform.Field{Name: "tasks", Value: jsonform.Uint64(uint64(r.Tasks))},
		jsonform.Field{Name: "bytes", Value: jsonform.Uint64(r.Bytes)},
		jsonform.Field{Name: "records_bytes", Value: jsonform.Uint64(r.RecordsBytes)},
		jsonform.Field{Name: "unfinished", Value: jsonform.List(unfinished...)},
		jsonform.Field{Name: "problems", Value: jsonform.List(problems...)},
	)
}

func reportTable(w io.Writer, r archive.Report) {
	render.Pairs(w,
		[2]string{"archives", strconv.Itoa(r.Archives) + " as they were written"},
		[2]string{"tasks", render.Number(uint64(r.Tasks))},
		[2]string{"bytes", fmt.Sprintf("%s (%s uncompressed)", render.Number(r.Bytes), render.Number(r.RecordsBytes))},
		[2]string{"unfinished", strings.Join(r.Unfinished, "\n")},
	)
	if len(r.Problems) > 0 {
		fmt.Fprintln(w)
		g := render.NewGrid(false, "file", "problem")
		for _, p := range r.Problems {
			g.Row(p.File, render.Text([]byte(p.Err.Error()), 0))
		}
		g.Write(w)
	}
}
