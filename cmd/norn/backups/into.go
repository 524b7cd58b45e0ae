package backups

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/backup/job"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto/jsonform"
)

// intoFlags are those of restore into a cluster that is in use.
type intoFlags struct {
	prefix, report string
	skip           bool
	grace          time.Duration
}

func (n *intoFlags) flags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&n.prefix, "prefix", "", "into a cluster in use: put this before the names of queues, and give all tasks new IDs")
	f.BoolVar(&n.skip, "skip-existing", false, "into another cluster in use: keep IDs, and leave tasks alone that are there; keyed tasks are named as their keys say there")
	f.DurationVar(&n.grace, "gc-grace", 168*time.Hour, "that of the cluster: from a backup that is older only --prefix takes tasks")
	f.StringVar(&n.report, "report", "", "write to this `FILE`, which must not exist yet, what became of each task, as lines of JSON")
	cmd.MarkFlagsMutuallyExclusive("prefix", "skip-existing")
}

func (n *intoFlags) asked() bool { return n.prefix != "" || n.skip }

// maxLeftOut bounds the tasks that are named on the terminal.
const maxLeftOut = 100

// into enqueues unfinished tasks of a backup in a cluster in use.
func (b commands) into(cmd *cobra.Command, c *client.Client, from source, keys *job.Keys, g *giveFlags) (err error) {
	o := job.IntoOptions{From: from, Manifest: from.m, To: c, Keys: keys, Prefix: g.into.prefix, Grace: g.into.grace, DryRun: g.dryRun, Now: time.Now, Progress: b.stages("parts")}
	lines := io.Discard
	if g.into.report != "" {
		out, bad := os.OpenFile(g.into.report, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if bad != nil {
			return bad
		}
		defer func() { err = errors.Join(err, out.Close()) }()
		lines = out
	}
	buffered := bufio.NewWriter(lines)
	var left []string
	o.Told = func(old, now id.ID, why string) {
		fields := []jsonform.Field{{Name: "old", Value: jsonform.String(old.String())}}
		if now.IsZero() {
			if len(left) < maxLeftOut {
				left = append(left, old.String()+": "+why)
			}
		} else {
			fields = append(fields, jsonform.Field{Name: "new", Value: jsonform.String(now.String())})
		}
		if why != "" {
			fields = append(fields, jsonform.Field{Name: "note", Value: jsonform.String(why)})
		}
		_, _ = buffered.Write(jsonform.Object(fields...).Line()) // its error stays for Flush
	}
	r, err := job.Into(cmd.Context(), o)
	if err = errors.Join(err, buffered.Flush()); err != nil {
		return err
	}
	var named []jsonform.Value
	for _, text := range left {
		named = append(named, jsonform.String(text))
	}
	fields := []jsonform.Field{
		{Name: "backup", Value: jsonform.String(from.m.Name)}, {Name: "dry_run", Value: jsonform.Bool(g.dryRun)},
		{Name: "tasks", Value: jsonform.Uint64(r.Tasks)}, {Name: "finished", Value: jsonform.Uint64(r.Finished)}, {Name: "enqueued", Value: jsonform.Uint64(r.Enqueued)},
		{Name: "existed", Value: jsonform.Uint64(r.Existed)}, {Name: "left_out", Value: jsonform.Uint64(r.LeftOut)}, {Name: "left_out_tasks", Value: jsonform.List(named...)},
	}
	return b.Writer().Object(jsonform.Object(fields...), func(w io.Writer) {
		were := "were"
		if g.dryRun {
			were = "would be"
		}
		_, _ = fmt.Fprintf(w, "%s tasks of %s %s enqueued, %s were there, %s are finished, %s %s left out\n",
			render.Number(r.Enqueued), from.m.Name, were, render.Number(r.Existed), render.Number(r.Finished), render.Number(r.LeftOut), were)
		if len(left) > 0 {
			_, _ = fmt.Fprintf(w, "  %s\n", strings.Join(left, "\n  "))
		}
	})
}
