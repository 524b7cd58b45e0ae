package main

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func (a *app) log() *cobra.Command {
	cmd := &cobra.Command{
		Use: "log ID", Short: "Show the updates and output lines of a task", Args: cobra.ExactArgs(1),
		Example: "  norn task log 3ZyfAz4TTlNLdMEJYWbpzCDKw1p --follow\n  norn task log 3ZyfAz4TTlNLdMEJYWbpzCDKw1p -o jsonl | jq -r '.data | @base64d'",
	}
	follow := cmd.Flags().BoolP("follow", "f", false, "go on until the task is finished")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		i, err := parseID(args[0])
		if err != nil {
			return err
		}
		return a.with(cmd.Context(), func(c *client.Client) error {
			updates := pages(cmd.Context(), c, i)
			if *follow {
				updates = c.Follow(cmd.Context(), i)
			}
			list := updateList(a.writer())
			var failed error
			for u, err := range updates {
				if err == nil {
					list.Add(u)
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
				o.After, o.AfterToken, o.AfterSeq = true, u.GetToken(), u.GetSeq()
			}
			if !m.GetMore() || len(m.GetUpdates()) == 0 {
				return
			}
		}
	}
}

func updateList(w *render.Writer) *render.List[*nornv1.Update] {
	return render.NewList(w, func(u *nornv1.Update) jsonform.Value { return jsonform.Of(u) },
		render.Column[*nornv1.Update]{Head: "at", Cell: func(u *nornv1.Update) string { return u.GetAt().AsTime().Format(time.RFC3339) }},
		render.Column[*nornv1.Update]{Head: "token", Cell: func(u *nornv1.Update) string { return fmt.Sprint(u.GetToken()) }},
		render.Column[*nornv1.Update]{Head: "seq", Cell: func(u *nornv1.Update) string { return fmt.Sprint(u.GetSeq()) }},
		render.Column[*nornv1.Update]{Head: "data", Cell: func(u *nornv1.Update) string { return render.Text(u.GetData(), 0) }},
	)
}
