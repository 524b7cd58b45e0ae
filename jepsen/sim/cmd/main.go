package main

import (
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim"
)

func main() {
	from := flag.Uint64("seed", 1, "first seed")
	seeds := flag.Uint64("seeds", 1000, "number of seeds")
	workers := flag.Int("workers", runtime.GOMAXPROCS(0), "seeds that run at once")
	events := flag.Int("events", 100, "events of a failing history to print; 0: all")
	out := flag.String("history", "", "file for the history of a failing seed, or of the only one, as JSON lines")
	name := flag.String("mutant", "", "run a mutant: the one whose name contains this")
	flag.Parse()
	// A run makes little that lasts: collecting less often is faster.
	debug.SetGCPercent(400)
	os.Exit(run(*from, *seeds, *workers, *events, *out, *name))
}

func run(from, seeds uint64, workers, events int, out, name string) int {
	many := sim.Many{From: from, Seeds: seeds, Workers: workers}
	for _, m := range sim.Mutants() {
		if name != "" && strings.Contains(m.Name, name) {
			many.Mutant = m
			fmt.Fprintf(os.Stderr, "mutant: %s\n", m.Name)
			break
		}
	}
	began := time.Now()
	said := began
	many.Progress = func(done uint64, sum *sim.Stats) {
		if now := time.Now(); now.Sub(said) > 5*time.Second {
			said = now
			fmt.Fprintf(os.Stderr, "%d of %d seeds, %.0f per second, %d operations, %d grants, %d crashes\n",
				done, seeds, float64(done)/now.Sub(began).Seconds(), sum[sim.Operations], sum[sim.Grants], sum[sim.Crashes])
		}
	}
	sum, done, failed := many.Run()
	took := time.Since(began)
	fmt.Printf("%d seeds from %d in %.1f s, %.1f per second on %d cores\n%s\n", done, from, took.Seconds(), float64(done)/took.Seconds(), workers, &sum)
	if failed == nil && seeds == 1 {
		failed = sim.RunMutant(from, many.Mutant)
	}
	if failed != nil && out != "" {
		if err := save(out, failed.Events); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	if failed != nil && (failed.Violation != nil || events == 0) {
		failed.Report(os.Stdout, events)
	}
	if failed != nil && failed.Violation != nil {
		return 1
	}
	if missing := sum.Calm(int(done)); len(missing) > 0 && done >= 100 {
		fmt.Printf("too little happened to prove anything: %s\n", strings.Join(missing, "; "))
		return 1
	}
	fmt.Println("no violation")
	return 0
}

func save(name string, events []*history.Event) error {
	f, err := os.Create(name)
	if err != nil {
		return err
	}
	if err := history.Write(f, events); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
