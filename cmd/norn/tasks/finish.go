package tasks

import (
	"fmt"
	"io"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func (a commands) update() *cobra.Command {
	cmd := &cobra.Command{
		Use: "update ID TOKEN SEQ DATA", Short: "Add an update to a claimed task", Args: cobra.ExactArgs(4),
		Long: `Add an update: any bytes, numbered 0, 1, 2, … within the claim. An update is
visible once all before it are there. The last one is the checkpoint that the
next claim gets. DATA of - reads standard input.`,
		Example: "  norn task update 3ZyfAz4TTlNLdMEJYWbpzCDKw1p 4294967297 0 'half done'",
	}
	level := durability(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref, err := parseRef(args)
		if err != nil {
			return err
		}
		seq, err := strconv.ParseUint(args[2], 10, 64)
		if err != nil {
			return cli.Usage("SEQ %q is not a number", args[2])
		}
		data := []byte(args[3])
		if args[3] == "-" {
			if data, err = cli.ReadAll(cmd.Context(), a.In, proto.MaxUpdateBytes); err != nil {
				return err
			}
		}
		option, err := level()
		if err != nil {
			return err
		}
		return a.With(cmd.Context(), func(c *client.Client) error {
			r, err := c.Update(cmd.Context(), ref.ID, ref.Token, seq, data, option)
			if err != nil {
				return err
			}
			return a.receipt("updated", r)
		})
	}
	return cmd
}

func (a commands) complete() *cobra.Command {
	cmd := &cobra.Command{
		Use: "complete ID TOKEN [SEQ]", Short: "Complete a claimed task", Args: cobra.RangeArgs(2, 3),
		Long: `Complete a task, also late, when the lease is over. SEQ is the number after the
last update of the claim, and tells which updates belong to it: the completion
shows at once, also while some of them have yet to arrive. Without it the number
after the last visible update counts, whatever gaps there are.`,
		Example: "  norn task complete 3ZyfAz4TTlNLdMEJYWbpzCDKw1p 4294967297",
	}
	level := durability(cmd)
	result := cmd.Flags().String("result", "", "`bytes` that are kept with the task")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref, err := parseRef(args)
		if err != nil {
			return err
		}
		o := client.CompleteOptions{Result: []byte(*result)}
		if len(args) == 3 {
			seq, err := strconv.ParseUint(args[2], 10, 64)
			if err != nil {
				return cli.Usage("SEQ %q is not a number", args[2])
			}
			o.Seq = &seq
		}
		option, err := level()
		if err != nil {
			return err
		}
		return a.With(cmd.Context(), func(c *client.Client) error {
			r, err := c.Complete(cmd.Context(), ref.ID, ref.Token, o, option)
			if err != nil {
				return err
			}
			return a.receipt("completed", r)
		})
	}
	return cmd
}

// receipt says what a write has bought.
func (a commands) receipt(done string, r *nornv1.Receipt) error {
	return a.Writer().Object(jsonform.Of(r), func(w io.Writer) {
		again := ""
		if r.GetExisted() {
			again = " (it was before)"
		}
		fmt.Fprintf(w, "%s%s, copies on disk: %d\n", done, again, r.GetDurableCopies())
	})
}

func (a commands) fail() *cobra.Command {
	cmd := &cobra.Command{
		Use: "fail ID TOKEN --error TEXT", Short: "End a claim with a failure", Args: cobra.ExactArgs(2),
		Long: `End a claim with a failure, which uses an attempt. The task's retry policy says
when it is ready again, unless --retry-in does; out of attempts it is dead.`,
		Example: "  norn task fail 3ZyfAz4TTlNLdMEJYWbpzCDKw1p 4294967297 --error 'no route to host' --retry-in 10m",
	}
	text := cmd.Flags().String("error", "", "what went wrong (its last 16 KiB are kept)")
	retryIn := cmd.Flags().Duration("retry-in", 0, "ready again after this")
	discard := cmd.Flags().Bool("discard", false, "dead at once, whatever attempts are left")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ref, err := parseRef(args)
		switch {
		case err != nil:
			return err
		case !cmd.Flags().Changed("error"):
			return cli.Usage("say what went wrong with --error")
		case *retryIn < 0:
			return cli.Usage("--retry-in: %s is negative", *retryIn)
		case cmd.Flags().Changed("retry-in"):
			*retryIn = max(*retryIn, time.Nanosecond) // zero would be the policy's
		}
		return a.With(cmd.Context(), func(c *client.Client) error {
			state, err := c.Fail(cmd.Context(), ref.ID, ref.Token, client.FailOptions{Error: *text, RetryIn: *retryIn, Discard: *discard})
			if err != nil {
				return err
			}
			name := jsonform.EnumName(state)
			return a.Writer().Object(jsonform.Object(jsonform.Field{Name: "state", Value: jsonform.String(name)}),
				func(w io.Writer) { fmt.Fprintln(w, "failed; the task is "+name) })
		})
	}
	return cmd
}
