package lease

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// AskAgain is after what time the members of a cohort are asked again: a message may
// be lost, and a claim that has lapsed keeps its task until it is ended.
const AskAgain = time.Second

// confirmations are partitions led here in which a claim has lapsed, or something else asks
// whether this node still leads. That a claim has expired may be written only by who
// still leads: a process that stood still sees first how late it is, and only then that
// others have elected another one meanwhile, with which the claim may have been renewed.
// What it writes would end the claim all the same, and the task for good with its last
// attempt. So a majority of the cohort is asked to take claims of the
// epoch, none this time: who does has promised nobody else anything, and the claims that
// had lapsed when it was asked are over.
type confirmations struct {
	// Invariant: asked and last have partitions that are led here only: an answer that was
	// given to an earlier epoch confirms nothing about this one (Audit).
	asked map[ring.Partition]int64 // mono ns at which they are asked again
	last  map[ring.Partition]int64 // mono ns of the last time at which nobody else led
}

// Lapsed notes a partition in which a claim has lapsed, and tells whether there is nobody
// to ask.
func (g *Machine) Lapsed(p ring.Partition) (alone bool) {
	if !g.Shared(p) {
		return true
	}
	g.Confirm(p)
	return false
}

// Confirm has others asked whether this node still leads.
func (g *Machine) Confirm(p ring.Partition) {
	if _, asked := g.confirms.asked[p]; !asked && g.env.Partitions.See(p).Leading() != 0 {
		g.confirms.asked[p] = g.env.Round.Now.Mono
	}
}

// ConfirmedSince tells whether nobody else led a partition at some time, mono ns, or later.
//
// It compares with the time at which the majority was asked, not at which it answered: another
// leader may have been elected in between.
func (g *Machine) ConfirmedSince(p ring.Partition, mono int64) bool {
	return !g.Shared(p) || g.confirms.last[p] >= mono
}

// stop forgets a partition that is led here no longer.
func (s *confirmations) stop(p ring.Partition) {
	delete(s.asked, p)
	delete(s.last, p)
}

// Ask asks the others where it is time.
func (g *Machine) Ask(now clock.Time) {
	s := &g.confirms
	var parts []*batchPart
	for _, p := range slices.Sorted(maps.Keys(s.asked)) {
		if s.asked[p] > now.Mono {
			continue
		}
		s.asked[p] = now.Mono + int64(AskAgain)
		part := &batchPart{p: p, epoch: g.env.Partitions.See(p).Leading(), cohort: g.env.View.Cells[p].Cohort, confirmsAt: max(now.Mono, 1)}
		part.await(g.env.Self)
		parts = append(parts, part)
	}
	g.send(now, parts)
}

// confirmed has the claims end that had lapsed when a majority was asked.
func (g *Machine) confirmed(part *batchPart) {
	if v := g.env.Partitions.Use(part.p); v.Leading() == part.epoch {
		vnode.Sole(v, part.confirmsAt)
		delete(g.confirms.asked, part.p)
		g.confirms.last[part.p] = max(g.confirms.last[part.p], part.confirmsAt)
		g.env.Others.Confirmed(part.p)
	}
	part.confirmsAt = 0
}

// AskDue is when somebody is asked, mono ns.
func (g *Machine) AskDue() int64 {
	at := clock.Never
	for _, due := range g.confirms.asked { // Any order: the earliest.
		at = min(at, due)
	}
	return at
}
