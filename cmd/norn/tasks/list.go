package tasks

import (
	"io"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/cmd/norn/sheet"
	"github.com/norn-dev/norn/cmd/norn/terms"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// onePage is how many tasks `task list` shows unless told otherwise.
const onePage = 100

// listFilter reads --queue, --state and --filter.
func listFilter(queue string, states, filters []string) (client.Filter, error) {
	f, _, err := terms.Filter(filters, time.Now())
	switch {
	case err != nil:
		return f, cli.Usage("--filter: %w", err)
	case queue != "" && f.Queue != "" && queue != f.Queue:
		return f, cli.Usage("--queue and --filter name two queues; give one of them")
	case queue != "":
		f.Queue = queue
	}
	for _, name := range states {
		s, err := terms.State(name)
		if err != nil {
			return f, cli.Usage("--state: %w", err)
		}
		f.States = append(f.States, s)
	}
	return f, nil
}

func (a commands) list() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List tasks in the order of their IDs", Args: cobra.NoArgs,
		Long: `List tasks in the order of their IDs: one page of those that are not finished
and those that are dead, unless --state, --filter, --limit or --all ask for
others. The terms of a filter:

` + terms.FilterHelp,
		Example: "  norn task list -q mail\n  norn task list --filter queue=mail,error=timeout,older-than=2h\n  norn task list --state dead --limit 1000\n  norn task list --all -o jsonl | jq -r .state | sort | uniq -c",
	}
	queue := cmd.Flags().StringP("queue", "q", "", "of this `queue` only")
	states := cmd.Flags().StringSlice("state", nil, "in this `state` only (repeatable): waiting, scheduled, ready, claimed, completed, dead, cancelled")
	filters := cmd.Flags().StringArray("filter", nil, "with these `name=value` terms only (repeatable)")
	limit := cmd.Flags().Int("limit", onePage, "show no more than this")
	everything := cmd.Flags().Bool("all", false, "all pages, all states")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.NotEmpty(cmd, "queue", "state"); err != nil {
			return err
		}
		f, err := listFilter(*queue, *states, *filters)
		if err != nil {
			return err
		}
		f.Limit = *limit
		if *limit < 1 {
			return cli.Usage("--limit: %d is not over zero; --all shows everything", *limit)
		}
		if *everything {
			f.PageSize = 1000
			if !cmd.Flags().Changed("limit") {
				f.Limit = 0
			}
		} else if len(f.States) == 0 && f.FinishedBefore.IsZero() && f.FinishedAfter.IsZero() {
			f.States = []nornv1.State{
				nornv1.State_STATE_WAITING, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_READY,
				nornv1.State_STATE_CLAIMED, nornv1.State_STATE_DEAD,
			}
		}
		return a.With(cmd.Context(), func(c *client.Client) error {
			list := sheet.List(a.Writer()).None("no tasks")
			if !*everything && len(*states)+len(*filters) == 0 {
				list.None("no tasks that are unfinished or dead; --all shows the others too")
			}
			line := a.Progress("looked at")
			f.Looked = func(p client.Progress) { line.Set(p.LookedAt) }
			if f.Scans() {
				a.Note("terms on payloads have no index: the payloads of all tasks that the other terms leave are read")
			}
			var failed error
			for t, err := range c.List(cmd.Context(), f) {
				if err != nil {
					failed = err
					break
				}
				list.Add(t)
			}
			line.Clear()
			if err := list.Close(); failed == nil {
				failed = err
			}
			if failed == nil && f.Limit > 0 && list.Len() == f.Limit && !cmd.Flags().Changed("limit") && a.Format == render.Table {
				a.Note("the first %d; there may be more: --limit N, --all", f.Limit)
			}
			return failed
		})
	}
	return cmd
}

func (a commands) count() *cobra.Command {
	cmd := &cobra.Command{
		Use: "count", Short: "Count tasks by state", Args: cobra.NoArgs,
		Long: `Count tasks by state, from counters: it costs the same whatever the backlog.
With -q, -o json gives that queue's counts; without, the sums and "queues", an
array with those of every queue.`,
		Example: "  norn task count\n  norn task count -q mail -o json | jq -r .ready",
	}
	queue := cmd.Flags().StringP("queue", "q", "", "of this `queue` only")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := cli.NotEmpty(cmd, "queue"); err != nil {
			return err
		}
		return a.With(cmd.Context(), func(c *client.Client) error {
			m, err := c.Count(cmd.Context(), *queue)
			if err != nil {
				return err
			}
			total := m.GetTotal()
			if total == nil {
				total = &nornv1.Count{}
			}
			if *queue != "" {
				total.Queue = *queue
				return a.Writer().Object(jsonform.Of(total), func(w io.Writer) { countTable(w, total) })
			}
			v := jsonform.Of(total).With("queues", jsonform.ListOf(m.GetQueues()))
			rows := m.GetQueues()
			if len(rows) != 1 {
				rows = append(slices.Clip(rows), total)
			}
			return a.Writer().Object(v, func(w io.Writer) { countTable(w, rows...) })
		})
	}
	return cmd
}

func countTable(w io.Writer, counts ...*nornv1.Count) {
	g := render.NewGrid(false, "queue", "waiting", "scheduled", "ready", "claimed", "completed", "dead", "cancelled", "total")
	for _, c := range counts {
		name := c.GetQueue()
		if name == "" {
			name = "(all)"
		}
		row := []string{name}
		for _, n := range []uint64{c.GetWaiting(), c.GetScheduled(), c.GetReady(), c.GetClaimed(), c.GetCompleted(), c.GetDead(), c.GetCancelled(), c.GetTotal()} {
			row = append(row, render.Number(n))
		}
		g.Row(row...)
	}
	g.Write(w)
}
