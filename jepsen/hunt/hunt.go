package hunt

import (
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim"
)

// Ground is where a mistake is looked for.
type Ground struct {
	Name string
	// Walk looks once, with one seed, and gives what it has found, or nil.
	// Once stop says so the walk may end early.
	Walk func(seed uint64, stop func() bool) *check.Violation
}

// Cost is how many walks of other grounds take as long as one of this.
func (g Ground) Cost() uint64 {
	if g.Name == Crowds.Name {
		return 10
	}
	return 1
}

// The grounds of the simulator.
var (
	OneNode = Ground{"simulator, one node", func(seed uint64, stop func() bool) *check.Violation {
		return guarded(seed, sim.Many{Stop: stop})
	}}
	Clusters = Ground{"simulator, clusters", func(seed uint64, stop func() bool) *check.Violation {
		return guarded(seed, sim.Many{Cluster: true, Fierce: true, Stop: stop})
	}}
	Schedules = Ground{"simulator, schedules", func(seed uint64, stop func() bool) *check.Violation {
		return guarded(seed, sim.Many{Schedules: true, Stop: stop})
	}}
	// Crowds are clusters with hundreds of everything in one partition.
	Crowds = Ground{"simulator, crowds", func(seed uint64, stop func() bool) *check.Violation {
		return guarded(seed, sim.Many{Crowd: true, Stop: stop})
	}}
)

// guarded takes a panic for what it is: a process that dies of a mistake (I18).
func guarded(seed uint64, many sim.Many) (v *check.Violation) {
	defer func() { v = fallen(recover(), v) }()
	return many.One(seed).Violation
}

// fallen is the violation that a panic is; without one it is v.
func fallen(p any, v *check.Violation) *check.Violation {
	if p == nil {
		return v
	}
	where := ""
	for _, line := range strings.Split(string(debug.Stack()), "\n") {
		if strings.HasPrefix(line, "github.com/norn-dev/norn/") && !strings.Contains(line, "jepsen") {
			where = " in " + strings.TrimPrefix(line, "github.com/norn-dev/norn/")
			break
		}
	}
	return &check.Violation{Invariant: check.Internal, Text: fmt.Sprintf("panic: %v%s", p, where)}
}

// Quarry is a mistake and where it is looked for.
type Quarry struct {
	Mistake mutant.ID
	Ground  Ground
	Unit    Unit // where no ground shows it: the test that must fail
	// Breaks are the invariants by which it must be found. What another one finds is no
	// trophy: it would hide that the checker that is there for the mistake is blind.
	Breaks []string
}

// Grounds are all there are.
func Grounds() []Ground { return []Ground{OneNode, Clusters, Schedules, FailingDisk, Crowds} }

// Trophy is what came of a hunt.
type Trophy struct {
	Quarry
	// Found is nil when the mistake was not found.
	Found *check.Violation
	// Wrong says how often which other invariants were broken before.
	Wrong map[string]uint64
	Seed  uint64 // that found it
	Seeds uint64 // that were walked
	Took  time.Duration
}

// right tells whether a violation is one that finds the mistake. Where none is made all
// that is found is too much.
func (q *Quarry) right(v *check.Violation) bool {
	return q.Mistake == mutant.None || slices.Contains(q.Breaks, v.Invariant)
}

// Hunt looks for a mistake until it is found by what is there for it, with seeds
// from 1 on, for as long as it may take, with so many walks at once. Without a
// mistake it looks on the same ground for what must not be there.
func Hunt(q Quarry, workers int, limit time.Duration, seeds uint64) Trophy {
	mutant.Choose(q.Mistake)
	defer mutant.Choose(mutant.None)
	t := Trophy{Quarry: q, Wrong: map[string]uint64{}}
	began := time.Now()
	var mu sync.Mutex // guards t and next
	next := uint64(1)
	over := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return t.Found != nil || time.Since(began) > limit
	}
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for {
				mu.Lock()
				seed := next
				next++
				mu.Unlock()
				if over() || seeds > 0 && seed > seeds {
					return
				}
				v := q.Ground.Walk(seed, over)
				mu.Lock()
				t.Seeds++
				switch {
				case v == nil || t.Found != nil:
				case q.right(v):
					t.Found, t.Seed, t.Took = v, seed, time.Since(began)
				default:
					t.Wrong[v.Invariant]++
				}
				mu.Unlock()
			}
		})
	}
	all.Wait()
	if t.Found == nil {
		t.Took = time.Since(began)
	}
	return t
}
