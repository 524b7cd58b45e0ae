package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/norn-dev/norn/jepsen/lab"
)

// all does a run for each fault and prints a table. One that is broken does not
// keep the others from being run.
func all(ctx context.Context, cfg lab.Config, out string) int {
	var table strings.Builder
	fmt.Fprint(&table, "| fault | verdict | seconds | times | whole again after, s | tasks acknowledged | network | |\n|---|---|---|---|---|---|---|---|\n")
	worst, acked, begun := 0, 0, time.Now()
	for _, f := range lab.Faults() {
		if ctx.Err() != nil {
			break
		}
		cfg.Fault = f.Name
		fmt.Fprintf(os.Stderr, "== %s\n", f.Name)
		cfg.Logs = name(out, cfg) + "-logs"
		r, err := lab.Run(ctx, cfg)
		var not *lab.NotRun
		switch {
		case errors.As(err, &not):
			fmt.Fprintf(&table, "| %s | not run | | | | | | %s |\n", f.Name, not.Why)
			continue
		case err != nil:
			fmt.Fprintf(&table, "| %s | ERROR | | | | | | %s |\n", f.Name, oneLine(err.Error()))
			worst = 2
			continue
		}
		if err := save(out, r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			worst = 2
		}
		if r.Verdict != lab.Passed {
			worst = max(worst, 1)
		}
		acked += r.Acked
		fmt.Fprintln(&table, row(r))
	}
	fmt.Fprintf(&table, "\n%d acknowledged tasks in %.0f s, workload %s, seed %d, %v of each fault.\n", acked, time.Since(begun).Seconds(), cfg.Workload, cfg.Seed, cfg.Duration)
	fmt.Print(table.String())
	if err := os.WriteFile(filepath.Join(out, "all.md"), []byte(table.String()), 0o644); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return worst
}

// row is that of one run.
func row(r *lab.Result) string {
	var whole []string
	for _, w := range r.Windows {
		if w.Whole > 0 {
			whole = append(whole, fmt.Sprintf("%.1f", (w.Whole-w.To).Seconds()))
		}
	}
	return fmt.Sprintf("| %s | %s | %.0f | %d | %s | %d | %s | %s |", r.Config.Fault, r.Verdict, r.Took.Seconds(), len(r.Windows), strings.Join(whole, " "),
		r.Acked, r.Network, oneLine(strings.Join(append(r.Findings, r.Missing...), "; ")))
}

func oneLine(s string) string {
	s = strings.NewReplacer("\n", " ", "|", "/").Replace(s)
	return s[:min(len(s), 400)]
}
