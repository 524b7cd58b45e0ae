package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// Sizes of the work, those of docs/performance.md.
const (
	producers = 64
	workers   = 16
	payload   = 100 // bytes
	many      = 100 // tasks at a time
)

// work is a row of the table: what is measured, and with how many tasks.
type work struct {
	name  string
	claim bool // claims and completions of what was enqueued before; else enqueues
	batch int
	tasks int
}

// contender is a column: how a fresh cluster of it does the work, in tasks per second.
type contender struct {
	name string
	run  func(ctx context.Context, dir string, w work) (float64, error)
}

func main() {
	norn := flag.String("norn", "bin/norn", "the `program` of Norn")
	nats := flag.String("nats", "bin/nats-server", "the `program` of NATS")
	data := flag.String("data", "", "`directory` below which the servers keep their data; empty: the system's for temporary files")
	rounds := flag.Int("rounds", 3, "how often everything is measured, in turns")
	scale := flag.Float64("scale", 1, "how many times as many tasks as by default")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx, *norn, *nats, *data, *rounds, *scale); err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, norn, nats, data string, rounds int, scale float64) error {
	contenders := []contender{
		{"JetStream", jetStream{nats, "2m"}.run},
		{"JetStream, sync always", jetStream{nats, "always"}.run},
		{"Norn", nornCluster{norn}.run},
	}
	works := []work{
		{"enqueue x 1", false, 1, 60_000},
		{"enqueue x 100", false, many, 300_000},
		{"claim + complete x 1", true, 1, 20_000},
		{"claim + complete x 100", true, many, 100_000},
	}
	rates := make(map[[2]string][]float64)
	for round := range rounds {
		for _, w := range works {
			w.tasks = max(w.batch*producers, int(float64(w.tasks)*scale))
			for _, c := range contenders {
				rate, err := once(ctx, data, c, w)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, w.name, err)
				}
				fmt.Fprintf(os.Stderr, "round %d: %s: %s: %.0f/s\n", round+1, w.name, c.name, rate)
				key := [2]string{w.name, c.name}
				rates[key] = append(rates[key], rate)
			}
		}
	}
	return table(contenders, works, rates)
}

// once runs one work on a fresh cluster.
func once(ctx context.Context, data string, c contender, w work) (float64, error) {
	dir, err := os.MkdirTemp(data, "rivals-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return c.run(ctx, dir, w)
}

// table prints medians, with the lowest and the highest rate, and what Norn's is as a multiple
// of each of the others: the median of the rounds' own ratios.
func table(contenders []contender, works []work, rates map[[2]string][]float64) error {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "tasks per second, median (lowest to highest)")
	for _, c := range contenders {
		fmt.Fprint(t, "\t", c.name)
	}
	last := contenders[len(contenders)-1].name
	for _, c := range contenders[:len(contenders)-1] {
		fmt.Fprintf(t, "\t%s / %s", last, c.name)
	}
	fmt.Fprintln(t)
	for _, w := range works {
		fmt.Fprint(t, w.name)
		own := rates[[2]string{w.name, last}]
		for _, c := range contenders {
			r := rates[[2]string{w.name, c.name}]
			fmt.Fprintf(t, "\t%.0f (%.0f to %.0f)", median(r), slices.Min(r), slices.Max(r))
		}
		for _, c := range contenders[:len(contenders)-1] {
			var ratios []float64
			for i, r := range rates[[2]string{w.name, c.name}] {
				ratios = append(ratios, own[i]/r)
			}
			fmt.Fprintf(t, "\t%.2f", median(ratios))
		}
		fmt.Fprintln(t)
	}
	return t.Flush()
}

func median(all []float64) float64 {
	sorted := slices.Sorted(slices.Values(all))
	return sorted[len(sorted)/2]
}

// processes are servers that were started together.
type processes []*exec.Cmd

// start starts a server whose output goes to a file in dir.
func (p *processes) start(dir, name, program string, args ...string) error {
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		return err
	}
	*p = append(*p, cmd)
	return nil
}

// stop ends all of them.
func (p processes) stop() {
	for _, cmd := range p {
		_ = cmd.Process.Signal(syscall.SIGTERM)
	}
	for _, cmd := range p {
		_ = cmd.Wait() // it was told to end
	}
}

var errSlow = errors.New("the servers were not ready within a minute")

// patience waits until something is so.
func patience(ctx context.Context, is func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-ctx.Done():
			return errSlow
		case <-tick.C:
		}
	}
	return nil
}

// firstLine is the beginning of what a program has said, for errors.
func firstLine(out []byte) string {
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return line
}
