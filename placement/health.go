package placement

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/register"
)

// health is for how long members have been alive or not, by the hints that this
// driver was given while it led.
type health struct {
	dead, stable time.Duration
	of           map[register.Member]*pulse
}

// pulse is one member's.
type pulse struct {
	up    bool
	since int64 // mono ns
	falls uint  // how often it was dead, not counting those long forgotten
}

// maxFalls bounds what falls add: five times the stable time, times 2^6.
const maxFalls = 7

func newHealth(cfg *Config) health {
	return health{dead: cfg.DeadAfter, stable: cfg.StableFor, of: map[register.Member]*pulse{}}
}

// note takes a new view.
func (h *health) note(now int64, v *View) {
	for i := range v.state.Nodes {
		n := &v.state.Nodes[i]
		if n.Status == register.Removed {
			delete(h.of, n.Member)
			continue
		}
		up, p := v.isAlive(n.Member), h.of[n.Member]
		if p == nil {
			h.of[n.Member] = &pulse{up: up, since: now}
			continue
		}
		if p.up == up {
			continue
		}
		lasted := since(now, p.since)
		switch {
		case up && lasted >= h.dead:
			p.falls = min(p.falls+1, maxFalls)
		case p.up && lasted >= 10*h.needs(p):
			p.falls = 0
		}
		p.up, p.since = up, now
	}
}

func since(now, then int64) time.Duration { return clock.Time{Mono: now}.SinceMono(then) }

// needs is for how long a member must be alive to count as stable.
func (h *health) needs(p *pulse) time.Duration {
	if p.falls <= 1 {
		return h.stable
	}
	return 5 * h.stable << (p.falls - 1)
}

// deadAt is when a member that is not alive counts as dead; clock.Never for one
// that is alive. For a member that is gone it is long past.
func (h *health) deadAt(m register.Member) int64 {
	p := h.of[m]
	switch {
	case p == nil:
		return 0
	case p.up:
		return clock.Never
	}
	return clock.Time{Mono: p.since}.Add(h.dead).Mono
}

// stableAt is when a member that is alive counts as stable; clock.Never for one
// that is not.
func (h *health) stableAt(m register.Member) int64 {
	p := h.of[m]
	if p == nil || !p.up {
		return clock.Never
	}
	return clock.Time{Mono: p.since}.Add(h.needs(p)).Mono
}

// upSince is since when a member has been alive; 0 for one that is not.
func (h *health) upSince(m register.Member) int64 {
	if p := h.of[m]; p != nil && p.up {
		return p.since
	}
	return 0
}
