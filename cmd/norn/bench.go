package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/bench"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/render"
	"github.com/norn-dev/norn/proto/jsonform"
)

func (a *app) bench() *cobra.Command {
	cfg := bench.Default()
	scenarios := slices.Sorted(maps.Keys(bench.Scenarios()))
	about := ""
	for _, s := range scenarios {
		about += fmt.Sprintf("  %-9s %s\n", s, bench.Scenarios()[s])
	}
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure a cluster", Args: cobra.NoArgs,
		Long: `Measure a running cluster over the wire. Scenarios:

` + about + `
Every run checks what it measures: it exits with 1 when a task was lost or claimed
twice, or a call failed. The tasks stay, in a queue of their own.`,
		Example: "  norn bench --scenario enqueue --batch 100\n  norn bench --scenario latency --rate 2000 --duration 30s -o json | jq .figures",
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Scenario, "scenario", cfg.Scenario, strings.Join(scenarios, ", "))
	f.IntVar(&cfg.Tasks, "tasks", cfg.Tasks, "tasks to measure (default: the scenario's)")
	f.IntVar(&cfg.Payload, "payload", cfg.Payload, "bytes of each payload")
	f.IntVar(&cfg.Producers, "producers", cfg.Producers, "enqueue from so many at once")
	f.IntVar(&cfg.Workers, "workers", cfg.Workers, "claim from so many at once")
	f.IntVar(&cfg.Batch, "batch", cfg.Batch, "tasks per request")
	f.IntVar(&cfg.Rate, "rate", cfg.Rate, "tasks per second (latency)")
	f.DurationVar(&cfg.Duration, "duration", cfg.Duration, "how long (latency)")
	f.StringVarP(&cfg.Queue, "queue", "q", "", "use this `queue` (default: a new one)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return a.with(cmd.Context(), func(c *client.Client) error {
			p := a.progress("bench")
			var mu sync.Mutex // guards p
			report, err := bench.Run(cmd.Context(), c, cfg, func(stage string, done, total int) {
				mu.Lock()
				defer mu.Unlock()
				p.Stage(stage, done, total)
			})
			p.Clear()
			switch {
			case errors.Is(err, bench.ErrConfig):
				return usageError{err}
			case err != nil:
				return err
			}
			return errors.Join(a.writer().Object(benchForm(report), func(w io.Writer) { benchTable(w, report) }), report.Valid())
		})
	}
	return cmd
}

// benchForm has every figure that the table has.
func benchForm(r *bench.Report) jsonform.Value {
	figures, units, c := jsonform.Object(), jsonform.Object(), r.Config
	for _, f := range r.Figures {
		figures, units = figures.With(f.Name, jsonform.Float(f.Value)), units.With(f.Name, jsonform.String(f.Unit))
	}
	number := func(n int) jsonform.Value { return jsonform.Float(float64(n)) }
	config := jsonform.Object().
		With("tasks", number(c.Tasks)).With("payload", number(c.Payload)).With("producers", number(c.Producers)).
		With("workers", number(c.Workers)).With("batch", number(c.Batch)).With("rate", number(c.Rate)).
		With("duration_seconds", jsonform.Seconds(c.Duration)).With("queue", jsonform.String(c.Queue))
	return jsonform.Object().
		With("scenario", jsonform.String(r.Scenario)).With("valid", jsonform.Bool(r.Valid() == nil)).
		With("figures", figures).With("units", units).With("tasks", number(r.Tasks)).
		With("errors", number(r.Errors)).With("first_error", jsonform.String(r.FirstError)).
		With("duplicates", number(r.Duplicates)).With("lost", number(r.Lost)).With("config", config).
		With("server_version", jsonform.String(r.Server)).With("go_version", jsonform.String(r.GoVersion)).With("cores", number(r.Cores))
}

func benchTable(w io.Writer, r *bench.Report) {
	c := r.Config
	fmt.Fprintf(w, "%s: %s tasks of %d bytes, %d producers, %d workers, batches of %d; server %s, %d cores\n\n",
		r.Scenario, render.Number(uint64(r.Tasks)), c.Payload, c.Producers, c.Workers, c.Batch, r.Server, r.Cores)
	g := render.NewGrid(false, "figure", "value", "unit")
	for _, f := range r.Figures {
		value := strconv.FormatFloat(f.Value, 'f', 3, 64)
		if f.Value >= 1000 {
			value = render.Number(uint64(f.Value + 0.5))
		}
		g.Row(f.Name, value, f.Unit)
	}
	g.Write(w)
	fmt.Fprintf(w, "\nerrors %d, claimed twice %d, lost %d\n", r.Errors, r.Duplicates, r.Lost)
}
