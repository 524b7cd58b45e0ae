package main

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/sim"
	"github.com/norn-dev/norn/jepsen/sim/mutants"
	"github.com/norn-dev/norn/jepsen/sim/stats"
)

// options are those of the command line.
type options struct {
	from, seeds, clusters       uint64
	workers, events, size       int
	nodes, out, name            string
	profile                     string
	trace, forget, fierce, lies bool
	outputs                     bool
	time                        time.Duration
}

func main() {
	var o options
	flag.Uint64Var(&o.from, "seed", 1, "first seed")
	flag.Uint64Var(&o.seeds, "seeds", 1000, "number of seeds of one node")
	flag.Uint64Var(&o.clusters, "clusters", 0, "number of seeds of clusters; 0: one for each 20 of one node, or as -nodes says")
	flag.StringVar(&o.nodes, "nodes", "both", "1: one node only, many: clusters only, as many as -seeds says")
	flag.IntVar(&o.size, "size", 0, "nodes of each cluster, one more or less; 0: it is drawn")
	flag.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "seeds that run at once")
	flag.IntVar(&o.events, "events", 100, "events of a failing history to print; 0: all")
	flag.BoolVar(&o.trace, "trace", false, "of a cluster: the history also has messages and changes of the register")
	flag.BoolVar(&o.forget, "forget", false, "clusters forget within seconds what they have collected, and nodes stay away for longer")
	flag.BoolVar(&o.lies, "lies", false, "one node of a cluster lies to all others: it may cost itself, no other node and no task")
	flag.BoolVar(&o.fierce, "fierce", false, "clusters change leaders and cohorts all the time, and all messages and disks are looked at meanwhile")
	flag.DurationVar(&o.time, "for", 0, "begin no seed after this `long`, of one node, and again of clusters; 0: as many as -seeds says")
	flag.StringVar(&o.out, "history", "", "file for the history of a failing seed, or of the only one, as JSON lines")
	flag.StringVar(&o.name, "mutant", "", "run a mutant: the one whose name contains this")
	flag.BoolVar(&o.outputs, "outputs", false, "print a line per seed: the digests of its history and of what its nodes wanted done")
	flag.StringVar(&o.profile, "cpuprofile", "", "file for a profile of where the processor time goes")
	flag.Parse()
	// A run makes little that lasts: collecting less often is faster, as long as the heap
	// does not become larger than what is fresh in memory (docs/archive/performance.md).
	debug.SetGCPercent(400)
	os.Exit(o.profiled())
}

// profiled runs everything and writes down where the time went, if asked to.
func (o *options) profiled() int {
	if o.profile == "" {
		return o.all()
	}
	f, err := os.Create(o.profile)
	if err == nil {
		err = pprof.StartCPUProfile(f)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	status := o.all()
	pprof.StopCPUProfile()
	if err := f.Close(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	return status
}

// all runs seeds of one node, then of clusters.
func (o *options) all() int {
	if o.clusters == 0 {
		o.clusters = (o.seeds + 19) / 20
	}
	switch o.nodes {
	case "1":
		return o.run(false, o.seeds)
	case "many":
		return o.run(true, o.seeds)
	}
	return max(o.run(false, o.seeds), o.run(true, o.clusters))
}

func (o *options) run(cluster bool, seeds uint64) int {
	many := sim.Many{From: o.from, Seeds: seeds, Workers: o.workers, Cluster: cluster, Trace: o.trace, Size: o.size, Forget: o.forget, Fierce: o.fierce, Lies: o.lies}
	wrong := mutants.OfOne()
	if cluster {
		wrong = mutants.OfClusters()
	}
	for _, m := range wrong {
		if o.name != "" && strings.Contains(m.Name, o.name) {
			many.Mutant = m
			fmt.Fprintf(os.Stderr, "mutant: %s\n", m.Name)
			break
		}
	}
	began := time.Now()
	said := began
	if o.time > 0 {
		many.Enough = func() bool { return time.Since(began) > o.time }
	}
	many.Progress = func(done uint64, sum *stats.Stats) {
		if now := time.Now(); now.Sub(said) > 5*time.Second {
			said = now
			fmt.Fprintf(os.Stderr, "%d of %d seeds, %.1f per second, %d operations, %d grants, %d crashes\n",
				done, seeds, float64(done)/now.Sub(began).Seconds(), sum[stats.Operations], sum[stats.Grants], sum[stats.Crashes])
		}
	}
	if o.outputs {
		many.Ended = func(r *sim.Result) {
			fmt.Printf("seed %d of %d nodes: history %016x, outputs %016x\n", r.Seed, r.Nodes, r.Sum, r.Outputs)
		}
	}
	idle := processor()
	all := many.Run()
	took, worked := time.Since(began).Seconds(), (processor() - idle).Seconds()
	what := "of one node"
	if cluster {
		what = "of clusters"
	}
	fmt.Printf("%d seeds %s from %d in %.1f s, %.1f per second on %d cores, digest of all outputs %016x\n%s\n", all.Seeds, what, o.from, took, float64(all.Seeds)/took, o.workers, all.Outputs, &all.Sum)
	if cluster {
		virtual := all.Virtual.Seconds()
		fmt.Printf("%.0f simulated seconds of %.1f nodes with %.1f operations a second, %.0f of them in a second and %.0f in one of a processor (%.1f s); digest of all histories %016x\n",
			virtual, float64(all.Nodes)/float64(all.Seeds), float64(all.Sum[stats.Operations])/virtual, virtual/took, virtual/worked, worked, all.Digest)
		fmt.Printf("%d seeds valid, %d invalid", all.Seeds-all.Calm, all.Calm)
		for _, why := range slices.Sorted(maps.Keys(all.Why)) {
			fmt.Printf("; %d %s", all.Why[why], why)
		}
		fmt.Println()
	}
	return o.judge(&many, &all, seeds)
}

// judge reports the failure, if there is one, and gives the exit status.
func (o *options) judge(many *sim.Many, all *sim.Total, seeds uint64) int {
	r := all.Failed
	if r == nil && seeds == 1 && (o.out != "" || o.events == 0) {
		r = many.One(o.from)
	}
	if r != nil && o.out != "" {
		if err := save(o.out, r.Events); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 2
		}
	}
	if r != nil && (r.Violation != nil || o.events == 0) {
		r.Report(os.Stdout, o.events)
	}
	if r != nil && r.Violation != nil {
		return 1
	}
	switch missing := all.Sum.Calm(int(all.Seeds)); {
	case many.Cluster && 4*all.Calm > all.Seeds:
		fmt.Println("too little happened in a quarter of the seeds for them to prove anything")
		return 1
	case !many.Cluster && len(missing) > 0 && all.Seeds >= 100:
		fmt.Printf("too little happened to prove anything: %s\n", strings.Join(missing, "; "))
		return 1
	}
	fmt.Println("no violation")
	return 0
}

// processor is the time that this process has had of processors.
func processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
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
