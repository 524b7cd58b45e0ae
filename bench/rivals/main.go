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

// Sizes of the work, those of docs/explanation/performance.md.
const (
	producers      = 64
	workers        = 16
	payload        = 100  // bytes
	many           = 100  // tasks at a time
	ahead          = 10   // tasks that a worker holds in advance, where it does
	latencyRate    = 2000 // tasks a second
	latencyWorkers = 8
)

// kind is what a work is about.
type kind int

const (
	enqueues kind = iota
	claims        // and completions of what was enqueued before
	latency       // from enqueue to claim at a rate
)

// work is a row of the table: what is measured, and with how many tasks.
type work struct {
	name   string
	kind   kind
	batch  int
	strict bool // a worker holds no task in advance
	tasks  int
}

// held is how many tasks a worker of a contender claims at a time.
func (w work) held(ahead int) int {
	if w.strict || w.batch > 1 {
		return w.batch
	}
	return ahead
}

// result is what came of a work: a rate, or latencies, and what each task has cost.
type result struct {
	rate           float64 // tasks per second; 0 of a latency
	p50, p99       float64 // ms, of a latency
	servers, load  float64 // µs of processor time per task
	syncs, between float64 // synced rounds and messages between servers per task; 0: not known
}

// figure is what contenders are compared by: more is better, of latencies less.
func (r result) figure() float64 {
	if r.rate > 0 {
		return r.rate
	}
	return r.p99
}

func (r result) String() string {
	s := fmt.Sprintf("%.0f/s", r.rate)
	if r.rate == 0 {
		s = fmt.Sprintf("p50 %.1f ms, p99 %.1f ms", r.p50, r.p99)
	}
	s += fmt.Sprintf(", µs per task: servers %.0f, load %.0f", r.servers, r.load)
	if r.syncs > 0 {
		s += fmt.Sprintf("; synced rounds %.2f, messages %.2f", r.syncs, r.between)
	}
	return s
}

// contender is a column: how a fresh cluster of it does the work.
type contender struct {
	name string
	run  func(ctx context.Context, dir string, w work) (result, error)
}

func main() {
	norn := flag.String("norn", "bin/norn", "the `program` of Norn")
	nats := flag.String("nats", "bin/nats-server", "the `program` of NATS")
	data := flag.String("data", "", "`directory` below which the servers keep their data; empty: the system's for temporary files")
	rounds := flag.Int("rounds", 3, "how often everything is measured, in turns")
	scale := flag.Float64("scale", 1, "how many times as many tasks as by default")
	access := flag.Bool("access", false, "what roles cost: Norn that asks nobody beside Norn with a token that may use some queues, without JetStream")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx, contenders(*norn, *nats, *access), *data, *rounds, *scale); err != nil {
		fmt.Fprintln(os.Stderr, "rivals:", err)
		os.Exit(1)
	}
}

// contenders are those that are compared; the last one with each of the others.
func contenders(norn, nats string, access bool) []contender {
	if access {
		return []contender{{"Norn, open", nornCluster{norn, false}.run}, {"Norn, with roles", nornCluster{norn, true}.run}}
	}
	return []contender{
		{"JetStream", jetStream{nats, "2m", ahead}.run},
		{"JetStream, sync always", jetStream{nats, "always", ahead}.run},
		{"Norn", nornCluster{norn, false}.run},
	}
}

func compare(ctx context.Context, contenders []contender, data string, rounds int, scale float64) error {
	works := []work{
		{"enqueue x 1", enqueues, 1, false, 60_000},
		{"enqueue x 100", enqueues, many, false, 300_000},
		{"claim + complete x 1, strict", claims, 1, true, 20_000},
		{fmt.Sprintf("claim + complete x 1, %d ahead", ahead), claims, 1, false, 20_000},
		{"claim + complete x 100", claims, many, true, 100_000},
		{fmt.Sprintf("enqueue to claim at %d/s, ms", latencyRate), latency, 1, true, 20_000},
	}
	results := make(map[[2]string][]result)
	for round := range rounds {
		for _, w := range works {
			w.tasks = max(w.batch*producers, int(float64(w.tasks)*scale))
			for _, c := range contenders {
				r, err := once(ctx, data, c, w)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, w.name, err)
				}
				fmt.Fprintf(os.Stderr, "round %d: %s: %s: %v\n", round+1, w.name, c.name, r)
				key := [2]string{w.name, c.name}
				results[key] = append(results[key], r)
			}
		}
	}
	return table(contenders, works, results)
}

// once runs one work on a fresh cluster.
func once(ctx context.Context, data string, c contender, w work) (result, error) {
	dir, err := os.MkdirTemp(data, "rivals-")
	if err != nil {
		return result{}, err
	}
	defer os.RemoveAll(dir)
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	return c.run(ctx, dir, w)
}

// table prints medians, with the lowest and the highest, what Norn's is as a multiple of each
// of the others (the median of the rounds' own ratios; of latencies p99, where less is better),
// and what a task costs.
func table(contenders []contender, works []work, results map[[2]string][]result) error {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(t, "median (lowest to highest); µs per task of servers + load")
	for _, c := range contenders {
		fmt.Fprint(t, "\t", c.name)
	}
	last := contenders[len(contenders)-1].name
	for _, c := range contenders[:len(contenders)-1] {
		fmt.Fprintf(t, "\t%s / %s", last, c.name)
	}
	fmt.Fprintln(t, "\tsynced rounds, messages per task of", last)
	for _, w := range works {
		fmt.Fprint(t, w.name)
		own := results[[2]string{w.name, last}]
		for _, c := range contenders {
			fmt.Fprint(t, "\t", cell(results[[2]string{w.name, c.name}]))
		}
		for _, c := range contenders[:len(contenders)-1] {
			var ratios []float64
			for i, r := range results[[2]string{w.name, c.name}] {
				ratios = append(ratios, own[i].figure()/r.figure())
			}
			fmt.Fprintf(t, "\t%.2f", median(ratios))
		}
		of := func(f func(result) float64) float64 { return median(each(own, f)) }
		fmt.Fprintf(t, "\t%.2f, %.2f\n", of(func(r result) float64 { return r.syncs }), of(func(r result) float64 { return r.between }))
	}
	return t.Flush()
}

// cell is what a contender did in all rounds of a work.
func cell(all []result) string {
	of := func(f func(result) float64) float64 { return median(each(all, f)) }
	figures := each(all, result.figure)
	s := fmt.Sprintf("%.0f (%.0f to %.0f)", median(figures), slices.Min(figures), slices.Max(figures))
	if all[0].rate == 0 {
		s = fmt.Sprintf("%.1f / %.1f (%.1f to %.1f)", of(func(r result) float64 { return r.p50 }), median(figures), slices.Min(figures), slices.Max(figures))
	}
	return s + fmt.Sprintf("; %.0f + %.0f", of(func(r result) float64 { return r.servers }), of(func(r result) float64 { return r.load }))
}

func each(all []result, f func(result) float64) (out []float64) {
	for _, r := range all {
		out = append(out, f(r))
	}
	return out
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
