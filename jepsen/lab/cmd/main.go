package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/norn-dev/norn/jepsen/lab"
	"github.com/norn-dev/norn/jepsen/lab/cluster"
	"github.com/norn-dev/norn/jepsen/lab/faults"
	"github.com/norn-dev/norn/jepsen/lab/machine"
	"github.com/norn-dev/norn/jepsen/lab/verdict"
	"github.com/norn-dev/norn/jepsen/lab/workloads"
)

func main() { os.Exit(run()) }

func run() int {
	var cfg cluster.Config
	var seconds int
	var out string
	var again string
	var list, each bool
	flag.StringVar(&cfg.Norn, "norn", "bin/norn", "the program under test")
	flag.StringVar(&cfg.Fault, "fault", "partition", "faults, with commas between; mix: all that need nothing special; all")
	flag.StringVar(&cfg.Workload, "workload", "enqueue", "what clients do")
	flag.IntVar(&seconds, "seconds", 30, "how long faults come")
	flag.Uint64Var(&cfg.Seed, "seed", 1, "which faults, in which order and for how long")
	flag.IntVar(&cfg.Nodes, "nodes", 3, "nodes to begin with")
	flag.BoolVar(&cfg.Proxy, "proxy", false, "nodes on loopback behind a proxy, also where network namespaces are allowed")
	flag.StringVar(&out, "out", filepath.Join("bin", "lab"), "directory of reports and histories")
	flag.BoolVar(&cfg.Unfenced, "unfenced", false, "say nothing about claims: of a build of before there were elections")
	flag.StringVar(&again, "judge", "", "judge a saved run again: one of its files")
	flag.DurationVar(&cfg.Think, "think", 120*time.Millisecond, "pause of a client between two calls, on average")
	flag.DurationVar(&cfg.Eta, "eta", 0, "how far nodes are told that clocks may differ, and messages be late; probes go by it, too (0: 200ms; more on a busy machine)")
	flag.StringVar(&cfg.Old, "old", os.Getenv("NORN_LAB_OTHER"), "another build, for upgrades (NORN_LAB_OTHER)")
	flag.StringVar(&cfg.Clocks, "clocks", "", "a build whose clock can be set wrong (make build-test)")
	flag.BoolVar(&each, "all", false, "a run for each fault, and a table")
	flag.BoolVar(&list, "list", false, "list faults and workloads")
	flag.Parse()
	if list {
		return show()
	}
	if again != "" {
		r, err := verdict.Again(again)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
		return told(r, filepath.Dir(again))
	}
	cfg.Duration = time.Duration(seconds) * time.Second
	cfg.Progress = os.Stderr
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := os.MkdirAll(out, 0o755); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if each {
		return all(ctx, cfg, out)
	}
	cfg.Logs = name(out, cfg) + "-logs"
	r, err := lab.Run(ctx, cfg)
	var not *machine.NotRun
	switch {
	case errors.As(err, &not):
		fmt.Println(not)
		return 3
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return told(r, out)
}

// told prints and keeps what came of a run, and gives the exit status.
func told(r *verdict.Result, out string) int {
	if err := errors.Join(r.Markdown(os.Stdout), save(out, r)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	if r.Verdict != verdict.Passed {
		return 1
	}
	return 0
}

// show lists what there is.
func show() int {
	for _, f := range faults.Faults() {
		fmt.Printf("fault     %-16s %s\n", f.Name, f.About)
	}
	for _, w := range workloads.Workloads() {
		fmt.Printf("workload  %-16s %s\n", w.Name, w.About)
	}
	return 0
}

// name is that of the files of a run, without an ending.
func name(dir string, c cluster.Config) string { return filepath.Join(dir, c.Name()) }

// save writes the reports and the history into files named after the run.
func save(dir string, r *verdict.Result) error {
	if err := r.Keep(dir); err != nil {
		return err
	}
	name := name(dir, r.Config)
	fmt.Fprintf(os.Stderr, "report %s.md and .html, history %s.jsonl\n", name, name)
	return nil
}
