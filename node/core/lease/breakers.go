package lease

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// breakerPauses are those after grants of a partition that reached no majority, at most half
// of the second that a ready task may wait (issue 5).
var breakerPauses = clock.Backoff{First: 50 * time.Millisecond, Most: 500 * time.Millisecond}

// breakers are partitions that are led here and whose grants reach no majority, though
// nobody else leads them. Nothing of them is handed out for a while: each request would
// be tried with their best task, might wait for two seconds, and be tried with it again,
// while tasks of other partitions are to be had. Which of them can grant again is found
// out without a request: after each pause, and when a node has come in reach or gone, the
// release of what failed is sent once more. A majority that takes it ends the pause.
//
// It is a circuit breaker (Nygard 2007), one per partition, whose probe is the release of a
// claim that failed before: it needs the same majority as a grant and takes no task from
// anybody.
//
// Invariant: there are entries only for partitions that are led here, and nothing of a
// partition whose breaker is open is handed out (Audit; Hides).
type breakers struct{ all map[ring.Partition]*breaker }

// breaker is one such partition.
type breaker struct {
	failures int
	until    int64            // mono ns of the end of the pause; never: it is being tried
	last     message.GrantRef // that failed, and was taken back
	asked    bool             // the release was sent once more
	reached  bool             // a majority has taken a release since
	ready    map[string]bool  // queues that have something
	open     bool             // nothing of it is handed out
}

// Judge notes what became of a grant.
//
// It opens the breaker on a failure that any claim of the partition would have met, and not on
// a refusal of this very task. A success closes it.
func (g *Machine) Judge(now clock.Time, ref message.GrantRef, pl *Proposal) {
	a, p := &g.breakers, ref.Partition
	switch l := a.all[p]; {
	case pl != nil && pl.state == failed && pl.tripsBreaker && g.env.Partitions.See(p).Leading() != 0:
		if l == nil {
			l = &breaker{ready: make(map[string]bool)}
			a.all[p] = l
		}
		l.last = ref
		if !l.open {
			trip(g, p, l)
			l.pause(now)
		}
	case l != nil && (pl == nil || pl.state == committed):
		delete(a.all, p)
		g.env.Partitions.Use(p).Announce()
	}
}

// pause begins the next one.
// The pauses double from 50 ms to 500 ms.
func (l *breaker) pause(now clock.Time) {
	l.until = now.Add(breakerPauses.Pause(l.failures)).Mono
	l.failures++
}

// trip takes a partition's tasks out of what is handed out.
func trip(g *Machine, p ring.Partition, l *breaker) {
	for _, name := range g.env.Others.Ready(p) {
		l.ready[name] = true
	}
	for _, name := range slices.Sorted(maps.Keys(l.ready)) {
		g.env.Others.Hide(p, name)
	}
	l.open, l.asked, l.reached = true, false, false
}

// confirm notes that a majority has taken the release of a claim.
func (a *breakers) confirm(now clock.Time, p ring.Partition) {
	if l := a.all[p]; l != nil && l.open {
		if l.reached = true; l.asked {
			l.until = now.Mono
		}
	}
}

// retryNow ends all pauses: somebody has come in reach or gone.
func (a *breakers) retryNow(now clock.Time) {
	for _, l := range a.all { // Any order: each by itself.
		if l.open {
			l.until = now.Mono
		}
	}
}

// Retry hands out again what a majority can be had for, and looks for others.
func (g *Machine) Retry(now clock.Time) {
	a := &g.breakers
	if len(a.all) == 0 {
		return // as in most rounds
	}
	for _, p := range slices.Sorted(maps.Keys(a.all)) {
		switch l := a.all[p]; {
		case l.until > now.Mono:
		case l.reached:
			l.until, l.open = clock.Never, false
			clear(l.ready)
			g.env.Partitions.Use(p).Announce()
		default:
			g.Propose(p, l.last.Task, &claim.Record{Token: l.last.Token, Outcome: claim.Released}, true)
			l.asked = true
			l.pause(now)
		}
	}
}

// Hides tells whether nothing of a partition is handed out, and notes whether it has
// something.
func (g *Machine) Hides(p ring.Partition, name string, ready bool) bool {
	if !g.Open(p) {
		return false
	}
	l := g.breakers.all[p]
	if l.ready[name] = ready; !ready {
		delete(l.ready, name)
	}
	return true
}

// Open tells whether nothing of a partition is handed out.
func (g *Machine) Open(p ring.Partition) bool {
	l := g.breakers.all[p]
	return l != nil && l.open
}

// Hidden tells whether some queue has something that is not handed out, of those that are not
// paused.
func (g *Machine) Hidden(queues []string, paused map[string]bool) bool {
	for _, l := range g.breakers.all { // Any order: one will do.
		if l.open && slices.ContainsFunc(queues, func(name string) bool { return l.ready[name] && !paused[name] }) {
			return true
		}
	}
	return false
}

// next is when a pause ends, mono ns.
func (a *breakers) next() int64 {
	at := clock.Never
	for _, l := range a.all {
		at = min(at, l.until)
	}
	return at
}

// tripsBreaker tells whether a pledge that fails was not refused for what it claims.
func (part *batchPart) tripsBreaker(pledge int) bool {
	return len(part.refused[pledge]) == 0 || !part.own
}

// alike tells whether a refusal would be that of any other claim of the partition too.
func alike(v message.Verdict) bool { return v == vnode.SkewedClock }
