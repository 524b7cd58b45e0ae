package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/norn-dev/norn/bench"
	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/cmd/norn/cli"
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
twice, or a call failed. The tasks stay, in a queue of their own.

Latency is measured against a schedule that is fixed ahead: a task's time runs
from when it was to be sent. sent_late_* says how much of that is this program's.

The failover scenario starts a cluster of its own on this machine, and kills one
node after the other (-9), or freezes it, under enqueues and claims. For each time
it tells how long nobody's enqueue was acknowledged, how long the producer waited
that waited longest, how long nobody was given a task, and how long the task waited
for its claim that waited longest. Tasks whose grant died with the node are held
until its lease is over, and counted apart. It cuts no network: see make lab.

--limits measures the machine in the same run: fdatasync of 4 KiB on a file in
DIRECTORY (take the disk of the server's data) and 64 bytes there and back over
loopback; figures are then also given as multiples of these.`,
		Example: "  norn bench --scenario enqueue --batch 100\n  norn bench --scenario latency --rate 2000 --duration 30s -o json | jq .figures\n  norn bench --scenario claim --limits=/var/lib/norn",
	}
	over := failoverOptions{}
	benchFlags(cmd, &cfg, &over, scenarios)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return benchCommand{a}.run(cmd, cfg, over) }
	return cmd
}

// benchFlags are the flags of the command.
func benchFlags(cmd *cobra.Command, cfg *bench.Config, over *failoverOptions, scenarios []string) {
	f := cmd.Flags()
	f.StringVar(&cfg.Scenario, "scenario", cfg.Scenario, strings.Join(scenarios, ", "))
	f.IntVar(&cfg.Tasks, "tasks", cfg.Tasks, "tasks to measure (default: the scenario's)")
	f.IntVar(&cfg.Clients, "clients", 0, "share so many clients, and as many of workers, in turns at the addresses (default: one for each producer and worker, as programs have)")
	f.IntVar(&cfg.Payload, "payload", cfg.Payload, "bytes of each payload")
	f.IntVar(&cfg.Producers, "producers", 0, fmt.Sprintf("enqueue from so many at once (default %d, failover: %d)", bench.Producers(""), bench.Producers("failover")))
	f.IntVar(&cfg.Workers, "workers", 0, fmt.Sprintf("claim from so many at once (default %d, latency: %d, failover: %d)", bench.Workers(""), bench.Workers("latency"), bench.Workers("failover")))
	sessionFlags(cmd, cfg)
	f.IntVar(&cfg.Batch, "batch", cfg.Batch, "tasks per request; workers: tasks that each holds")
	f.IntVar(&cfg.Prefetch, "prefetch", 0, "tasks per claim request; completions go by --batch (default: --batch)")
	f.BoolVar(&cfg.Alternate, "alternate", false, "a worker completes and claims in two requests, one after the other (otherwise in one)")
	f.IntVar(&cfg.Rate, "rate", 0, fmt.Sprintf("tasks per second (latency: default %d, failover: %d)", bench.Rate("latency"), bench.Rate("failover")))
	f.DurationVar(&cfg.Duration, "duration", cfg.Duration, "how long, up to 23h (latency, workers)")
	f.DurationVar(&cfg.Settle, "settle", 0, "pause between filling the queue and claiming, so that the store has merged what filling left (claim, backlog); workers: before measuring, 5s unless told otherwise")
	f.StringVarP(&cfg.Queue, "queue", "q", "", "use this `queue` (default: a new one)")
	f.IntVar(&cfg.Kills, "kills", cfg.Kills, "how often a node is killed (failover)")
	f.IntVar(&cfg.Freezes, "freezes", cfg.Freezes, "how often a node is frozen (failover)")
	f.IntVar(&over.dev.nodes, "nodes", 3, "how many `nodes` are started (failover)")
	f.IntVar(&over.partitions, "partitions", 64, "partitions of their cluster (failover)")
	f.IntVar(&over.dev.basePort, "base-port", 27711, "first `port` of the first of them (failover)")
	f.StringVar(&over.dev.data, "data", "", "keep their data below this `DIR` (failover)")
	f.StringVar(&cfg.Limits, "limits", "", "measure the machine too, its disk in this `directory`")
	f.Lookup("limits").NoOptDefVal = "."
}

// benchCommand is `norn bench`.
type benchCommand struct{ *app }

// run measures what it was asked to.
func (a benchCommand) run(cmd *cobra.Command, cfg bench.Config, over failoverOptions) error {
	f := cmd.Flags()
	for _, name := range []string{"tasks", "clients", "producers", "workers", "prefetch", "rate"} { // where 0 is the default
		if n, _ := f.GetInt(name); f.Changed(name) && n < 1 {
			return cli.Usage("%s must be at least 1", name)
		}
	}
	fromAddresses(cmd, &cfg, cli.OneByOne(a.Addrs))
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(benchGC)
	}
	p := a.Progress("bench")
	var mu sync.Mutex // guards p
	progress := func(stage string, done, total int) {
		mu.Lock()
		defer mu.Unlock()
		p.Stage(stage, done, total)
	}
	var report *bench.Report
	var err error
	if cfg.Scenario == "failover" {
		report, err = a.failover(cmd.Context(), over, cfg, progress)
	} else {
		report, err = bench.Run(cmd.Context(), inTurns(a.app), cfg, progress)
	}
	p.Clear()
	switch {
	case errors.Is(err, bench.ErrConfig):
		return cli.UsageError{Err: err}
	case errors.Is(err, context.Canceled) && cmd.Context().Err() != nil:
		return errors.New("bench: interrupted; it has measured nothing, and the tasks of its queue stay")
	case err != nil:
		return err
	}
	return errors.Join(a.Writer().Object(benchForm(report), func(w io.Writer) { benchTable(w, report) }), report.Valid())
}

// sessionFlags are those of the scenario workers.
func sessionFlags(cmd *cobra.Command, cfg *bench.Config) {
	f := cmd.Flags()
	f.IntVar(&cfg.Connections, "connections", 0, "connections of the sessions, shared by all of them (workers; default: one for each)")
	f.StringSliceVar(&cfg.HTTP, "http", nil, "HTTP `addresses` of all servers, to ask for what they use per task (default: the ports two above those of --addr, if they answer)")
}

// fromAddresses sets what follows from the servers' addresses unless told otherwise.
func fromAddresses(cmd *cobra.Command, cfg *bench.Config, addrs []string) {
	f := cmd.Flags()
	if cfg.HTTPGuessed = !f.Changed("http"); cfg.HTTPGuessed {
		cfg.HTTP = webOf(addrs)
	}
}

// webOf guesses where the HTTP servers of nodes are, as `norn dev` sets them up.
func webOf(addrs []string) (all []string) {
	for _, a := range addrs {
		host, port, err := net.SplitHostPort(a)
		n, bad := strconv.Atoi(port)
		if err == nil && bad == nil {
			all = append(all, net.JoinHostPort(host, strconv.Itoa(n+2)))
		}
	}
	return all
}

// inTurns dials so that each client turns to another node first.
func inTurns(a *app) bench.Dial {
	return turning(cli.OneByOne(a.Addrs), a.DialNodes)
}

func turning(nodes []string, dial func(context.Context, []string) (*client.Client, error)) bench.Dial {
	return func(ctx context.Context, n int) (*client.Client, error) {
		n %= len(nodes)
		return dial(ctx, append(slices.Clone(nodes[n:]), nodes[:n]...))
	}
}

// benchGC is how much the heap of the load generator may grow before it is
// collected: what it saves is the server's, and its heap is small.
const benchGC = 400

// benchForm has every figure that the table has.
func benchForm(r *bench.Report) jsonform.Value {
	figures, units, c := jsonform.Object(), jsonform.Object(), r.Config
	for _, f := range r.Figures {
		figures, units = figures.With(f.Name, jsonform.Float(f.Value)), units.With(f.Name, jsonform.String(f.Unit))
	}
	number := func(n int) jsonform.Value { return jsonform.Float(float64(n)) }
	config := jsonform.Object().
		With("tasks", number(c.Tasks)).With("payload", number(c.Payload)).With("producers", number(c.Producers)).
		With("workers", number(c.Workers)).With("clients", number(c.Clients)).With("batch", number(c.Batch)).With("prefetch", number(c.Prefetch)).With("rate", number(c.Rate)).
		With("alternate", jsonform.Bool(c.Alternate)).
		With("duration_seconds", jsonform.Seconds(c.Duration)).With("queue", jsonform.String(c.Queue))
	rounds := make([]jsonform.Value, len(r.Rounds))
	for i, round := range r.Rounds {
		rounds[i] = jsonform.Object().With("fault", jsonform.String(round.Fault)).With("node", jsonform.String(round.Node)).
			With("enqueue_stops_seconds", jsonform.Seconds(round.Enqueue)).With("producer_waits_seconds", jsonform.Seconds(round.Producer)).
			With("claim_stops_seconds", jsonform.Seconds(round.Claim)).With("task_waits_seconds", jsonform.Seconds(round.Task)).
			With("tasks_held", number(round.Held))
	}
	return jsonform.Object().
		With("rounds", jsonform.List(rounds...)).
		With("scenario", jsonform.String(r.Scenario)).With("valid", jsonform.Bool(r.Valid() == nil)).
		With("figures", figures).With("units", units).With("tasks", number(r.Tasks)).
		With("errors", number(r.Errors)).With("first_error", jsonform.String(r.FirstError)).
		With("duplicates", number(r.Duplicates)).With("lost", number(r.Lost)).With("config", config).
		With("server_version", jsonform.String(r.Server)).With("go_version", jsonform.String(r.GoVersion)).
		With("platform", jsonform.String(r.Platform)).With("cores", number(r.Cores)).With("fsync_before_ack", jsonform.Bool(r.FsyncBeforeAck))
}

func benchTable(w io.Writer, r *bench.Report) {
	c := r.Config
	clients := "a connection for each"
	if c.Clients > 0 {
		clients = fmt.Sprintf("%d connections of each", c.Clients)
	}
	fmt.Fprintf(w, "%s: %s tasks of %d bytes, %d producers, %d workers, %s, batches of %d, claims of %d\n",
		r.Scenario, render.Number(uint64(r.Tasks)), c.Payload, c.Producers, c.Workers, clients, c.Batch, c.Prefetch)
	if r.Scenario == "latency" {
		fmt.Fprintf(w, "schedule: %s a second for %s\n", render.Number(uint64(c.Rate)), render.Duration(c.Duration))
	}
	fsync := "before"
	if !r.FsyncBeforeAck {
		fsync = "not before"
	}
	fmt.Fprintf(w, "queue %s; server %s, fsync %s every acknowledgement; this program: %s, %s, %d cores\n\n",
		c.Queue, r.Server, fsync, r.GoVersion, r.Platform, r.Cores)
	g := render.NewGrid(false, "figure", "value", "unit")
	for _, f := range r.Figures {
		value := strconv.FormatFloat(f.Value, 'f', 3, 64)
		if f.Value >= 1000 || f.Unit == "tasks" {
			value = render.Number(uint64(f.Value + 0.5))
		}
		g.Row(f.Name, value, f.Unit)
	}
	g.Write(w)
	if len(r.Rounds) > 0 {
		fmt.Fprintln(w)
		g := render.NewGrid(false, "fault", "node", "enqueues stop", "a producer waits", "claims stop", "a task waits", "tasks held")
		for _, round := range r.Rounds {
			g.Row(round.Fault, round.Node, inMs(round.Enqueue), inMs(round.Producer), inMs(round.Claim), inMs(round.Task), strconv.Itoa(round.Held))
		}
		g.Write(w)
	}
	fmt.Fprintf(w, "\nerrors %d, claimed twice %d, lost %d\n", r.Errors, r.Duplicates, r.Lost)
}

func inMs(d time.Duration) string { return fmt.Sprintf("%.1f ms", float64(d)/1e6) }
