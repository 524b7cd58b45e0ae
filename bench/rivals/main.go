package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
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
	// latencyShare of what JetStream's workers claim and complete in the same round, each a task
	// at a time, is the rate of the other latency row: a fixed rate is near the limit of a slow
	// machine and far from that of a fast one. It is 2,000 of the 11,000 tasks a second that
	// JetStream did on the machine on which latencyRate was chosen.
	latencyShare = 2.0 / 11
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
	rate   int // tasks a second, of a latency; 0: by [latencyShare]
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
	only := flag.String("only", "", "measure the rows only whose name matches this regular `expression`")
	access := flag.Bool("access", false, "what roles cost: Norn that asks nobody beside Norn with a token that may use some queues, without JetStream")
	flag.Parse()
	rows, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "rivals: -only:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := compare(ctx, contenders(*norn, *nats, *access), rows, *data, *rounds, *scale); err != nil {
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

func compare(ctx context.Context, contenders []contender, rows *regexp.Regexp, data string, rounds int, scale float64) error {
	all := []work{
		{"enqueue x 1", enqueues, 1, false, 60_000, 0},
		{"enqueue x 100", enqueues, many, false, 300_000, 0},
		{"claim + complete x 1, strict", claims, 1, true, 20_000, 0},
		{fmt.Sprintf("claim + complete x 1, %d ahead", ahead), claims, 1, false, 20_000, 0},
		{"claim + complete x 100", claims, many, true, 100_000, 0},
		{fmt.Sprintf("enqueue to claim at %d/s, ms", latencyRate), latency, 1, true, 20_000, latencyRate},
		{fmt.Sprintf("enqueue to claim at %.2f of those claims, ms", latencyShare), latency, 1, true, 20_000, 0},
	}
	works := slices.DeleteFunc(all, func(w work) bool { return !rows.MatchString(w.name) })
	results := make(map[[2]string][]result)
	failed := measure(ctx, contenders, works, results, data, rounds, scale)
	works = slices.DeleteFunc(works, func(w work) bool { return whole(contenders, w, results) == 0 })
	return errors.Join(table(contenders, works, results), failed)
}

// whole takes what a work lacks of some contender from the others, and gives how many rounds are left.
func whole(contenders []contender, w work, results map[[2]string][]result) int {
	least := math.MaxInt
	for _, c := range contenders {
		least = min(least, len(results[[2]string{w.name, c.name}]))
	}
	for _, c := range contenders {
		key := [2]string{w.name, c.name}
		results[key] = results[key][:least]
	}
	return least
}

// measure has all do all works in turns. What was measured before an error is in results.
func measure(ctx context.Context, contenders []contender, works []work, results map[[2]string][]result, data string, rounds int, scale float64) error {
	for round := range rounds {
		claimed := 0.0 // tasks a second by the first contender in this round
		for _, w := range works {
			if w.kind == latency && w.rate == 0 {
				if w.rate = int(claimed * latencyShare); w.rate == 0 {
					return fmt.Errorf("%s: -only leaves out the row of claims ahead, whose rate it needs", w.name)
				}
			}
			w.tasks = max(w.batch*producers, int(float64(w.tasks)*scale))
			for _, c := range contenders {
				r, err := once(ctx, data, c, w)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.name, w.name, err)
				}
				if w.kind == claims && w.batch == 1 && !w.strict && c.name == contenders[0].name {
					claimed = r.rate
				}
				name := w.name
				if w.kind == latency {
					name += fmt.Sprintf(" (%d/s)", w.rate)
				}
				fmt.Fprintf(os.Stderr, "round %d: %s: %s: %v\n", round+1, name, c.name, r)
				key := [2]string{w.name, c.name}
				results[key] = append(results[key], r)
			}
		}
	}
	return nil
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
