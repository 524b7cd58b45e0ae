package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/cmd/norn/tasks"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// manyQueues are the flags of a command about one queue, or all with a prefix.
type manyQueues struct {
	prefix      string
	dryRun, yes bool
}

func (m *manyQueues) add(cmd *cobra.Command, verb string) {
	cmd.Args = cobra.MaximumNArgs(1)
	cmd.Flags().StringVar(&m.prefix, "prefix", "", "instead of QUEUE: all queues whose names begin with this `text`")
	cmd.Flags().BoolVar(&m.dryRun, "dry-run", false, "say how many they are, show the first, and do nothing")
	cmd.Flags().BoolVar(&m.yes, "yes", false, "yes, "+verb+" them")
}

// check judges which of both is meant, and tells whether it is the prefix.
func (m *manyQueues) check(cmd *cobra.Command, args []string) (byPrefix bool, err error) {
	byPrefix = cmd.Flags().Changed("prefix")
	switch {
	case byPrefix && len(args) > 0:
		return true, cli.Usage("give a queue or --prefix, not both")
	case byPrefix && m.prefix == "":
		return true, cli.Usage("--prefix: an empty one would be about all queues; name them one by one")
	case !byPrefix && len(args) == 0:
		return false, cli.Usage("no queue; give its name, or --prefix")
	}
	return byPrefix, nil
}

// with are the queues whose names begin with the prefix.
func (m *manyQueues) with(ctx context.Context, c *client.Client) (some []*nornv1.Queue, err error) {
	all, err := c.Queues().List(ctx)
	for _, found := range all {
		if strings.HasPrefix(found.GetName(), m.prefix) {
			some = append(some, found)
		}
	}
	return some, err
}

// show lists the first of some queues, for people who try it out.
func (q queueCommands) show(some []*nornv1.Queue) error {
	if q.Format != render.Table {
		return nil
	}
	list := queueList(q.Writer()).None("no queues")
	for _, found := range some[:min(len(some), tasks.FewFirst)] {
		list.Add(found)
	}
	return list.Close()
}

// purgeable is how many tasks of a queue a purge cancels.
func purgeable(q *nornv1.Queue) uint64 {
	n := q.GetCount()
	return n.GetWaiting() + n.GetScheduled() + n.GetReady()
}

func (q queueCommands) purge() *cobra.Command {
	var m manyQueues
	cmd := &cobra.Command{
		Use: "purge {QUEUE | --prefix TEXT} --yes", Short: "Cancel all tasks of queues that are not running", ValidArgsFunction: q.completeOne,
		Long: `Cancel all tasks of a queue that are waiting, scheduled or ready, or of all queues
whose names begin with a prefix. Those that run, are finished or dead are left
alone, and so are those that are enqueued later than eta (5s unless configured)
after its start: pause or drain the queue to keep it empty. Without settings and
unfinished tasks its name counts no more after a minute (max-queues); queue delete
takes it off the list. -o json prints {matched, done, skipped}.`,
		Example: "  norn queue purge mail --dry-run\n  norn queue purge mail --yes\n  norn queue purge --prefix test- --dry-run",
	}
	m.add(cmd, "cancel")
	reason := cmd.Flags().String("reason", "purged", "shown as the tasks' error")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		byPrefix, err := m.check(cmd, args)
		switch {
		case err != nil:
			return err
		case !m.yes && !m.dryRun && byPrefix:
			return cli.Usage("it cancels every task that is not running of every queue whose name begins with %s; add --yes if that is meant, or --dry-run", m.prefix)
		case !m.yes && !m.dryRun:
			return cli.Usage("it cancels every task of %s that is not running; add --yes if that is meant, or --dry-run", args[0])
		}
		if byPrefix {
			return q.app.With(cmd.Context(), func(c *client.Client) error { return q.purgeAll(cmd.Context(), c, &m, *reason) })
		}
		act := tasks.Action{Verb: "cancel", Past: "cancelled", Where: func(ctx context.Context, c *client.Client, f client.Filter, o client.BulkOptions) (client.Bulk, error) {
			o.Reason = *reason
			return c.Queues().Purge(ctx, f.Queue, o)
		}}
		f := client.Filter{Queue: args[0], States: []nornv1.State{nornv1.State_STATE_WAITING, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_READY}}
		return q.about(cmd.Context(), args[0], func(c *client.Client) error {
			return tasks.Bulk{App: q.App}.ByFilter(cmd.Context(), c, f, m.dryRun, act)
		})
	}
	return cmd
}

// purgeAll purges the queues with a prefix, one after the other.
func (q queueCommands) purgeAll(ctx context.Context, c *client.Client, m *manyQueues, reason string) error {
	all, err := m.with(ctx, c)
	if err != nil {
		return err
	}
	var some []*nornv1.Queue
	var sum client.Bulk
	for _, found := range all {
		if n := purgeable(found); n > 0 {
			some, sum.Matched = append(some, found), sum.Matched+n
		}
	}
	if m.dryRun {
		if err := q.show(some); err != nil {
			return err
		}
		return q.manyCounts(sum, fmt.Sprintf("would cancel %s of %s (dry run)", cli.Tasks(sum.Matched), queues(len(some))))
	}
	progress, total := q.Progress("cancelled"), int(sum.Matched)
	sum = client.Bulk{}
	for _, found := range some {
		one, failed := c.Queues().Purge(ctx, found.GetName(), client.BulkOptions{Reason: reason, Progress: func(n client.Bulk) {
			done := int(sum.Done + sum.Skipped + n.Done + n.Skipped)
			progress.Stage("cancelled", done, max(total, done))
		}})
		sum = client.Bulk{Matched: sum.Matched + one.Matched, Done: sum.Done + one.Done, Skipped: sum.Skipped + one.Skipped}
		if failed != nil {
			err = fmt.Errorf("queue %s: %w", found.GetName(), failed)
			break
		}
	}
	progress.Clear()
	text := fmt.Sprintf("cancelled %s of %s", cli.Tasks(sum.Done), queues(len(some)))
	if sum.Skipped > 0 {
		text += fmt.Sprintf(", skipped %s whose state had changed", cli.Tasks(sum.Skipped))
	}
	return errors.Join(q.manyCounts(sum, text), err)
}

func (q queueCommands) delete() *cobra.Command {
	var m manyQueues
	cmd := &cobra.Command{
		Use: "delete {QUEUE | --prefix TEXT --yes}", Short: "Delete queues that have no unfinished tasks", ValidArgsFunction: q.completeOne,
		Long: `Delete a queue, or all queues whose names begin with a prefix: the settings, the
tasks that are finished, whatever their retention, and the name. It is back with
the next task. Where the server keeps or archives finished tasks (retention), it
keeps or archives these, too.

A queue with unfinished tasks is refused, with exit code 5: purge it first, and
wait for what is running. With --prefix the others are deleted. Exit code 3 says
that there is no such queue. -o json prints {matched, done, skipped}.`,
		Example: "  norn queue delete mail-v1\n  norn queue purge --prefix test- --yes && norn queue delete --prefix test- --yes",
	}
	m.add(cmd, "delete")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		byPrefix, err := m.check(cmd, args)
		switch {
		case err != nil:
			return err
		case byPrefix && !m.yes && !m.dryRun:
			return cli.Usage("it deletes every queue whose name begins with %s and that has no unfinished tasks; add --yes if that is meant, or --dry-run", m.prefix)
		case !byPrefix:
			if err := proto.CheckQueue(args[0]); err != nil {
				return cli.UsageError{Err: err}
			}
		}
		return q.app.With(cmd.Context(), func(c *client.Client) error {
			if byPrefix {
				some, err := m.with(cmd.Context(), c)
				if err != nil {
					return err
				}
				return q.deleteAll(cmd.Context(), c, some, m.dryRun)
			}
			if m.dryRun {
				found, err := c.Queues().Get(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return q.deleteAll(cmd.Context(), c, []*nornv1.Queue{found}, true)
			}
			if err := c.Queues().Delete(cmd.Context(), args[0]); err != nil {
				return err
			}
			return q.manyCounts(client.Bulk{Matched: 1, Done: 1}, "deleted "+args[0])
		})
	}
	return cmd
}

// deleteAll deletes queues, but for those that have unfinished tasks.
func (q queueCommands) deleteAll(ctx context.Context, c *client.Client, all []*nornv1.Queue, dryRun bool) error {
	var some []*nornv1.Queue
	sum := client.Bulk{Matched: uint64(len(all))}
	for _, found := range all {
		if purgeable(found)+found.GetCount().GetClaimed() > 0 {
			sum.Skipped++
		} else {
			some = append(some, found)
		}
	}
	left := func() string {
		if sum.Skipped == 0 {
			return ""
		}
		return fmt.Sprintf(", not %s with unfinished tasks; purge first, and wait for what is running", queues(int(sum.Skipped)))
	}
	if dryRun {
		if err := q.show(some); err != nil {
			return err
		}
		return q.manyCounts(sum, fmt.Sprintf("would delete %s%s (dry run)", queues(len(some)), left()))
	}
	var failed error
	progress := q.Progress("deleted")
	for _, found := range some {
		progress.Stage("deleted", int(sum.Done), len(some))
		switch err := c.Queues().Delete(ctx, found.GetName()); {
		case err == nil, errors.Is(err, client.ErrNotFound): // somebody else has
			sum.Done++
		case errors.Is(err, client.ErrConflict): // a task has come
			sum.Skipped++
		default:
			failed = fmt.Errorf("queue %s: %w", found.GetName(), err)
		}
		if failed != nil {
			break
		}
	}
	progress.Clear()
	err := errors.Join(q.manyCounts(sum, fmt.Sprintf("deleted %s%s", queues(int(sum.Done)), left())), failed)
	if err == nil && sum.Skipped > 0 {
		err = cli.Reported{Code: cli.ExitConflict}
	}
	return err
}

// manyCounts prints counts, in words to people.
func (q queueCommands) manyCounts(n client.Bulk, words string) error {
	return q.Writer().Object(tasks.BulkJSON(n), func(w io.Writer) { fmt.Fprintln(w, words) })
}

func queues(n int) string {
	if n == 1 {
		return "1 queue"
	}
	return render.Number(uint64(n)) + " queues"
}
