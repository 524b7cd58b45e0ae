package sim

import (
	"sync"
	"sync/atomic"
)

// Many runs seeds side by side.
type Many struct {
	From, Seeds uint64
	// Workers is how many run at once; each takes about a core.
	Workers int
	Mutant  Mutant
	// Progress hears of every run that has ended, from any goroutine but one at
	// a time; nil: nobody does.
	Progress func(done uint64, sum *Stats)
}

// Run runs the seeds until one of them breaks a promise. It gives the sum of
// what happened, how many seeds ran, and the failure with the lowest seed among
// those found, or nil.
func (m Many) Run() (sum Stats, seeds uint64, failed *Result) {
	var next atomic.Uint64
	var stop atomic.Bool
	var left sync.WaitGroup
	var mu sync.Mutex // guards sum, seeds and failed
	for range max(1, m.Workers) {
		left.Add(1)
		go func() {
			defer left.Done()
			for !stop.Load() {
				n := next.Add(1) - 1
				if n >= m.Seeds {
					return
				}
				r := RunMutant(m.From+n, m.Mutant)
				mu.Lock()
				seeds++
				sum.Add(&r.Stats)
				if r.Violation != nil && (failed == nil || r.Seed < failed.Seed) {
					failed = r
					stop.Store(true)
				}
				if m.Progress != nil {
					m.Progress(seeds, &sum)
				}
				mu.Unlock()
			}
		}()
	}
	left.Wait()
	return sum, seeds, failed
}
