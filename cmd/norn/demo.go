package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/bench/demo"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
)

func (a *app) demo() *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo", Short: "The guided tour on real input", Args: cobra.NoArgs,
		Long: `Starts three nodes on empty directories, enqueues one task for every .go file of
the installed Go toolchain, compresses each and counts its lines with two of
` + "`norn work`" + `, kills a worker and a node with SIGKILL in the middle, starts the node
again, and ends with a table that is checked against a direct walk over the same
files. Exits with 1 when a number does not match. Everything is in a temporary
directory and on loopback.

With -o json the story goes to standard error, and the numbers to standard output.`,
		Example: "  norn demo\n  norn demo --source ./my/tree --slots 8",
	}
	o := demo.Options{}
	cmd.Flags().StringVar(&o.Source, "source", "", "`directory` with .go files (default: the Go toolchain's src)")
	cmd.Flags().IntVar(&o.Slots, "slots", 2*runtime.GOMAXPROCS(0), "commands at once, of both workers")
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "keep the temporary directory")
	cmd.Flags().DurationVar(&o.Patience, "patience", 10*time.Minute, "fail when it takes longer")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if o.Slots < 1 || o.Patience <= 0 {
			return cli.Usage("--slots and --patience must be over zero")
		}
		var err error
		if o.Binary, err = os.Executable(); err != nil {
			return fmt.Errorf("demo: where is this program? %w", err)
		}
		if o.Out = a.Out; a.Format != render.Table {
			o.Out = a.ErrOut
		}
		if !a.Quiet {
			o.Progress = a.demoProgress()
		}
		v, err := demo.Run(cmd.Context(), o)
		if err != nil {
			// Whatever its own server says is no word about a server of the user's:
			// the exit code is 1.
			err = errors.New(err.Error())
		}
		if v == nil || a.Format == render.Table {
			return err
		}
		return errors.Join(err, a.Writer().Object(demoForm(v), nil))
	}
	return cmd
}

// demoForm has every number of the table.
func demoForm(v *demo.Verdict) jsonform.Value {
	number := func(n int) jsonform.Value { return jsonform.Uint64(uint64(n)) }
	return jsonform.Object().
		With("ok", jsonform.Bool(v.Check() == nil)).
		With("files", number(v.Files)).With("acknowledged", number(v.Acknowledged)).With("stored", number(v.Stored)).
		With("completed", number(v.Completed)).With("lost", number(v.Lost)).With("wrong", number(v.Wrong)).
		With("lines", number(v.Lines)).With("lines_walked", number(v.WantLines)).
		With("bytes", number(int(v.Bytes))).With("bytes_walked", number(int(v.WantBytes))).With("bytes_compressed", number(int(v.Compressed))).
		With("runs", number(v.Runs)).With("ran_twice", number(v.Again)).
		With("nodes_killed", number(v.Kills)).With("workers_killed", number(v.WorkerKills)).With("done_at_kill", number(v.DoneAtKill)).With("done_after_kill", number(v.DoneAfterKill)).
		With("enqueue_seconds", jsonform.Seconds(v.Enqueueing)).With("seconds", jsonform.Seconds(v.Took)).
		With("tasks_per_second", jsonform.Float(v.Rate()))
}

// demoProgress shows a bar on a terminal, and a line every few seconds where
// there is none.
func (a *app) demoProgress() func(stage string, done, total int) {
	var bar *progressbar.ProgressBar
	last, shown := "", time.Time{}
	return func(stage string, done, total int) {
		switch {
		case stage == "":
			if bar != nil {
				_ = bar.Clear() // decoration
			}
		case !a.ErrTerminal:
			if stage != last || done == total || time.Since(shown) > 5*time.Second {
				fmt.Fprintf(a.ErrOut, "   %s %d of %d\n", stage, done, total)
				last, shown = stage, time.Now()
			}
		default:
			if stage != last {
				bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(a.ErrOut), progressbar.OptionSetDescription("   "+stage),
					progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
				last = stage
			}
			_ = bar.Set(done) // decoration
		}
	}
}
