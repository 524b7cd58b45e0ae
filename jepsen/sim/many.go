package sim

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/stats"
)

// Many runs seeds side by side.
type Many struct {
	From, Seeds uint64
	// Workers is how many run at once; each takes about a core.
	Workers int
	Mutant  nodes.Mutant
	// Cluster runs seeds of clusters, not of one node.
	Cluster bool
	// Schedules runs seeds of clusters that launch schedules.
	Schedules bool
	// Fierce has clusters change leaders and cohorts all the time, with disks that
	// lose nothing, and looks at all of their messages and disks meanwhile.
	Fierce bool
	// Forget has clusters collect at once and forget after seconds, and nodes that
	// are to leave stay away for longer than that.
	Forget bool
	// Cuts has one node of a cluster after the other cut off from the rest, and nothing
	// else go wrong.
	Cuts bool
	// Crowd runs seeds of clusters with hundreds of everything in one partition.
	Crowd bool
	// Lies has one node of a cluster lie to all others.
	Lies bool
	// Enough is asked before each seed but the first: true begins no more; nil: never.
	Enough func() bool
	// Size is how many nodes clusters begin with and keep, but for one more or less
	// while nodes come and go; 0: it is drawn.
	Size int
	// Stop is asked now and then, from any goroutine: true gives up the runs that
	// are under way, with what was found until then; nil: never.
	Stop func() bool
	// Trace adds notes to the histories of clusters.
	Trace bool
	// also is begun with the clients of a cluster; nil: nothing is.
	also func(*sim)
	// Progress hears of every run that has ended, from any goroutine but one at
	// a time; nil: nobody does.
	Progress func(done uint64, sum *stats.Stats)
	// Ended hears of every run that has ended, like Progress.
	Ended func(*Result)
}

// Total is what came of many runs.
type Total struct {
	Sum   stats.Stats
	Seeds uint64 // that ran
	// Calm are those in which too little happened for them to count: they are not
	// passed, but invalid. Why says how often what was missing.
	Calm    uint64
	Why     map[string]int
	Virtual time.Duration // of all together
	Nodes   uint64        // of all together
	Digest  uint64        // of all histories, in whichever order they ended
	Outputs uint64        // digest of what all nodes wanted done, likewise
	// Failed is the failure with the lowest seed among those found, or nil.
	Failed *Result
}

// Run runs the seeds until one of them breaks a promise.
func (m Many) Run() (t Total) {
	var next atomic.Uint64
	var stop atomic.Bool
	var left sync.WaitGroup
	var mu sync.Mutex // guards t
	for range max(1, m.Workers) {
		left.Add(1)
		go func() {
			defer left.Done()
			for !stop.Load() {
				n := next.Add(1) - 1
				if n >= m.Seeds || n > 0 && m.Enough != nil && m.Enough() {
					return
				}
				r := m.One(m.From + n)
				mu.Lock()
				t.add(r)
				if r.Violation != nil {
					stop.Store(true)
				}
				if m.Ended != nil {
					m.Ended(r)
				}
				if m.Progress != nil {
					m.Progress(t.Seeds, &t.Sum)
				}
				mu.Unlock()
			}
		}()
	}
	left.Wait()
	return t
}

// One runs one seed.
func (m Many) One(seed uint64) *Result {
	if m.Schedules {
		return runCron(seed, m)
	}
	if m.Crowd {
		return runCrowd(seed, m)
	}
	if m.Cluster {
		return runCluster(seed, m)
	}
	return runOne(seed, m)
}

// again is the command that runs a seed again. Some have no program, but a test.
func (m *Many) again(seed uint64) string {
	const test = "go test ./jepsen/sim -count=1 -timeout 60m -events 0"
	switch {
	case m.Schedules:
		return fmt.Sprintf("%s -run '^TestCron$' -crons 1 -seed %d", test, seed)
	case m.Crowd:
		return fmt.Sprintf("%s -run '^TestCrowd$' -crowds 1 -seed %d", test, seed)
	case m.Cuts:
		return fmt.Sprintf("%s -run '^TestCutsKeepNoTaskWaiting$' -cuts %d", test, seed) // after all before it
	}
	return fmt.Sprintf("make sim SEED=%d SEEDS=1 SIMARGS='%s -events=0'", seed, m.flags())
}

// flags are those with which the program runs such seeds.
func (m *Many) flags() string {
	if !m.Cluster {
		return "-nodes=1"
	}
	all := "-nodes=many"
	if m.Size > 0 {
		all += fmt.Sprintf(" -size=%d", m.Size)
	}
	if m.Fierce {
		all += " -fierce"
	}
	if m.Forget {
		all += " -forget"
	}
	if m.Lies {
		all += " -lies"
	}
	return all
}

func (t *Total) add(r *Result) {
	t.Seeds++
	t.Sum.Add(&r.Stats)
	t.Virtual += r.Virtual
	t.Nodes += uint64(r.Nodes)
	t.Digest += r.Sum
	t.Outputs += r.Outputs
	if r.Calm != "" && r.Violation == nil {
		t.Calm++
		if t.Why == nil {
			t.Why = make(map[string]int)
		}
		t.Why[r.Calm]++
	}
	if r.Violation != nil && (t.Failed == nil || r.Seed < t.Failed.Seed) {
		t.Failed = r
	}
}
