package outboxes

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/outbox"
	"github.com/norn-dev/norn/cmd/norn/cli"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
)

// commands relay tasks out of a database, and look after its table.
type commands struct{ *cli.App }

// outboxFlags are what all of them need to know.
type outboxFlags struct{ db, table string }

func (a commands) flags(cmd *cobra.Command) *outboxFlags {
	f := &outboxFlags{}
	var def string
	for _, v := range a.Environ {
		if text, ours := strings.CutPrefix(v, DatabaseVariable+"="); ours {
			def = text
		}
	}
	cmd.Flags().StringVar(&f.db, "db", "", "`URL` of the database (better in "+DatabaseVariable+")")
	cmd.Flags().StringVar(&f.table, "table", outbox.DefaultTable, "`name` of the table, with a schema in front or not")
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !cmd.Flags().Changed("db") {
			f.db = def
		}
		return run(cmd, args)
	}
	return f
}

// Commands gives norn outbox.
func Commands(app *cli.App) *cobra.Command {
	a := commands{app}
	cmd := cli.Group(&cobra.Command{
		Use: "outbox --db URL", Short: "Relay tasks that programs write inside transactions of a database",
		Long: `Relay tasks that programs write into a table of their database, inside the
transaction that writes their own data: the task is there if and only if the
transaction commits. Rows that Norn has taken are deleted. Any number of relays
may run at once, and any may be killed at any time: no task is lost, none is
enqueued twice.

URL is postgres://user:password@host/name, mysql://user:password@host/name (with
?socket=/path in place of a host), or sqlite:/path; behind a ? are parameters of
the drivers lib/pq, go-sql-driver/mysql and modernc.org/sqlite. TLS with
PostgreSQL is required unless it says otherwise (?sslmode=disable).

A row that Norn refuses for good is set aside: see norn outbox list. Everything
else is tried again, for ever. SIGINT, SIGTERM or SIGHUP: what is on its way is finished.`,
		Example: `  norn outbox schema postgres | psql shop
  NORN_OUTBOX_DB=postgres://relay@db/shop norn outbox
  norn outbox --db sqlite:/var/lib/app/app.db --exit-when-empty`,
	})
	cmd.Flags().SortFlags = false
	cfg := outbox.Config{}
	var listen string
	f := cmd.Flags()
	f.IntVar(&cfg.Batch, "batch", outbox.DefaultBatch, "send so many rows at once, 1 to 10000")
	f.DurationVar(&cfg.Poll, "poll", outbox.DefaultPoll, "look again after so long when nothing is due")
	f.BoolVar(&cfg.Leases, "leases", false, "hold no transaction open while rows are sent (always so with sqlite)")
	f.DurationVar(&cfg.Lease, "lease", 0, "with leases: how long the rows of a relay that dies wait (default 30s)")
	f.DurationVar(&cfg.Timeout, "batch-timeout", outbox.DefaultTimeout, "how long Norn may take for a batch")
	f.DurationVar(&cfg.Horizon, "gc-grace", outbox.DefaultHorizon, "as the servers have it: warn when a row has waited for half of it")
	write := f.StringP("write", "w", "quorum", "wait for so many durable `copies` before a row is deleted: one, quorum, all or a number")
	f.BoolVar(&cfg.ExitWhenEmpty, "exit-when-empty", false, "end once nothing is due")
	f.StringVar(&listen, "metrics-listen", "", "serve /metrics and /readyz at this `address`")
	var flags *outboxFlags
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		var err error
		if cfg.Durability, err = client.ParseDurability(*write); err != nil {
			return cli.Usage("--write: %w", err)
		}
		if err := checkRelay(cmd, cfg, listen); err != nil {
			return err
		}
		return a.relay(cmd.Context(), flags, cfg, listen)
	}
	flags = a.flags(cmd)
	cmd.AddCommand(a.schema(), a.status(), a.list(), a.retry(), a.discard(), a.newID())
	return cmd
}

// checkRelay refuses zeros, which the package takes for its defaults, and an
// address that can be none.
func checkRelay(cmd *cobra.Command, cfg outbox.Config, listen string) error {
	if cmd.Flags().Changed("batch") && (cfg.Batch < 1 || cfg.Batch > outbox.MaxBatch) {
		return cli.Usage("--batch: %d is not between 1 and %d", cfg.Batch, outbox.MaxBatch)
	}
	for _, f := range []struct {
		name string
		d    time.Duration
	}{{"poll", cfg.Poll}, {"lease", cfg.Lease}, {"batch-timeout", cfg.Timeout}, {"gc-grace", cfg.Horizon}} {
		if cmd.Flags().Changed(f.name) && f.d <= 0 {
			return cli.Usage("--%s: %s is not over zero", f.name, f.d)
		}
	}
	if listen == "" {
		return nil
	}
	if _, err := net.ResolveTCPAddr("tcp", listen); err != nil {
		return cli.Usage("--metrics-listen: %w", err)
	}
	return nil
}

// relay runs until it is told to stop.
func (a commands) relay(ctx context.Context, f *outboxFlags, cfg outbox.Config, listen string) error {
	lines := a.Daemon(nil)
	start, cancel := context.WithTimeout(ctx, a.Timeout)
	defer cancel()
	db, box, err := f.open(start)
	if err != nil {
		return err
	}
	defer db.Close()
	if !a.Quiet {
		cfg.Logger = slog.New(slog.NewTextHandler(a.ErrOut, &slog.HandlerOptions{Level: slog.LevelInfo}))
	}
	return a.With(ctx, func(c *client.Client) error {
		r, err := box.Relay(db, c, cfg)
		if errors.Is(err, outbox.ErrConfig) {
			return cli.Usage("%w", err)
		}
		if err != nil {
			return err
		}
		// Later outages are bridged, but nobody wants to wait for a typo.
		if err := c.Connect(start); err != nil {
			return err
		}
		return a.runRelay(ctx, r, box, db, listen, lines.Lost)
	})
}

func (a commands) runRelay(ctx context.Context, r *outbox.Relay, box *outbox.Outbox, db *sql.DB, listen string, lost func() uint64) error {
	soft, now, done := cli.TwoSignals(ctx)
	defer done()
	run, cancel := context.WithCancel(soft)
	defer cancel()
	finished := make(chan struct{})
	var others sync.WaitGroup
	defer others.Wait()
	defer close(finished)
	if listen != "" {
		stop, err := serveOutboxMetrics(listen, relayMetrics{r, box, db, lost})
		if err != nil {
			return fmt.Errorf("--metrics-listen: %w", err)
		}
		defer stop()
	}
	others.Go(func() {
		select {
		case <-soft.Done():
			a.Note("finishing what is on its way; again to stop at once")
		case <-finished:
			return
		}
		select {
		case <-now:
			_ = db.Close() // what is on its way is lost, and sent again by the next relay
		case <-finished:
		}
	})
	began := time.Now()
	err := r.Run(run)
	s := r.Stats()
	took := time.Since(began)
	if a.Format == render.Table {
		a.Note("%s", relayed(s, took))
		return err
	}
	number := jsonform.Uint64
	return errors.Join(err, a.Writer().Object(jsonform.Object(
		jsonform.Field{Name: "relayed", Value: number(s.Relayed)},
		jsonform.Field{Name: "duplicates", Value: number(s.Duplicates)},
		jsonform.Field{Name: "put_off", Value: number(s.PutOff)},
		jsonform.Field{Name: "aside", Value: number(s.Aside)},
		jsonform.Field{Name: "failures", Value: number(s.Failures)},
		jsonform.Field{Name: "seconds", Value: jsonform.Seconds(took)},
	), func(io.Writer) {}))
}

// relayed is what a relay has done, in words.
func relayed(s outbox.Stats, took time.Duration) string {
	text := render.Number(s.Relayed) + " relayed"
	for _, part := range []struct {
		n    uint64
		what string
	}{{s.Duplicates, "sent before"}, {s.PutOff, "put off"}, {s.Aside, "set aside"}} {
		if part.n > 0 {
			text += fmt.Sprintf(", %s %s", render.Number(part.n), part.what)
		}
	}
	return text + " in " + render.Duration(took)
}
