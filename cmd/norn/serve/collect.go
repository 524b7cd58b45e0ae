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
	// paceEvery is how often the pacer looks.
	paceEvery = time.Second
	// busyBytes is what is allocated in two looks in a row under load.
	busyBytes = 16 << 20
	// calmBytes is what is allocated from one look to the next at most where there
	// is no load any more.
	calmBytes = 4 << 20
	// calmLooks is after how many such looks in a row there is none.
	calmLooks = 5
)

// pacer decides how much the heap may grow.
type pacer struct {
	seen  uint64 // bytes allocated up to the last look
	last  uint64 // between the last two looks
	busy  bool
	quiet int // looks with little, in a row
}

// look takes the number of bytes allocated so far and of those in use. It gives the
// growth to allow in percent, and whether load has ended just now: what it has left
// is to be given back to the system.
func (p *pacer) look(allocated, live uint64) (percent int, rest bool) {
	n := allocated - p.seen
	p.seen = allocated
	if n > calmBytes {
		p.quiet = 0
	} else {
		p.quiet++
	}
	was := p.busy
	defer func() { p.last = n }()
	switch {
	case n+p.last >= busyBytes:
		p.busy = true
	case p.quiet >= calmLooks:
		p.busy = false
	}
	if p.busy {
		return busyPercent, false
	}
	return calm(live), was
}

// calm is the growth in percent for a server at rest of which live bytes are in use.
func calm(live uint64) int {
	percent := calmPercent
	for percent < busyPercent && live*uint64(percent) < 100*calmGrowth {
		percent *= 2 // in steps, as each change stops everything for a moment
	}
	return min(percent, busyPercent)
}

// pace has the collector follow the load until what it gives is called, which
// returns when that is over, unless the environment says what it is to do. When load
// has ended rest is called, before what is not in use is given back.
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
		p := pacer{seen: was}
		tick := time.NewTicker(paceEvery)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			next, ended := p.look(heap())
			if next != percent {
				percent = next
				debug.SetGCPercent(percent)
			}
			if ended {
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
