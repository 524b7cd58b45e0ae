package main

import (
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/bench/demo"
)

func (a *app) demo() *cobra.Command {
	cmd := &cobra.Command{
		Use: "demo", Short: "The guided tour on real input", Args: cobra.NoArgs,
		Long: `Starts a server on an empty directory, enqueues one task for every .go file of
the installed Go toolchain, compresses each and counts its lines with ` + "`norn work`" + `,
kills the server with SIGKILL in the middle, starts it again, and ends with a
table that is checked against a direct walk over the same files. Exits with 1 when
a number does not match. Everything is in a temporary directory and on loopback.`,
		Example: "  norn demo\n  norn demo --source ./my/tree --slots 8",
	}
	o := demo.Options{Out: a.out}
	cmd.Flags().StringVar(&o.Source, "source", "", "`directory` with .go files (default: the Go toolchain's src)")
	cmd.Flags().IntVar(&o.Slots, "slots", 2*runtime.GOMAXPROCS(0), "commands at once")
	cmd.Flags().BoolVar(&o.Keep, "keep", false, "keep the temporary directory")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		var err error
		if o.Binary, err = os.Executable(); err != nil {
			return fmt.Errorf("demo: where is this program? %w", err)
		}
		if !a.quiet {
			o.Progress = a.demoProgress()
		}
		return demo.Run(ctx, o)
	}
	return cmd
}

// demoProgress shows a bar on a terminal, and a line every few seconds where
// there is none.
func (a *app) demoProgress() func(stage string, done, total int) {
	var bar *progressbar.ProgressBar
	last, shown := "", time.Time{}
	return func(stage string, done, total int) {
		if !a.errTerminal {
			if stage != last || done == total || time.Since(shown) > 5*time.Second {
				fmt.Fprintf(a.errOut, "   %s %d of %d\n", stage, done, total)
				last, shown = stage, time.Now()
			}
			return
		}
		if stage != last {
			bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(a.errOut), progressbar.OptionSetDescription("   "+stage),
				progressbar.OptionShowCount(), progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(100*time.Millisecond))
			last = stage
		}
		_ = bar.Set(done)
	}
}
