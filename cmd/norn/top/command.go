package top

import (
	"context"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
)

// Host is what the commands need of the program that they are part of.
type Host struct {
	// With calls with a client of the addresses that were given.
	With func(context.Context, func(*client.Client) error) error
	// Writer writes what programs read, In and Out are the terminal.
	Writer func() *render.Writer
	In     io.Reader
	Out    io.Writer
	// Timeout is for one call.
	Timeout *time.Duration
	// Usage is the error of a wrong command line.
	Usage func(format string, args ...any) error
}

// fastest is how often a cluster is looked at, at most.
const fastest = 200 * time.Millisecond

// Command gives norn top.
func Command(h Host) *cobra.Command {
	cmd := &cobra.Command{
		Use: "top", Short: "Show live what goes on: queues with rates, workers, nodes, alerts", Args: cobra.NoArgs,
		Long: `Show live what goes on: queues with rates, workers, nodes, and what needs somebody.
It draws on the terminal by plain sequences, also over ssh.

Keys: tab, the next table; s, another order; up and down, or k and j, scroll;
space, hold; q, quit.

in/s and done/s are what changed between two looks: tasks that came, and tasks that
were completed, died or were cancelled. What retention deletes in between is missing.
Workers are those with sessions; what pulls is not counted.

--once looks twice, one interval apart, prints that and ends: for scripts, with -o json
too.`,
		Example: "  norn top\n  norn top --interval 10s\n  norn top --once\n  norn top --once -o json | jq -r '.alerts[]'",
	}
	once := cmd.Flags().Bool("once", false, "print one screen and end")
	every := cmd.Flags().Duration("interval", 2*time.Second, "between two looks, 200ms at least")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *every < fastest {
			return h.Usage("--interval: %s is under %s", *every, fastest)
		}
		return h.With(cmd.Context(), func(c *client.Client) error {
			w := &watcher{ctx: cmd.Context(), look: func(ctx context.Context) (*look, error) { return gather(ctx, c) }, timeout: *h.Timeout}
			if *once {
				return w.once(h.Writer(), *every)
			}
			if !h.Writer().People() {
				return h.Usage("-o: a program is given one screen; say --once")
			}
			if err := c.Connect(cmd.Context()); err != nil { // nobody wants to wait for a typo
				return err
			}
			s, back, err := open(h.In, h.Out)
			if err != nil {
				return h.Usage("%w", err)
			}
			defer back()
			return s.loop(cmd.Context(), *every, w.lines, w.key)
		})
	}
	return cmd
}

// Watch shows what show writes again and again, on a terminal over what was there, until ctx
// ends or somebody quits.
func Watch(ctx context.Context, h Host, every time.Duration, show func(context.Context, io.Writer) error) error {
	if every < fastest {
		return h.Usage("--interval: %s is under %s", every, fastest)
	}
	s, back, err := open(h.In, h.Out)
	if err != nil {
		return h.Usage("%w", err)
	}
	defer back()
	note, body := "", []string(nil)
	return s.loop(ctx, every, func(fresh bool, columns, height int) []string {
		if fresh {
			var b strings.Builder
			limited, cancel := context.WithTimeout(ctx, *h.Timeout)
			err := show(limited, &b)
			cancel()
			note = time.Now().Format(time.TimeOnly) + "  q: quit"
			if err != nil {
				note += "  no news: " + render.Text([]byte(err.Error()), 0)
			} else {
				body = strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
			}
		}
		return fit(append([]string{note}, body...), columns, height)
	}, func(c byte) bool { return !quits(c) })
}
