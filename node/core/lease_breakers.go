package core

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
type breakers struct {
	c   *Core
	all map[ring.Partition]*breaker
}

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

// judge notes what became of a grant.
func (a *breakers) judge(now clock.Time, ref message.GrantRef, pl *proposal) {
	p := ref.Partition
	switch l := a.all[p]; {
	case pl != nil && pl.state == failed && pl.tripsBreaker && a.c.vnodes.See(p).Leading() != 0:
		if l == nil {
			l = &breaker{ready: make(map[string]bool)}
			a.all[p] = l
		}
		l.last = ref
		if !l.open {
			a.trip(p, l)
			l.pause(now)
		}
	case l != nil && (pl == nil || pl.state == committed):
		delete(a.all, p)
		a.c.vnodes.Use(p).Announce()
	}
}

// pause begins the next one.
func (l *breaker) pause(now clock.Time) {
	l.until = now.Add(breakerPauses.Pause(l.failures)).Mono
	l.failures++
}

// trip takes a partition's tasks out of what is handed out.
func (a *breakers) trip(p ring.Partition, l *breaker) {
	for name, q := range a.c.readyIndex.queues { // Any order: it becomes a set.
		if q.heads.Has(int(p)) {
			l.ready[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(l.ready)) {
		a.c.readyIndex.onHead(p, name, nil)
	}
	l.open, l.asked, l.reached = true, false, false
}

// confirm notes that a majority has taken the release of a claim.
func (a *breakers) confirm(p ring.Partition) {
	if l := a.all[p]; l != nil && l.open {
		if l.reached = true; l.asked {
			l.until = a.c.round.Now.Mono
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

// work hands out again what a majority can be had for, and looks for others.
func (a *breakers) work(now clock.Time) {
	if len(a.all) == 0 {
		return // as in most rounds
	}
	for _, p := range slices.Sorted(maps.Keys(a.all)) {
		switch l := a.all[p]; {
		case l.until > now.Mono:
		case l.reached:
			l.until, l.open = clock.Never, false
			clear(l.ready)
			a.c.vnodes.Use(p).Announce()
		default:
			a.c.leases.add(p, l.last.Task, &claim.Record{Token: l.last.Token, Outcome: claim.Released}, true)
			l.asked = true
			l.pause(now)
		}
	}
}

// hides tells whether nothing of a partition is handed out, and notes whether it has
// something.
func (a *breakers) hides(p ring.Partition, name string, ready bool) bool {
	l := a.all[p]
	if l == nil || !l.open {
		return false
	}
	if l.ready[name] = ready; !ready {
		delete(l.ready, name)
	}
	return true
}

// has tells whether there is something for a request that is not handed out.
func (a *breakers) has(w *claimRequest) bool {
	for _, l := range a.all { // Any order: one will do.
		if l.open && slices.ContainsFunc(w.names, func(name string) bool { return l.ready[name] && !a.c.readyIndex.paused[name] }) {
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
