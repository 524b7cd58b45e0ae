package vnode

import (
	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/store"
)

// Stuck gives up to limit claims that lapsed here a buffer ago or longer, and of
// which nothing has come that ends them: the leader does not know them, or what
// it said got lost. They block no grant, but their tasks count as claimed here.
// A follower asks its leader about them now and then. Where there are none it
// costs a look.
func Stuck(v *Vnode, now clock.Time, limit int) (all []Held) {
	v.claims.Overdue(now, v.cfg.Buffer, limit, func(h *claim.Held) {
		all = append(all, Held{Task: h.Task(), Record: h.Record})
	})
	return Join(all)
}

// Unheld gives those claims that this leader does not hold: whoever asked may
// dismiss them. Those that it does hold end with a fact.
func Unheld(v *Vnode, all []Held) (others []Held) {
	for _, h := range all {
		if v.claims.Lookup(h.Task).Of(h.Record.Token) == nil {
			others = append(others, h)
		}
	}
	return others
}

// Dismiss ends claims that the leader of the epoch that is promised here says it
// does not hold (design 6: claims are brought in line with the leader's, within
// its epoch). One that has not lapsed by this member's own rule stays. It
// returns ErrDamaged when something stored cannot be read.
func Dismiss(v *Vnode, tx store.Tx, all []Held, now clock.Time) error {
	for i := range all {
		h := v.claims.Lookup(all[i].Task).Of(all[i].Record.Token)
		if h == nil || v.claims.Holds(h, now, v.term.confirmed) && !mutant.UngatedClaims.On() {
			continue
		}
		if _, err := v.conclude(tx, all[i].Task, h.Token, claim.Expired, crdt.Fact{}, false, "", now); err != nil {
			return err
		}
	}
	return nil
}
