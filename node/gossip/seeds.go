package gossip

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// Bounds of the search for others.
const (
	firstPause = 250 * time.Millisecond
	lastPause  = 30 * time.Second
	maxTargets = 8 // asked at a time; others have their turn later
	lookUpTime = 5 * time.Second
)

// SetSeeds says at which addresses, HOST:PORT, other nodes may be. Names are
// looked up whenever they are asked. The node's own address may be among them.
func (g *Gossip) SetSeeds(addresses []string) {
	seeds := slices.Compact(slices.Sorted(slices.Values(addresses)))
	g.mu.Lock()
	changed := !slices.Equal(seeds, g.seeds)
	g.seeds = seeds
	g.mu.Unlock()
	if changed {
		poke(g.search)
	}
}

// seek asks whoever is at a seed address, while no living member is known to be
// there.
func (g *Gossip) seek(ctx context.Context) {
	pause := firstPause
	for {
		targets, unknown := g.missing(ctx)
		g.ask(ctx, targets)
		var again <-chan time.Time
		if len(targets) > 0 || unknown {
			// Half of the pause is by lot: nodes that were cut off together do not
			// come back together.
			again, pause = time.After(pause/2+rand.N(pause/2+1)), min(2*pause, lastPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-again:
		case <-g.search:
			pause = firstPause
		case <-g.watch.lost:
			pause = firstPause
		}
	}
}

// missing gives addresses of seeds where nobody is known to be alive, at most
// maxTargets by lot. unknown says that a seed's name leads nowhere.
func (g *Gossip) missing(ctx context.Context) (targets []netip.AddrPort, unknown bool) {
	g.mu.Lock()
	seeds := slices.Clone(g.seeds)
	g.mu.Unlock()
	rand.Shuffle(len(seeds), func(i, j int) { seeds[i], seeds[j] = seeds[j], seeds[i] })
	ctx, cancel := context.WithTimeout(ctx, lookUpTime)
	defer cancel()
	there := g.watch.at()
	there[g.transport.self] = true
	all := make([][]netip.AddrPort, len(seeds))
	var looking sync.WaitGroup // a name without an answer must not hold up the others
	for i, s := range seeds {
		looking.Go(func() {
			var err error
			if all[i], err = g.lookUp(ctx, s); err != nil {
				g.log.Debug("gossip.seed", "address", s, "error", err)
			}
		})
	}
	looking.Wait()
	for _, found := range all {
		unknown = unknown || len(found) == 0
		for _, a := range found {
			if !there[a] && len(targets) < maxTargets {
				there[a] = true
				targets = append(targets, a)
			}
		}
	}
	return targets, unknown
}

// ask exchanges states with all targets at a time.
func (g *Gossip) ask(ctx context.Context, targets []netip.AddrPort) {
	var asking sync.WaitGroup
	for _, a := range targets {
		asking.Go(func() {
			if _, err := g.list.Join([]string{a.String()}); err != nil && ctx.Err() == nil {
				g.log.Debug("gossip.join", "address", a.String(), "error", err)
			}
		})
	}
	asking.Wait()
}
