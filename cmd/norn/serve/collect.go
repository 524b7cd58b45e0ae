package serve

import (
	"context"
	"os"
	"runtime/debug"
	"runtime/metrics"
	"sync"
	"time"
)

// How much the heap may grow before it is collected, in percent of what is in
// use. Most of that is the store's memtables and cache, which hold no pointers. A
// server at rest allocates less than a megabyte a second, so that a heap kept small
// costs a collection every five seconds, and what load has left is not filled again
// with garbage. Under load Go's default is worth a fifth of the processor
// (docs/archive/performance.md).
const (
	calmPercent = 5
	busyPercent = 100
	// calmGrowth is what the heap of a server at rest may grow by at least. One that has
	// just started uses five megabytes: a twentieth of that was garbage 35 times a second
	// when load began.
	calmGrowth = 4 << 20
)

const (
	// paceEvery is how often the pacer looks. Until it has noticed load a large heap is
	// collected for each few megabytes of garbage, a hundred of which are made in a second.
	paceEvery = time.Second / 4
	// busyBytes is what is allocated in busyLooks looks in a row under load.
	busyBytes = 16 << 20
	busyLooks = 8
	// calmBytes is what is allocated in some looks at most where there is no load any more.
	calmBytes = 4 << 20
	someLooks = 4
	// calmLooks is after how many such looks in a row there is none.
	calmLooks = 20
	// restLooks is how many looks apart a server at rest gives back what it does not use. The
	// runtime by itself keeps a tenth of the heap and what a memtable that is not written to
	// counts for in it.
	restLooks = 80
)

// pacer decides how much the heap may grow.
type pacer struct {
	seen  [busyLooks]uint64 // bytes allocated up to the last looks
	at    int               // the oldest of those
	busy  bool
	quiet int // looks with little, in a row
}

// look takes the number of bytes allocated so far and of those in use. It gives the
// growth to allow in percent, and whether it is at rest, after load or after its start: what
// that has left is to be given back to the system, and later what the rest itself leaves.
func (p *pacer) look(allocated, live uint64) (percent int, rest bool) {
	if allocated-p.seen[(p.at+busyLooks-someLooks)%busyLooks] > calmBytes {
		p.quiet = 0
	} else {
		p.quiet++
	}
	before := p.seen[p.at]
	p.seen[p.at], p.at = allocated, (p.at+1)%busyLooks
	switch {
	case allocated-before >= busyBytes:
		p.busy = true
	case p.quiet >= calmLooks:
		p.busy = false
	}
	if p.busy {
		return busyPercent, false
	}
	return calm(live), p.quiet%restLooks == calmLooks
}

// newPacer makes a pacer of a process that has allocated so much so far.
func newPacer(allocated uint64) (p pacer) {
	for i := range p.seen {
		p.seen[i] = allocated
	}
	return p
}

// calm is the growth in percent for a server at rest of which live bytes are in use.
func calm(live uint64) int {
	percent := calmPercent
	for percent < busyPercent && live*uint64(percent) < 100*calmGrowth {
		percent += percent * 2 / 5 // in steps, as each change stops everything for a moment
	}
	return min(percent, busyPercent)
}

// pace has the collector follow the load until what it gives is called, which
// returns when that is over, unless the environment says what it is to do. When the
// server is at rest rest is called, and what is not in use is given back.
func pace(rest func()) (end func()) {
	if os.Getenv("GOGC") != "" {
		return func() {}
	}
	was, now := heap()
	percent := calm(now)
	debug.SetGCPercent(percent)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		p := newPacer(was)
		tick := time.NewTicker(paceEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			next, resting := p.look(heap())
			if next != percent {
				percent = next
				debug.SetGCPercent(percent)
			}
			if resting {
				rest()
				debug.FreeOSMemory()
			}
		}
	})
	return func() {
		cancel()
		running.Wait()
	}
}

// heap is how many bytes were allocated on the heap so far, and how many of them the
// last collection found in use.
func heap() (allocated, live uint64) {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}, {Name: "/gc/heap/live:bytes"}}
	metrics.Read(samples)
	return samples[0].Value.Uint64(), samples[1].Value.Uint64()
}
