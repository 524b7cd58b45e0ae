package tasks

import (
	"context"
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/cmd/norn/sheet"
	"github.com/norn-dev/norn/cmd/norn/terms"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Bulk act on tasks that are named by ID or by a filter.
type Bulk struct{ *cli.App }

// Action is what they do.
type Action struct {
	// Verb and Past are its name.
	Verb, Past string
	// states are those of a filter that names none.
	states []nornv1.State
	// some acts on tasks by ID, Where on those that a filter finds.
	some  func(context.Context, *client.Client, []id.ID) ([]client.Result, error)
	Where func(context.Context, *client.Client, client.Filter, client.BulkOptions) (client.Bulk, error)
}

// bulkFlags are the flags of such a command.
type bulkFlags struct {
	filters     []string
	dryRun, yes bool
}

// FewFirst is how many tasks a dry run shows.
const FewFirst = 10

func (f *bulkFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.filters, "filter", nil, "instead of IDs: all tasks with these `name=value` terms (repeatable)")
	cmd.Flags().BoolVar(&f.dryRun, "dry-run", false, "with --filter: say how many they are, show the first, and do nothing")
	cmd.Flags().BoolVar(&f.yes, "yes", false, "with --filter: really all tasks, where the filter has no term")
}

func (b Bulk) cancel() *cobra.Command {
	var f bulkFlags
	cmd := &cobra.Command{
		Use: "cancel {ID… | --filter TERMS}", Short: "Cancel tasks",
		Long: `Cancel tasks, by ID or all that a filter finds. A completed task cannot be
cancelled; one that runs can: its worker hears of it when it renews its claim, and
should it complete the task before, the completion counts.

By ID, -o json prints a list of {id, state, existed}, where existed means that it
was cancelled before. What is refused is told on standard error; the exit code is
5 when one of the tasks is completed, else 3 when one is not known.

With --filter, which without a state means tasks that are not finished, -o json
prints {matched, done, skipped}. Skipped are tasks whose state changed meanwhile.
The terms of a filter:

` + terms.FilterHelp,
		Example: `  norn task cancel 3ZyfAz4TTlNLdMEJYWbpzCDKw1p
  norn task cancel --filter queue=mail,older-than=2h --dry-run
  norn task cancel --filter 'queue=mail,state=ready,header.campaign=spring' --reason 'wrong text'`,
	}
	f.add(cmd)
	reason := cmd.Flags().String("reason", "", "shown as the tasks' error")
	level := durabilityLevel(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		copies, err := level()
		if err != nil {
			return err
		}
		return b.run(cmd, args, &f, Action{
			Verb: "cancel", Past: "cancelled",
			states: []nornv1.State{nornv1.State_STATE_WAITING, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_READY, nornv1.State_STATE_CLAIMED},
			some: func(ctx context.Context, c *client.Client, ids []id.ID) ([]client.Result, error) {
				return c.Cancel(ctx, ids, client.CancelOptions{Reason: *reason}, client.WithDurability(copies))
			},
			Where: func(ctx context.Context, c *client.Client, f client.Filter, o client.BulkOptions) (client.Bulk, error) {
				o.Reason, o.Durability = *reason, copies
				return c.CancelWhere(ctx, f, o)
			},
		})
	}
	return cmd
}

func (b Bulk) retry() *cobra.Command {
	var f bulkFlags
	cmd := &cobra.Command{
		Use: "retry {ID… | --filter TERMS}", Short: "Run tasks again that are dead or wait for their next attempt",
		Long: `Give tasks a new run of attempts, at once: dead ones, those that a dependency has
cancelled, and those that wait for their next attempt. By ID, or all that a
filter finds.

By ID, -o json prints a list of {id, state, existed}, where existed means that
there was nothing to do: the task is ready, waits for dependencies, or runs. What
is refused is told on standard error; the exit code is 5 when one of the tasks is
completed or was cancelled on purpose, else 3 when one is not known.

With --filter, which without a state means dead tasks, -o json prints {matched,
done, skipped}. Skipped are tasks whose state changed meanwhile, or does not allow
it. The terms of a filter:

` + terms.FilterHelp,
		Example: `  norn task retry 3ZyfAz4TTlNLdMEJYWbpzCDKw1p
  norn task retry --filter queue=mail,error=timeout --dry-run
  norn task retry --filter queue=mail,state=dead,finished-after=2030-01-31`,
	}
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return b.run(cmd, args, &f, Action{
			Verb: "retry", Past: "retried", states: []nornv1.State{nornv1.State_STATE_DEAD},
			some: func(ctx context.Context, c *client.Client, ids []id.ID) ([]client.Result, error) {
				return c.Retry(ctx, ids)
			},
			Where: func(ctx context.Context, c *client.Client, f client.Filter, o client.BulkOptions) (client.Bulk, error) {
				return c.RetryWhere(ctx, f, o)
			},
		})
	}
	return cmd
}

// run acts by ID or by filter, whichever was given.
func (b Bulk) run(cmd *cobra.Command, args []string, f *bulkFlags, act Action) error {
	byFilter := cmd.Flags().Changed("filter")
	switch {
	case byFilter && len(args) > 0:
		return cli.Usage("give IDs or --filter, not both")
	case !byFilter && len(args) == 0:
		return cli.Usage("no task; give IDs, or --filter")
	case !byFilter && f.dryRun:
		return cli.Usage("--dry-run: it needs --filter")
	}
	if byFilter {
		filter, n, err := terms.Filter(f.filters, time.Now())
		switch {
		case err != nil:
			return cli.Usage("--filter: %w", err)
		case n == 0 && !f.yes && !f.dryRun:
			return cli.Usage("--filter: without a term it is about all tasks of all queues; add --yes if that is meant")
		case len(filter.States) == 0:
			filter.States = act.states
		}
		return b.With(cmd.Context(), func(c *client.Client) error { return b.ByFilter(cmd.Context(), c, filter, f.dryRun, act) })
	}
	var ids []id.ID
	for _, arg := range args {
		i, err := cli.ParseID(arg)
		if err != nil {
			return err
		}
		ids = append(ids, i)
	}
	return b.With(cmd.Context(), func(c *client.Client) error { return b.byID(cmd.Context(), c, ids, act) })
}

// byID prints what became of each task.
func (b Bulk) byID(ctx context.Context, c *client.Client, ids []id.ID, act Action) error {
	list := outcomeList(b.Writer())
	results, err := act.some(ctx, c, ids)
	worst := 0
	for _, r := range results {
		if r.Err == nil {
			list.Add(r)
			continue
		}
		if errors.Is(r.Err, client.ErrUnknown) {
			r.Err = fmt.Errorf("%w; its ID is %s", r.Err, r.ID)
		}
		worst = max(worst, cli.ExitCode(r.Err))
		b.Complain(cli.Message(r.Err))
	}
	if closed := list.Close(); err == nil {
		err = closed
	}
	if err == nil && worst > 0 {
		err = cli.Reported{Code: worst}
	}
	return err
}

func outcomeList(w *render.Writer) *render.List[client.Result] {
	return render.NewList(w, func(r client.Result) jsonform.Value {
		return jsonform.Object(
			jsonform.Field{Name: "id", Value: jsonform.String(r.ID.String())},
			jsonform.Field{Name: "state", Value: jsonform.String(jsonform.EnumName(r.State))},
			jsonform.Field{Name: "existed", Value: jsonform.Bool(r.Receipt.GetExisted())},
		)
	},
		render.Column[client.Result]{Head: "id", Cell: func(r client.Result) string { return r.ID.String() }},
		render.Column[client.Result]{Head: "state", Cell: func(r client.Result) string { return jsonform.EnumName(r.State) }},
		render.Column[client.Result]{Head: "note", Cell: func(r client.Result) string {
			if r.Receipt.GetExisted() {
				return "it was before"
			}
			return ""
		}},
	)
}

// ByFilter prints how many tasks it was about.
func (b Bulk) ByFilter(ctx context.Context, c *client.Client, f client.Filter, dryRun bool, act Action) error {
	if dryRun && b.Format == render.Table {
		if err := b.first(ctx, c, f); err != nil {
			return err
		}
	}
	progress, total := b.Progress(act.Past), 0
	if progress != nil && !dryRun {
		total = expected(ctx, c, f)
	}
	did, err := act.Where(ctx, c, f, client.BulkOptions{DryRun: dryRun, Progress: func(n client.Bulk) {
		if dryRun {
			progress.Stage("found", int(n.Matched), 0)
			return
		}
		done := int(n.Done + n.Skipped)
		progress.Stage(act.Past, done, max(total, done))
	}})
	progress.Clear()
	if err != nil && did == (client.Bulk{}) {
		return err
	}
	return errors.Join(b.bulkCounts(did, dryRun, act), err)
}

// bulkCounts prints the counts.
func (b Bulk) bulkCounts(n client.Bulk, dryRun bool, act Action) error {
	return b.Writer().Object(BulkJSON(n), func(w io.Writer) {
		switch {
		case dryRun:
			fmt.Fprintf(w, "would %s %s (dry run)\n", act.Verb, cli.Tasks(n.Matched))
		case n.Skipped > 0:
			fmt.Fprintf(w, "%s %s, skipped %s whose state had changed or does not allow it\n", act.Past, cli.Tasks(n.Done), cli.Tasks(n.Skipped))
		default:
			fmt.Fprintf(w, "%s %s\n", act.Past, cli.Tasks(n.Done))
		}
	})
}

// first shows the first few tasks of a filter.
func (b Bulk) first(ctx context.Context, c *client.Client, f client.Filter) error {
	f.Limit = FewFirst
	list := sheet.List(b.Writer()).None("no tasks")
	for t, err := range c.List(ctx, f) {
		if err != nil {
			return errors.Join(list.Close(), err)
		}
		list.Add(t)
	}
	return list.Close()
}

// expected is about how many tasks a filter finds, where the counters tell; 0:
// it is not known.
func expected(ctx context.Context, c *client.Client, f client.Filter) int {
	if !reflect.DeepEqual(f, client.Filter{Queue: f.Queue, States: f.States}) {
		return 0
	}
	m, err := c.Count(ctx, f.Queue)
	if err != nil {
		return 0 // it is for the progress only
	}
	n, total := m.GetTotal(), uint64(0)
	for _, s := range f.States {
		total += [...]uint64{
			nornv1.State_STATE_WAITING: n.GetWaiting(), nornv1.State_STATE_SCHEDULED: n.GetScheduled(), nornv1.State_STATE_READY: n.GetReady(),
			nornv1.State_STATE_CLAIMED: n.GetClaimed(), nornv1.State_STATE_COMPLETED: n.GetCompleted(), nornv1.State_STATE_DEAD: n.GetDead(),
			nornv1.State_STATE_CANCELLED: n.GetCancelled(),
		}[s]
	}
	return int(total)
}

// BulkJSON are the counts of an action on many.
func BulkJSON(n client.Bulk) jsonform.Value {
	return jsonform.Object(
		jsonform.Field{Name: "matched", Value: jsonform.Uint64(n.Matched)},
		jsonform.Field{Name: "done", Value: jsonform.Uint64(n.Done)},
		jsonform.Field{Name: "skipped", Value: jsonform.Uint64(n.Skipped)},
	)
}
