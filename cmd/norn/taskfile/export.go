package taskfile

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/proto/jsonform"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Host is what the commands need of the program that they are part of.
type Host struct {
	// With calls with a client of the addresses that were given.
	With func(context.Context, func(*client.Client) error) error
	// Out is where what was asked for goes, Note tells people more, Complain what went wrong.
	Out      io.Writer
	Note     func(format string, args ...any)
	Complain func(text string)
	// Refused is the error of tasks that were not taken, each of which was told.
	Refused error
}

// unfinished are the states of tasks that have not ended, and of those that can go on.
func unfinished() []nornv1.State {
	return []nornv1.State{nornv1.State_STATE_WAITING, nornv1.State_STATE_SCHEDULED, nornv1.State_STATE_READY, nornv1.State_STATE_CLAIMED, nornv1.State_STATE_DEAD}
}

// Export gives norn task export.
func Export(h Host) *cobra.Command {
	var queue, file string
	var open bool
	cmd := &cobra.Command{
		Use: "export", Short: "Write tasks as lines of JSON", Args: cobra.NoArgs,
		Long: `Write tasks as lines of JSON, one task a line, in the order of their IDs: each as
norn task get -o json has it, payloads and results in base64, but for the log and the
attempts, of which there may be much. It is a list, not a picture of one moment, and
norn task import reads it. What is to survive a cluster whole goes into a backup
(norn backup create --tasks).`,
		Example: "  norn task export -q mail > mail.jsonl\n  norn task export --unfinished --file tasks.jsonl",
	}
	f := cmd.Flags()
	f.StringVarP(&queue, "queue", "q", "", "only tasks of this `queue`")
	f.BoolVar(&open, "unfinished", false, "only tasks that are not completed or cancelled")
	f.StringVar(&file, "file", "", "write to this `FILE`, which must not exist yet (default: standard output)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		to := h.Out
		if file != "" {
			out, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return err
			}
			defer func() { _ = out.Close() }() // it was synced, or there is an error already
			to = out
		}
		return h.With(cmd.Context(), func(c *client.Client) error {
			filter := client.Filter{Queue: queue}
			if open {
				filter.States = unfinished()
			}
			n, err := write(to, c.List(cmd.Context(), filter))
			if out, is := to.(*os.File); is && file != "" && err == nil {
				err = out.Sync()
			}
			if err == nil {
				h.Note("%d tasks", n)
			}
			return err
		})
	}
	return cmd
}

// write writes a line for each task.
func write(to io.Writer, all func(func(*nornv1.Task, error) bool)) (n int, err error) {
	w := bufio.NewWriterSize(to, 1<<16)
	for t, bad := range all {
		if err = bad; err != nil {
			break
		}
		t.Claims, t.Updates, t.AttemptLog = nil, nil, nil
		if _, err = w.Write(jsonform.Of(t).Line()); err != nil {
			break
		}
		n++
	}
	return n, errors.Join(err, w.Flush())
}
