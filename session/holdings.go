package session

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// phase is how far a held claim is.
type phase uint8

const (
	waiting phase = iota // for a slot
	running
	ended // reported, not acknowledged
)

// held is a claim of a worker.
type held struct {
	claim    Claim
	queue    string
	grant    *nornv1.Grant
	phase    phase
	lease    time.Duration // length of the newest lease
	deadline int64         // mono ns
	arrived  int64         // mono ns at which it began to wait for a slot
	began    int64         // mono ns at which it began to run
	stopped  Cause         // what it was told to stop for
	end      End
	retry    retry
}

// renewable tells whether heartbeats still list the claim.
func (h *held) renewable(now int64) bool { return h.stopped == CauseNone && now < h.deadline }

// holdings are the claims of a worker.
//
// Invariant: byTask has those that have not ended, one for a task; running counts
// those that run.
type holdings struct {
	all     map[Claim]*held
	byTask  map[id.ID]Claim
	queued  []*held // those that wait, in the order of their arrival
	running map[string]int
	total   int // of running
}

func newHoldings() holdings {
	return holdings{all: make(map[Claim]*held), byTask: make(map[id.ID]Claim), running: make(map[string]int)}
}

// sorted gives the claims in their order.
func (o *holdings) sorted() []Claim { return slices.SortedFunc(maps.Keys(o.all), Claim.Compare) }

// live gives those that wait or run, sorted.
func (o *holdings) live() []Claim { return slices.SortedFunc(maps.Values(o.byTask), Claim.Compare) }

// taken is how many tasks of a queue wait or run.
func (o *holdings) taken(queue string) int {
	n := o.running[queue]
	for _, h := range o.queued {
		if h.queue == queue {
			n++
		}
	}
	return n
}

// add takes a claim in; it waits.
func (o *holdings) add(h *held) {
	o.all[h.claim] = h
	o.byTask[h.claim.Task] = h.claim
	o.queued = append(o.queued, h)
}

// begin makes those run that have a slot, in the order of arrival.
func (o *holdings) begin(c Capacity, now int64) (begun []*held) {
	o.queued = slices.DeleteFunc(o.queued, func(h *held) bool {
		q, _ := c.queue(h.queue)
		if o.total >= c.Slots || q.Slots > 0 && o.running[h.queue] >= q.Slots || now >= h.deadline {
			return false
		}
		o.total++
		o.running[h.queue]++
		h.phase, h.began = running, now
		begun = append(begun, h)
		return true
	})
	return begun
}

// finish makes a claim an ended one.
func (o *holdings) finish(h *held, end End) {
	switch h.phase {
	case waiting:
		o.queued = slices.DeleteFunc(o.queued, func(q *held) bool { return q == h })
	case running:
		o.total--
		if o.running[h.queue]--; o.running[h.queue] == 0 {
			delete(o.running, h.queue)
		}
	}
	h.phase, h.end = ended, end
	delete(o.byTask, h.claim.Task)
}
