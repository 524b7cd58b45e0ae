package lease

import (
	"math/rand/v2"
	"testing"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
)

// TestAnAuditSeesWhatIsMiscounted: answers that would wait for ever, batches out of order, claims
// that nobody would free, and what is remembered of partitions that are not led.
func TestAnAuditSeesWhatIsMiscounted(t *testing.T) {
	for what, spoil := range map[string]func(*Machine, *Proposal){
		"nothing":   func(*Machine, *Proposal) {},
		"left":      func(_ *Machine, pl *Proposal) { pl.owner.left++ },
		"decided":   func(_ *Machine, pl *Proposal) { pl.state = committed },
		"twin":      func(_ *Machine, pl *Proposal) { pl.twin = &Proposal{state: failed} },
		"order":     func(g *Machine, _ *Proposal) { g.open = append(g.open, g.open[0]) },
		"times":     func(g *Machine, _ *Proposal) { g.open = append(g.open, &batch{number: g.number + 1}) },
		"reclaim":   func(g *Machine, _ *Proposal) { clear(g.reclaims.has) },
		"nobody's":  func(g *Machine, _ *Proposal) { g.reclaims.has[message.GrantRef{Token: 9}] = &reclaim{} },
		"breaker":   func(g *Machine, _ *Proposal) { g.breakers.all[0] = &breaker{}; g.env.Partitions.Use(0).Follow() },
		"asked":     func(g *Machine, _ *Proposal) { g.Confirm(0); g.env.Partitions.Use(0).Follow() },
		"confirmed": func(g *Machine, _ *Proposal) { g.confirms.last[0] = 1; g.env.Partitions.Use(0).Follow() },
	} {
		g := newTestMachine(t, 7)
		now := clock.Time{Mono: 1}
		g.env.Rand = rand.New(rand.NewPCG(1, 2))
		pl := g.Propose(0, id.ID{}, &claim.Record{Token: 7<<32 | 1}, false)
		g.Await(now, []*Proposal{nil, pl}, func(clock.Time) {})
		g.Send(now)
		g.reclaims.unheard(now, message.GrantRef{Token: 5})
		spoil(g, pl)
		if err := Audit(g); (err != nil) != (what != "nothing") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
