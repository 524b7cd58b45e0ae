package tasks

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/sheet"
	"github.com/norn-dev/norn/cmd/norn/taskfile"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// commands are about tasks.
type commands struct{ *cli.App }

// Commands gives norn task.
func Commands(app *cli.App) *cobra.Command {
	a := commands{app}
	cmd := cli.Group(&cobra.Command{
		Use: "task", Short: "Enqueue, read, claim, finish, cancel and retry tasks", Aliases: []string{"tasks"},
		Example: "  norn task enqueue -q mail 'hello'\n  norn task list -q mail",
	})
	bulk := Bulk{app}
	cmd.AddCommand(a.enqueue(), a.get(), a.list(), a.count(), a.log(), explain(a), a.wait(), bulk.cancel(), bulk.retry(),
		a.claim(), a.renew(), a.update(), a.complete(), a.fail(), a.releaseCommand())
	files := taskfile.Host{With: a.With, Out: a.Out, Note: a.Note, Complain: a.Complain, Refused: cli.Reported{Code: cli.ExitFailed}}
	cmd.AddCommand(taskfile.Export(files), taskfile.Import(files))
	return cmd
}

func parseToken(s string) (uint64, error) {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0, cli.Usage("token %q is not a number", s)
	}
	return n, nil
}

// parseRef reads ID TOKEN.
func parseRef(args []string) (client.Ref, error) {
	i, err := cli.ParseID(args[0])
	if err != nil {
		return client.Ref{}, err
	}
	token, err := parseToken(args[1])
	return client.Ref{ID: i, Token: token}, err
}

// durability adds -w; what it returns reads it after parsing.
func durability(cmd *cobra.Command) func() (client.WriteOption, error) {
	level := durabilityLevel(cmd)
	return func() (client.WriteOption, error) {
		d, err := level()
		return client.WithDurability(d), err
	}
}

// durabilityLevel adds the same flag.
func durabilityLevel(cmd *cobra.Command) func() (client.Durability, error) {
	w := cmd.Flags().StringP("write", "w", "quorum", "wait for so many durable `copies`: one, quorum, all or a number")
	return func() (client.Durability, error) {
		if err := cli.NotEmpty(cmd, "write"); err != nil {
			return client.Quorum, err
		}
		d, err := client.ParseDurability(*w)
		if err != nil {
			return d, cli.Usage("--write: %q is not one, quorum, all or a number of copies", *w)
		}
		return d, nil
	}
}

func (a commands) get() *cobra.Command {
	cmd := &cobra.Command{
		Use: "get ID", Short: "Show a task with its claims and updates", Args: cobra.ExactArgs(1),
		Example: "  norn task get 3ZyfAz4TTlNLdMEJYWbpzCDKw1p\n  norn task get 3ZyfAz4TTlNLdMEJYWbpzCDKw1p -o json | jq -r .payload | base64 -d",
	}
	level := cmd.Flags().StringP("read", "r", "quorum", "ask so many `replicas`: one, quorum, all or a number")
	atLeast := cmd.Flags().String("at-least", "", "ask until this update, or anything later, is seen (`TOKEN:SEQ`)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		i, err := cli.ParseID(args[0])
		if err != nil {
			return err
		}
		if err := cli.NotEmpty(cmd, "read", "at-least"); err != nil {
			return err
		}
		consistency, err := client.ParseConsistency(*level)
		if err != nil {
			return cli.Usage("--read: %q is not one, quorum, all or a number of replicas", *level)
		}
		opts := []client.ReadOption{client.WithConsistency(consistency)}
		if *atLeast != "" {
			token, seq, ok := strings.Cut(*atLeast, ":")
			t, err1 := strconv.ParseUint(token, 10, 64)
			s, err2 := strconv.ParseUint(seq, 10, 64)
			if !ok || err1 != nil || err2 != nil {
				return cli.Usage("--at-least: %q is not TOKEN:SEQ", *atLeast)
			}
			opts = append(opts, client.AtLeast(t, s))
		}
		return a.With(cmd.Context(), func(c *client.Client) error {
			t, err := c.Get(cmd.Context(), i, opts...)
			if err != nil {
				return err
			}
			return a.Writer().Object(jsonform.Of(t), func(w io.Writer) { sheet.Task(w, t, !a.NoColor) })
		})
	}
	return cmd
}

func (a commands) wait() *cobra.Command {
	cmd := &cobra.Command{
		Use: "wait ID…", Short: "Wait until tasks are finished, and show them", Args: cobra.MinimumNArgs(1),
		Long: `Wait until every task is completed, dead or cancelled, and show them in the
order given. Exits with 1 when one of them is dead or cancelled, or when --wait
is over before all are finished.`,
		Example: "  norn task wait $(norn task enqueue -q mail 'hello')",
	}
	most := cmd.Flags().Duration("wait", 0, "wait no longer than this (0: as long as it takes)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var ids []id.ID
		for _, arg := range args {
			i, err := cli.ParseID(arg)
			if err != nil {
				return err
			}
			ids = append(ids, i)
		}
		if *most < 0 {
			return cli.Usage("--wait: %s is negative", *most)
		}
		ctx, cancel := cmd.Context(), context.CancelFunc(func() {})
		if *most > 0 {
			ctx, cancel = context.WithTimeoutCause(ctx, *most, fmt.Errorf("--wait of %s is over", *most))
		}
		defer cancel()
		return a.With(ctx, func(c *client.Client) error { return a.waitAll(ctx, c, ids) })
	}
	return cmd
}

func (a commands) waitAll(ctx context.Context, c *client.Client, ids []id.ID) error {
	list := sheet.List(a.Writer())
	sad := 0
	err := func() error {
		if err := c.Connect(ctx); err != nil { // nobody wants to wait for a typo, see [app.runWorker]
			return err
		}
		for _, i := range ids {
			t, err := c.Wait(ctx, i)
			if err != nil {
				if ctx.Err() != nil {
					return fmt.Errorf("task %s is not finished: %w", i, context.Cause(ctx))
				}
				return err
			}
			if t.GetState() != nornv1.State_STATE_COMPLETED {
				sad++
			}
			list.Add(t)
			if err := list.Flush(); err != nil {
				return err
			}
		}
		return nil
	}()
	if closed := list.Close(); err == nil {
		err = closed
	}
	if err == nil && sad > 0 {
		err = fmt.Errorf("%d of %d tasks ended dead or cancelled; `norn task get` shows why", sad, len(ids))
	}
	return err
}
