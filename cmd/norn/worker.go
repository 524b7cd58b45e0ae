package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// workerCommands show and stop workers that keep sessions.
type workerCommands struct{ *app }

func (w workerCommands) commands() *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "worker", Short: "Show, drain and stop workers", Aliases: []string{"workers"},
		Long: `Show, drain and stop workers that keep a session: norn work, and programs with
the Go package client/worker. Those that only ask for tasks are not known as
workers; their names are in the claims of the tasks they run.`,
		Example: "  norn worker list\n  norn worker drain billing-3",
	})
	cmd.AddCommand(w.list(), w.drain(), w.kill())
	return cmd
}

func (w workerCommands) list() *cobra.Command {
	return &cobra.Command{
		Use: "list [NAME…]", Aliases: []string{"ls"}, Short: "List workers with what they run",
		Long: `List workers, of all nodes in reach, with what each is believed to run.

State is new (what it runs is not known yet, or another worker has its name),
healthy, unhealthy (it keeps what it runs and gets nothing new) or must_die (lost:
its tasks run elsewhere, or are about to). "cannot begin tasks" stands with a worker
whose tasks could not be begun, and why: it gives them back, and tries one at a time.
One that "refuses tasks" has not taken what it was given several times in a row, or
given it back as it came: for a while it is given nothing.
"killed, not gone" is one that was killed, and has not left in time (session-lose of the
server, 30 s).`,
		Example: "  norn worker list\n  norn worker list -o json | jq -r '.[] | select(.state != \"healthy\") | .name'",
		RunE: func(cmd *cobra.Command, args []string) error {
			return w.With(cmd.Context(), func(c *client.Client) error {
				all, err := c.Workers().List(cmd.Context(), args...)
				list := workerList(w.Writer()).None("no workers with a session")
				for _, one := range all {
					list.Add(one)
				}
				if closed := list.Close(); err == nil {
					err = closed
				}
				return err
			})
		},
	}
}

func workerList(w *render.Writer) *render.List[*nornv1.Worker] {
	return render.NewList(w, func(m *nornv1.Worker) jsonform.Value { return jsonform.Of(m) },
		render.Column[*nornv1.Worker]{Head: "name", Cell: func(m *nornv1.Worker) string { return render.Text([]byte(m.GetName()), 60) }},
		render.Column[*nornv1.Worker]{Head: "state", Cell: workerState},
		render.Column[*nornv1.Worker]{Head: "running", Cell: func(m *nornv1.Worker) string {
			return fmt.Sprintf("%d of %d", len(m.GetRunning()), m.GetSlots()+m.GetPrefetch())
		}},
		render.Column[*nornv1.Worker]{Head: "queues", Cell: func(m *nornv1.Worker) string {
			var names []string
			for _, q := range m.GetQueues() {
				names = append(names, q.GetQueue())
			}
			return render.Text([]byte(strings.Join(names, ", ")), 40)
		}},
		render.Column[*nornv1.Worker]{Head: "machine", Cell: func(m *nornv1.Worker) string { return render.Text([]byte(m.GetMachine()), 40) }},
		render.Column[*nornv1.Worker]{Head: "node", Cell: (*nornv1.Worker).GetNode},
		render.Column[*nornv1.Worker]{Head: "heard", Cell: func(m *nornv1.Worker) string {
			return render.Duration(proto.Seconds(m.GetSilentSeconds()).Round(time.Millisecond)) + " ago"
		}},
		render.Column[*nornv1.Worker]{Head: "tasks", Cell: func(m *nornv1.Worker) string {
			switch all := m.GetRunning(); len(all) {
			case 0:
				return ""
			case 1:
				return all[0].GetId()
			default: // all of them: -o json
				return fmt.Sprintf("%s and %d more", all[0].GetId(), len(all)-1)
			}
		}},
	)
}

// workerState is the state, and what else keeps tasks away.
func workerState(m *nornv1.Worker) string {
	state := strings.ToLower(strings.TrimPrefix(m.GetState().String(), "SESSION_STATE_"))
	switch {
	case m.GetRefused() == nornv1.SessionRefusal_SESSION_REFUSAL_NAME:
		state += ", waits for its name"
	case m.GetKilled() && m.GetState() == nornv1.SessionState_SESSION_STATE_MUST_DIE:
		state += ", killed, not gone"
	case m.GetKilled():
		state += ", killed"
	case m.GetDraining():
		state += ", draining"
	}
	if why := m.GetTrouble(); why != "" {
		state += ", cannot begin tasks: " + render.Text([]byte(why), 120)
	}
	if m.GetRestingSeconds() > 0 {
		state += ", refuses tasks"
	}
	return state
}

func (w workerCommands) drain() *cobra.Command {
	return w.one(&cobra.Command{
		Use: "drain NAME", Short: "Have a worker finish what it runs, and leave",
		Long:    "Have a worker take nothing new, finish what it runs, and leave. norn work exits\nwith 0 then.",
		Example: "  norn worker drain billing-3",
	}, func(ctx context.Context, c *client.Client, name string) (*nornv1.Worker, error) {
		return c.Workers().Drain(ctx, name)
	})
}

func (w workerCommands) kill() *cobra.Command {
	var reason string
	var wait time.Duration
	cmd := w.one(&cobra.Command{
		Use: "kill NAME", Short: "Have a worker stop everything at once, and leave",
		Long: `Have a worker stop everything at once, and leave. Its commands get SIGTERM, and
SIGKILL after their grace; their tasks are given back, which uses no attempt.
norn work exits with 1 then.

It waits until the worker has left. One that has not after session-lose of the server
(30 s) is declared lost, and the exit code is 5: nothing of it was renewed since it was
killed, its tasks run elsewhere when their leases are over, and others may have its
name. Stop its process by other means.`,
		Example: "  norn worker kill billing-3 --reason 'runs the old version'",
	}, func(ctx context.Context, c *client.Client, name string) (*nornv1.Worker, error) {
		found, err := c.Workers().Kill(ctx, name, reason)
		if err == nil && wait > 0 {
			err = w.gone(ctx, c, found, wait)
		}
		return found, err
	})
	cmd.Flags().DurationVar(&wait, "wait", 2*time.Minute, "for how `long` to wait until it has left; 0: not at all")
	cmd.Flags().StringVar(&reason, "reason", "", "why, for the worker's log")
	return cmd
}

// lookPause is between looks at a worker that is to leave.
const lookPause = 300 * time.Millisecond

// gone waits until a worker that was killed has left.
func (w workerCommands) gone(ctx context.Context, c *client.Client, killed *nornv1.Worker, wait time.Duration) error {
	over := time.After(wait)
	for away := 0; ; {
		all, err := c.Workers().List(ctx, killed.GetName())
		if err != nil {
			return err
		}
		i := slices.IndexFunc(all, func(m *nornv1.Worker) bool { return bytes.Equal(m.GetInstance(), killed.GetInstance()) })
		switch {
		case i < 0:
			if away++; away > 1 { // it may have been on its way to another node
				return nil
			}
		case all[i].GetKilled() && all[i].GetState() == nornv1.SessionState_SESSION_STATE_MUST_DIE:
			return fmt.Errorf("%w: worker %s was killed and is not gone: it is declared lost, its %d claims end with their leases; stop its process on %s",
				client.ErrConflict, killed.GetName(), len(all[i].GetRunning()), killed.GetMachine())
		default:
			away = 0
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return fmt.Errorf("worker %s was killed, and has not left after %v; look at: norn worker list", killed.GetName(), wait)
		case <-time.After(lookPause):
		}
	}
}

// one completes a command about one worker, which it shows in the end.
func (w workerCommands) one(cmd *cobra.Command, do func(context.Context, *client.Client, string) (*nornv1.Worker, error)) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), w.complete
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if n := len(args[0]); n == 0 || n > proto.MaxWorkerName {
			return cli.Usage("the name of a worker has %d bytes, outside 1 to %d", n, proto.MaxWorkerName)
		}
		return w.With(cmd.Context(), func(c *client.Client) error {
			found, err := do(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			return w.Writer().Object(jsonform.Of(found), func(out io.Writer) { workerSheet(out, found) })
		})
	}
	return cmd
}

// workerSheet shows one worker to people.
func workerSheet(w io.Writer, m *nornv1.Worker) {
	pairs := [][2]string{
		{"worker", m.GetName()}, {"state", workerState(m)}, {"machine", m.GetMachine()}, {"node", m.GetNode()},
		{"slots", fmt.Sprintf("%d, and %d to prefetch", m.GetSlots(), m.GetPrefetch())},
	}
	if n := m.GetDeclined(); n > 0 {
		why := "gave the newest back"
		if r := m.GetDeclines(); r != 0 {
			why = "the newest: " + strings.ToLower(strings.TrimPrefix(r.String(), "SESSION_REFUSAL_"))
		}
		pairs = append(pairs, [2]string{"declined", fmt.Sprintf("%d tasks, %s", n, why)})
	}
	for i, c := range m.GetRunning() {
		head := ""
		if i == 0 {
			head = "running"
		}
		pairs = append(pairs, [2]string{head, fmt.Sprintf("%s under token %d", c.GetId(), c.GetToken())})
	}
	render.Pairs(w, pairs...)
}

// complete offers the names of workers.
func (w workerCommands) complete(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 || w.Prepare(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	parent := cmd.Context()
	if parent == nil {
		parent = context.Background()
	}
	ctx, cancel := context.WithTimeout(parent, cli.CompletionTime)
	defer cancel()
	var names []string
	_ = w.With(ctx, func(c *client.Client) error { // a shell has no place for errors
		all, err := c.Workers().List(ctx)
		for _, m := range all {
			names = append(names, m.GetName())
		}
		return err
	})
	return cli.LastOf(names, typed), cobra.ShellCompDirectiveNoFileComp
}
