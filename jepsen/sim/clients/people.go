package clients

import (
	"fmt"
	"iter"
	"time"

	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/witness"
)

// People are the clients of a run.
type People struct {
	*nodes.System
	process   int // the number of the newest one
	serial    int // how many tasks were made
	Producers []*producer
	Workers   []*worker
	Hands     []*Hand
	Readers   []*Reader
	admins    []*admin
}

// Begin begins the clients.
func (s *People) Begin() {
	for range s.Plan.Producers {
		s.Producers = append(s.Producers, s.newProducer())
	}
	for range s.Plan.Workers {
		s.Workers = append(s.Workers, s.newWorker())
	}
	for n := range s.Plan.Hands {
		s.Hands = append(s.Hands, s.newHand(fmt.Sprintf("shard%d", n/2), fmt.Sprintf("machine%d", n))) // two have one name
	}
	for range s.Plan.Readers {
		s.Readers = append(s.Readers, s.newReader())
	}
	for range s.Plan.Admins {
		s.admins = append(s.admins, s.newAdmin())
	}
	if s.Rights != nil {
		newMeddler(s, true)
		newMeddler(s, false)
	}
}

// CalmDown has the clients begin nothing new.
func (s *People) CalmDown() {
	for _, p := range s.Producers {
		p.stopped = true
	}
	if s.Fleet == nil { // else they go on: what they see must be right now as well
		QuietReaders(s.Readers)
	}
	for _, a := range s.admins {
		a.stopped = true
		a.After(3*time.Second, a.resume) // by then nothing late is under way
	}
}

// QuietReaders has them begin nothing new.
func QuietReaders(all []*Reader) {
	for _, r := range all {
		r.stopped = true
	}
}

// Idle tells whether no client has something to do yet.
func (s *People) Idle() bool {
	for _, p := range s.Producers {
		if p.Busy > 0 {
			return false
		}
	}
	for _, a := range s.admins {
		if len(a.resumed) < len(s.Plan.Queues) {
			return false
		}
	}
	return true
}

// WhenFit waits until every worker has its session, and ends them all. The name of
// one that has died is free only when its lease is over.
func (s *People) WhenFit(until int64, then func()) {
	for _, h := range s.Hands {
		why := h.fits()
		switch {
		case why == "":
			continue
		case s.Now >= until:
			s.Violation(run.Workers, "%s", why)
			return
		}
		s.After(time.Second, func() { s.WhenFit(until, then) })
		return
	}
	for _, h := range s.Hands {
		h.die()
	}
	then()
}

// Believed are the claims that workers have.
func (s *People) Believed() iter.Seq[witness.Claim] {
	return func(yield func(witness.Claim) bool) {
		for _, w := range s.Workers {
			for _, j := range w.jobs {
				if !yield(witness.Claim{Task: j.Task, Token: j.Token, Until: j.Until, Over: j.over}) {
					return
				}
			}
		}
	}
}
