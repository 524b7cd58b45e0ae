package tasks

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func (a commands) log() *cobra.Command {
	cmd := &cobra.Command{
		Use: "log ID", Short: "Show the updates and output lines of a task", Args: cobra.ExactArgs(1),
		Long: `Show the updates and output lines of a task, from any node. What norn work's commands
print on standard output is there for as long as the task.

With --lines also what the workers only remember: standard error of norn work's
commands, and the lines of Task.Log in Go, the newest 4 MiB of each worker, for as
long as it lives and has a session. They have a line instead of a seq; what is
forgotten is missing in its numbers.`,
		Example: "  norn task log 3ZyfAz4TTlNLdMEJYWbpzCDKw1p --follow\n  norn task log 3ZyfAz4TTlNLdMEJYWbpzCDKw1p -o jsonl | jq -r '.data | @base64d'\n  norn task log 3ZyfAz4TTlNLdMEJYWbpzCDKw1p --follow --lines",
	}
	follow := cmd.Flags().BoolP("follow", "f", false, "go on until the task is finished")
	lines := cmd.Flags().Bool("lines", false, "also what the workers remember of it: standard error")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		i, err := cli.ParseID(args[0])
		if err != nil {
			return err
		}
		return a.With(cmd.Context(), func(c *client.Client) error {
			all := entries(pages(cmd.Context(), c, i))
			switch {
			case *lines:
				all = withLines(cmd.Context(), c, i, *follow)
			case *follow:
				all = entries(c.Follow(cmd.Context(), i))
			}
			list := entryList(a.Writer()).None("no updates yet")
			if *follow { // nobody wants to wait for a typo
				if err := c.Connect(cmd.Context()); err != nil {
					return errors.Join(err, list.Close())
				}
			}
			var failed error
			for e, err := range all {
				if err == nil {
					list.Add(e)
					if *follow {
						err = list.Flush()
					}
				}
				if err != nil {
					failed = err
					break
				}
			}
			if err := list.Close(); failed == nil {
				failed = err
			}
			return failed
		})
	}
	return cmd
}

// pages reads what is in the log now.
func pages(ctx context.Context, c *client.Client, i id.ID) iter.Seq2[*nornv1.Update, error] {
	return func(yield func(*nornv1.Update, error) bool) {
		var o client.LogOptions
		for {
			m, err := c.Log(ctx, i, o)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, u := range m.GetUpdates() {
				if !yield(u, nil) {
					return
				}
			}
			if !o.Next(m, 0) || !m.GetMore() && !client.Finished(m.GetState()) {
				return
			}
		}
	}
}

// entry is an update, or a line that a worker remembers, which has a number above 0.
type entry struct {
	*nornv1.Update
	line uint64
}

func entries(updates iter.Seq2[*nornv1.Update, error]) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for u, err := range updates {
			if !yield(entry{Update: u}, err) {
				return
			}
		}
	}
}

func entryList(w *render.Writer) *render.List[entry] {
	return render.NewList(w, entry.value,
		render.Column[entry]{Head: "at", Cell: func(e entry) string {
			if e.line > 0 {
				return ""
			}
			return e.GetAt().AsTime().Format(time.RFC3339)
		}},
		render.Column[entry]{Head: "token", Cell: func(e entry) string { return fmt.Sprint(e.GetToken()) }},
		render.Column[entry]{Head: "seq", Cell: func(e entry) string {
			if e.line > 0 {
				return fmt.Sprintf("line %d", e.line)
			}
			return fmt.Sprint(e.GetSeq())
		}},
		render.Column[entry]{Head: "data", Cell: func(e entry) string { return render.Text(e.GetData(), 0) }},
	)
}

func (e entry) value() jsonform.Value {
	if e.line == 0 {
		return jsonform.Of(e.Update)
	}
	return jsonform.Object().With("token", jsonform.Uint64(e.GetToken())).With("line", jsonform.Uint64(e.line)).With("data", jsonform.String(base64.StdEncoding.EncodeToString(e.GetData())))
}
