package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/jepsen/lab"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/faults"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/verdict"
)

// survey is a run for each fault, and what came of them.
type survey struct {
	cfg                cluster.Config
	out                string
	begun              time.Time
	table              strings.Builder
	acked, done, worst int
}

// all does a run for each fault and prints a table, which is kept as it grows. One
// that is broken does not keep the others from being run: the exit status is the
// worst of all.
func all(ctx context.Context, cfg cluster.Config, out string) int {
	s := &survey{cfg: cfg, out: out, begun: time.Now()}
	fmt.Fprint(&s.table, "| fault | verdict | seconds | times | whole again after, s | tasks acknowledged | operations done | network | |\n|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range faults.Faults() {
		if ctx.Err() != nil {
			fmt.Fprintln(&s.table, "\nStopped before the end.")
			s.worst = 2
			break
		}
		s.one(ctx, f.Name)
		if err := s.keep(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	fmt.Print(s.text())
	if err := s.keep(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return s.worst
}

// one does the run of one fault.
func (s *survey) one(ctx context.Context, fault string) {
	cfg := s.cfg
	cfg.Fault = fault
	fmt.Fprintf(os.Stderr, "== %s\n", fault)
	cfg.Logs = name(s.out, cfg) + "-logs"
	r, err := lab.Run(ctx, cfg)
	var not *machine.NotRun
	switch {
	case errors.As(err, &not):
		fmt.Fprintf(&s.table, "| %s | not run | | | | | | | %s |\n", fault, not.Why)
		return
	case err != nil:
		fmt.Fprintf(&s.table, "| %s | ERROR | | | | | | | %s |\n", fault, oneLine(err.Error()))
		s.worst = 2
		return
	}
	if err := save(s.out, r); err != nil {
		fmt.Fprintln(os.Stderr, err)
		s.worst = 2
	}
	if r.Verdict != verdict.Passed {
		s.worst = max(s.worst, 1)
	}
	s.acked += r.Acked
	s.done += done(r)
	fmt.Fprintln(&s.table, row(r))
}

// text is the table with its sums.
func (s *survey) text() string {
	return fmt.Sprintf("%s\n%d acknowledged tasks and %d operations that succeeded in %.0f s, workload %s, seed %d, %v of each fault.\n",
		&s.table, s.acked, s.done, time.Since(s.begun).Seconds(), s.cfg.Workload, s.cfg.Seed, s.cfg.Duration)
}

// keep writes the table down as far as it goes.
func (s *survey) keep() error {
	return os.WriteFile(filepath.Join(s.out, "all.md"), []byte(s.text()), 0o644)
}

// done is how many operations of a run succeeded.
func done(r *verdict.Result) (n int) {
	for _, t := range r.Tallies {
		n += t.OK
	}
	return n
}

// row is that of one run.
func row(r *verdict.Result) string {
	remarks := slices.Concat(r.Findings, r.Missing)
	if r.Ended {
		remarks = slices.Insert(remarks, 0, "ended by somebody")
	}
	var whole []string
	for _, w := range r.Windows {
		if w.Whole > 0 {
			whole = append(whole, fmt.Sprintf("%.1f", (w.Whole-w.To).Seconds()))
		}
	}
	return fmt.Sprintf("| %s | %s | %.0f | %d | %s | %d | %d | %s | %s |", r.Config.Fault, r.Verdict, r.Took.Seconds(), len(r.Windows), strings.Join(whole, " "),
		r.Acked, done(r), r.Network, oneLine(strings.Join(remarks, "; ")))
}

func oneLine(s string) string {
	s = strings.NewReplacer("\n", " ", "|", "/").Replace(s)
	return s[:min(len(s), 400)]
}
