package core

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// confirmAgain is after what time the members of a cohort are asked again: a message may
// be lost, and a claim that has lapsed keeps its task until it is ended.
const confirmAgain = time.Second

// confirmations are partitions led here in which a claim has lapsed, or something else asks
// whether this node still leads. That a claim has expired may be written only by who
// still leads: a process that stood still sees first how late it is, and only then that
// others have elected another one meanwhile, with which the claim may have been renewed.
// What it writes would end the claim all the same, and the task for good with its last
// attempt. So a majority of the cohort is asked to take claims of the
// epoch, none this time: who does has promised nobody else anything, and the claims that
// had lapsed when it was asked are over.
type confirmations struct {
	g     *leases
	asked map[ring.Partition]int64 // mono ns at which they are asked again
	last  map[ring.Partition]int64 // mono ns of the last time at which nobody else led

	waits   []confirmationWait     // requests that wait for that
	look    bool                   // one of them may be done
	hearing message.ConfirmedSince // of the request that is being handled
}

// lapsed notes a partition in which a claim has lapsed, and tells whether there is nobody
// to ask.
func (s *confirmations) lapsed(p ring.Partition) (alone bool) {
	if !s.g.shared(p) {
		return true
	}
	s.confirm(p)
	return false
}

// confirm has others asked whether this node still leads.
func (s *confirmations) confirm(p ring.Partition) {
	if _, asked := s.asked[p]; !asked && s.g.c.vnodes.See(p).Leading() != 0 {
		s.asked[p] = s.g.c.round.Now.Mono
	}
}

// confirmedSince tells whether nobody else led a partition at some time, mono ns, or later.
func (s *confirmations) confirmedSince(p ring.Partition, mono int64) bool {
	return !s.g.shared(p) || s.last[p] >= mono
}

// stop forgets a partition that is led here no longer.
func (s *confirmations) stop(p ring.Partition) {
	s.look = true
	delete(s.asked, p)
	delete(s.last, p)
}

// work asks the others.
func (s *confirmations) work(now clock.Time) {
	if s.next() > now.Mono {
		return
	}
	s.goOn(now)
	var parts []*batchPart
	for _, p := range slices.Sorted(maps.Keys(s.asked)) {
		if s.asked[p] > now.Mono {
			continue
		}
		s.asked[p] = now.Mono + int64(confirmAgain)
		part := &batchPart{p: p, epoch: s.g.c.vnodes.See(p).Leading(), cohort: s.g.c.view.Cells[p].Cohort, confirmsAt: max(now.Mono, 1)}
		part.await(s.g.c.cfg.Self)
		parts = append(parts, part)
	}
	s.g.send(now, parts)
}

// confirmed has the claims end that had lapsed when a majority was asked.
func (s *confirmations) confirmed(part *batchPart) {
	if v := s.g.c.vnodes.Use(part.p); v.Leading() == part.epoch {
		vnode.Sole(v, part.confirmsAt)
		delete(s.asked, part.p)
		s.last[part.p] = max(s.last[part.p], part.confirmsAt)
		s.look = true
		s.g.c.edges.doubts.at = 0
	}
	part.confirmsAt = 0
}

// next is when somebody is asked, mono ns.
func (s *confirmations) next() int64 {
	at := clock.Never
	if len(s.waits) > 0 {
		if at = s.waits[0].until; s.look {
			return 0
		}
	}
	for _, due := range s.asked { // Any order: the earliest.
		at = min(at, due)
	}
	return at
}
