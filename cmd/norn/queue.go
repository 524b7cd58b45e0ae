package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/cmd/norn/terms"
	"github.com/norn-dev/norn/cmd/norn/top"
	"github.com/norn-dev/norn/node/config"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// queueCommands read and change queues.
type queueCommands struct{ *app }

func (q queueCommands) commands() *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "queue", Short: "Show, pause, drain, purge, delete and set up queues", Aliases: []string{"queues"},
		Long: `Show, pause, drain, purge, delete and set up queues. A queue needs no making: it is
there as soon as it has a task or a setting.`,
		Example: "  norn queue list\n  norn queue pause mail --note 'provider is down'",
	})
	cmd.AddCommand(q.list(), q.get(), q.set(), q.pause(), q.resume(), q.drain(), q.purge(), q.delete())
	return cmd
}

// queueChoice is which queues are listed, and in which order.
type queueChoice struct {
	contains, sort string
	reverse        bool
	limit          int
}

// mostRanked is how many queues a node gives in an order at once.
const mostRanked = 1000

// queueOrders are what queues are put in order by, as it is written.
var queueOrders = func() (all map[string]nornv1.QueueOrder) {
	all = map[string]nornv1.QueueOrder{"name": nornv1.QueueOrder_QUEUE_ORDER_UNSPECIFIED}
	for n, name := range nornv1.QueueOrder_name {
		if n != 0 {
			all[strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "QUEUE_ORDER_")), "_", "-")] = nornv1.QueueOrder(n)
		}
	}
	return all
}()

// queueOrderNames are those, for people.
func queueOrderNames() []string { return slices.Sorted(maps.Keys(queueOrders)) }

func (q queueCommands) list() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List queues with their counts", Args: cobra.NoArgs,
		Long: `List queues with their counts, by name. --contains, --sort and --limit have a node choose
and order them, as the dashboard does: of 10,000 queues only those that are shown come.`,
		Example: "  norn queue list\n  norn queue list --watch\n  norn queue list --contains mail --sort ready --limit 20\n" +
			"  norn queue list -o json | jq -r '.[] | select(.settings.paused) | .name'",
	}
	var choice queueChoice
	watch := cmd.Flags().Bool("watch", false, "show the list again and again, until q")
	every := cmd.Flags().Duration("interval", 2*time.Second, "with --watch: how often")
	cmd.Flags().StringVar(&choice.contains, "contains", "", "only those with this `text` in their names, in any case of letters")
	cmd.Flags().StringVar(&choice.sort, "sort", "name", "the largest `field` first: "+strings.Join(queueOrderNames(), ", ")+"; name is from a to z")
	cmd.Flags().BoolVar(&choice.reverse, "reverse", false, "in the other order")
	cmd.Flags().IntVarP(&choice.limit, "limit", "n", 0, "so many at most; 0 is all, and 1,000 with --contains, --sort or --reverse")
	_ = cmd.RegisterFlagCompletionFunc("sort", cli.CompleteWords(queueOrderNames()...))
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, known := queueOrders[choice.sort]; !known {
			return cli.Usage("--sort: %q is none of %s", choice.sort, strings.Join(queueOrderNames(), ", "))
		}
		if choice.limit < 0 || choice.limit > mostRanked {
			return cli.Usage("--limit: %d is outside 0 to %d", choice.limit, mostRanked)
		}
		return q.With(cmd.Context(), func(c *client.Client) error {
			show := func(ctx context.Context, w *render.Writer) error {
				queues, err := q.chosen(ctx, c, choice)
				list := queueList(w).None("no queues yet: one is there as soon as it has a task or a setting")
				if choice.contains != "" {
					list.None("no queue has that in its name")
				}
				for _, found := range queues {
					list.Add(found)
				}
				if closed := list.Close(); err == nil {
					err = closed
				}
				return err
			}
			switch {
			case !*watch:
				return show(cmd.Context(), q.Writer())
			case q.Format != render.Table:
				return cli.Usage("--watch: it is for people; leave out -o %s", q.Output)
			}
			return top.Watch(cmd.Context(), q.topHost(), *every, func(ctx context.Context, w io.Writer) error {
				return show(ctx, render.New(w, q.Format, !q.NoColor))
			})
		})
	}
	return cmd
}

// chosen reads the queues of a choice, and says where those are not all.
func (q queueCommands) chosen(ctx context.Context, c *client.Client, o queueChoice) ([]*nornv1.Queue, error) {
	by := queueOrders[o.sort]
	name := by == nornv1.QueueOrder_QUEUE_ORDER_UNSPECIFIED
	if o.contains == "" && name && !o.reverse && o.limit == 0 {
		return c.Queues().List(ctx)
	}
	m, err := c.Queues().Rank(ctx, client.QueueOrder{Contains: o.contains, By: by, Descending: name == o.reverse, Limit: cmp.Or(o.limit, mostRanked)})
	switch shown := len(m.GetQueues()); {
	case err != nil:
		return nil, err
	case m.GetCut():
		q.Note("there are more queues than a node looks through; the order is of the first ones by name")
	case uint64(shown) < m.GetFound():
		q.Note("%d of %d queues; --limit gives up to %d", shown, m.GetFound(), mostRanked)
	}
	return m.GetQueues(), nil
}

func queueList(w *render.Writer) *render.List[*nornv1.Queue] {
	count := func(head string, n func(*nornv1.Count) uint64) render.Column[*nornv1.Queue] {
		return render.Column[*nornv1.Queue]{Head: head, Cell: func(q *nornv1.Queue) string { return render.Number(n(q.GetCount())) }}
	}
	return render.NewList(w, func(q *nornv1.Queue) jsonform.Value { return jsonform.Of(q) },
		render.Column[*nornv1.Queue]{Head: "queue", Cell: (*nornv1.Queue).GetName},
		render.Column[*nornv1.Queue]{Head: "state", Cell: openness},
		count("waiting", (*nornv1.Count).GetWaiting), count("scheduled", (*nornv1.Count).GetScheduled), count("ready", (*nornv1.Count).GetReady),
		count("claimed", (*nornv1.Count).GetClaimed), count("completed", (*nornv1.Count).GetCompleted), count("dead", (*nornv1.Count).GetDead),
		count("cancelled", (*nornv1.Count).GetCancelled),
		render.Column[*nornv1.Queue]{Head: "oldest ready", Cell: oldestReady},
		render.Column[*nornv1.Queue]{Head: "note", Cell: func(q *nornv1.Queue) string { return render.Text([]byte(q.GetSettings().GetNote()), 40) }},
	)
}

// openness says whether a queue is paused or draining.
func openness(q *nornv1.Queue) string {
	switch s := q.GetSettings(); {
	case s.GetPaused() && s.GetDraining():
		return "paused, draining"
	case s.GetPaused():
		return "paused"
	case s.GetDraining():
		return "draining"
	}
	return "open"
}

func oldestReady(q *nornv1.Queue) string {
	if q.GetCount().GetReady() == 0 {
		return ""
	}
	return render.Duration(proto.Seconds(q.GetOldestReadySeconds()).Round(time.Second))
}

func (q queueCommands) get() *cobra.Command {
	return q.one(&cobra.Command{
		Use: "get QUEUE", Short: "Show a queue with its settings",
		Long: `Show a queue with its counts and settings. In -o json, settings are what was set
for it and effective is what holds, with the server's configuration filled in.`,
		Example: "  norn queue get mail\n  norn queue get mail -o json | jq .effective.retry",
	}, func(ctx context.Context, c *client.Client, name string) (*nornv1.Queue, error) {
		return c.Queues().Get(ctx, name)
	})
}

// one completes a command about one queue, which it shows in the end.
func (q queueCommands) one(cmd *cobra.Command, do func(context.Context, *client.Client, string) (*nornv1.Queue, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), q.completeOne
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return q.about(cmd.Context(), args[0], func(c *client.Client) error {
			found, err := do(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return q.Writer().Object(jsonform.Of(found), func(w io.Writer) { queueSheet(w, found) })
		})
	}
	return cmd
}

// about checks the name of a queue and dials.
func (q queueCommands) about(ctx context.Context, name string, do func(*client.Client) error) error {
	if err := proto.CheckQueue(name); err != nil {
		return cli.UsageError{Err: err}
	}
	return q.With(ctx, do)
}

// queueSheet shows one queue to people.
func queueSheet(w io.Writer, q *nornv1.Queue) {
	n := q.GetCount()
	var counts []string
	for _, c := range []struct {
		name string
		n    uint64
	}{
		{"waiting", n.GetWaiting()}, {"scheduled", n.GetScheduled()}, {"ready", n.GetReady()}, {"claimed", n.GetClaimed()},
		{"completed", n.GetCompleted()}, {"dead", n.GetDead()}, {"cancelled", n.GetCancelled()},
	} {
		if c.n > 0 {
			counts = append(counts, render.Number(c.n)+" "+c.name)
		}
	}
	if len(counts) == 0 {
		counts = []string{"none"}
	}
	render.Pairs(w,
		[2]string{"queue", q.GetName()}, [2]string{"state", openness(q)}, [2]string{"tasks", strings.Join(counts, ", ")},
		[2]string{"oldest ready", oldestReady(q)}, [2]string{"requests waiting", fmt.Sprint(q.GetWaitingClaims())},
	)
	fmt.Fprintln(w)
	g := render.NewGrid(false, "setting", "value", "from")
	for _, s := range terms.Show(q.GetEffective(), q.GetSettings()) {
		value, from := render.Text([]byte(s.Value), 100), "server"
		if s.Set {
			from = "queue"
		}
		if s.Value == "" {
			value, from = "-", ""
		}
		g.Row(s.Name, value, from)
	}
	g.Write(w)
}

func (q queueCommands) set() *cobra.Command {
	cmd := &cobra.Command{
		Use: "set QUEUE KEY=VALUE…", Short: "Change settings of a queue", Args: cobra.MinimumNArgs(2), ValidArgsFunction: q.completeSet,
		Long: `Change settings of a queue, all at once or not at all, and show it. The others
stay as they are. The queue need not have tasks yet.

` + terms.SettingsHelp,
		Example: "  norn queue set mail max-attempts=5 retry-initial=10s lease=2m\n  norn queue set mail retention=7d note='kept for the audit'\n  norn queue set mail lease=",
	}
	version := cmd.Flags().Uint64("if-version", 0, "change nothing unless the settings are at this `version`, as shown by get -o json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("if-version") && *version == 0 {
			return cli.Usage("--if-version: 0 is the version of a queue that has no settings yet, and cannot be asked for; leave it out to change whatever is there")
		}
		change, err := terms.Settings(args[1:])
		if err != nil {
			return cli.UsageError{Err: err}
		}
		change.IfVersion = *version
		return q.about(cmd.Context(), args[0], func(c *client.Client) error {
			found, err := c.Queues().Set(cmd.Context(), args[0], change)
			if err != nil {
				return err
			}
			return q.Writer().Object(jsonform.Of(found), func(w io.Writer) { queueSheet(w, found) })
		})
	}
	return cmd
}

func (q queueCommands) pause() *cobra.Command {
	var note string
	cmd := q.one(&cobra.Command{
		Use: "pause QUEUE", Short: "Hand out no more tasks of a queue",
		Long:    "Hand out no more tasks of a queue. Enqueues go on, and what runs goes on too.",
		Example: "  norn queue pause mail --note 'provider is down, see incident 12'",
	}, func(ctx context.Context, c *client.Client, name string) (*nornv1.Queue, error) {
		found, err := c.Queues().Pause(ctx, name, note)
		if err == nil {
			q.noteNew(ctx, c, found)
		}
		return found, err
	})
	cmd.Flags().StringVar(&note, "note", "", "why, for other operators")
	return cmd
}

// noteNew says that a queue that was just set up had neither tasks nor settings before, and
// which known one is most like it: its name may be a slip.
func (q queueCommands) noteNew(ctx context.Context, c *client.Client, found *nornv1.Queue) {
	if n := found.GetCount(); found.GetVersion() > 1 || n.GetTotal() > 0 {
		return
	}
	text := "new queue: it has no tasks"
	if all, err := c.Queues().List(ctx); err == nil { // it is a help, nothing depends on it
		var known []string
		for _, other := range all {
			if other.GetName() != found.GetName() {
				known = append(known, other.GetName())
			}
		}
		if near := config.Nearest(found.GetName(), known); near != "" && config.Alike(found.GetName(), near) {
			text += "; did you mean " + near + "?"
		}
	}
	q.Note("%s", text)
}

func (q queueCommands) drain() *cobra.Command {
	var note string
	cmd := q.one(&cobra.Command{
		Use: "drain QUEUE", Short: "Take no more tasks into a queue",
		Long:    "Take no more tasks into a queue: enqueues are refused, with exit code 5. Those\nthat are there are handed out.",
		Example: "  norn queue drain mail --note 'replaced by mail-v2'",
	}, func(ctx context.Context, c *client.Client, name string) (*nornv1.Queue, error) {
		return c.Queues().Drain(ctx, name, note)
	})
	cmd.Flags().StringVar(&note, "note", "", "why, for other operators")
	return cmd
}

func (q queueCommands) resume() *cobra.Command {
	return q.one(&cobra.Command{
		Use: "resume QUEUE", Short: "End pause and drain of a queue",
		Long:    "End both pause and drain of a queue, and take the note away. Exit code 3 says that\nthere is no queue of the name: it has neither tasks nor settings.",
		Example: "  norn queue resume mail",
	}, func(ctx context.Context, c *client.Client, name string) (*nornv1.Queue, error) {
		return c.Queues().Resume(ctx, name)
	})
}
