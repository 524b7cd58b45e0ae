package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// drowsiness is the invariant of requests that wait beside work.
const drowsiness = "drowsiness"

const (
	// calmFor is how long nothing goes wrong, and a partition's leader is the same, until none
	// of its tasks may wait beside a worker: what was under way is over.
	calmFor = 4 * time.Second
	// drowsyFor is for how long a task may be ready while a request that would take it
	// waits: the polls of the workers are longer.
	drowsyFor = 3 * time.Second
	// standsFor is for how long it may if its leader stands again, as for another cohort:
	// that has to have all facts first, step by step, and a node that has slow disks and all
	// work of a cluster that is being made takes seconds for that.
	standsFor = 10 * time.Second
	// feedings is how many tasks each producer makes in the end, feedEvery about how often.
	feedings, feedEvery = 4, 500 * time.Millisecond
)

// drowsy looks for lost wake-ups in a cluster in which nothing goes wrong any more: a task
// that stays ready at its leader while somewhere a request waits that would take it.
type drowsy struct {
	*fleet
	ready map[id.ID]int64 // true time since when a task is ready at each look
	well  int64           // true time since when the cluster is well
	fed   bool            // the last tasks of the run were made
	skews map[*node]skew
}

// skew is how many of a leader's claims were refused because of its clock, as far as
// others can tell when messages are slow, and true time since when there are no more.
type skew struct {
	refused uint64
	since   int64
}

// watch looks about once a second until the run ends.
func (d *drowsy) watch() {
	s := d.s
	if s.Ended {
		return
	}
	if d.stormy && !s.healing || !d.allUp() {
		d.well = s.Now
	}
	for _, n := range d.alive() {
		if refused := n.core.Stats().Skewed; refused != d.skews[n].refused {
			d.skews[n] = skew{refused, s.Now}
		}
	}
	if s.Now >= d.well+int64(calmFor) {
		d.look()
	} else {
		clear(d.ready)
	}
	s.After(time.Second, d.watch)
}

// feed makes some tasks when everything else is finished, and workers wait: until all has
// been well for long enough, or that takes too long.
func (d *drowsy) feed(until int64, then func()) {
	s := d.s
	if s.Now < until && s.Now < d.well+int64(calmFor) {
		s.After(time.Second, func() { d.feed(until, then) })
		return
	}
	d.fed = true
	for _, p := range s.producers {
		for n := range feedings {
			p.busy++
			p.after(time.Duration(n)*feedEvery+s.About(feedEvery), func() {
				p.busy--
				j := p.draw()
				j.deps, j.notBefore = nil, 0
				if s.Chance(0.5) {
					j.notBefore = p.clock.Wall(s.Now) + int64(s.Between(0, 2*time.Second))
				}
				p.send([]*job{j}, 8)
			})
		}
	}
	s.After(feedEvery, then)
}

// closing tells whether the last tasks of the run were made.
func (f *fleet) closing() bool { return f.drowsy != nil && f.drowsy.fed }

// look holds what is ready against who waits.
func (d *drowsy) look() {
	s := d.s
	queues := d.waits(s.Now - int64(drowsyFor))
	before := d.ready
	if d.ready = map[id.ID]int64{}; len(queues) == 0 {
		return
	}
	state := d.newest()
	for q := range queues { // Any order: each is looked at for itself.
		set := &nornv1.QueueSettings{}
		if err := gproto.Unmarshal(state.Queues[q].Settings, set); err != nil || set.GetPaused() {
			delete(queues, q)
		}
	}
	if slices.ContainsFunc(d.alive(), d.skewed) {
		return // a request may be there, and is looked for a task that nobody refuses it
	}
	for p := range state.Cells {
		n := d.find(state.Cells[p].Leader)
		if n == nil || !n.up || s.Now < d.moved[ring.Partition(p)]+int64(calmFor) || !d.enough(state.Cells[p].Cohort) {
			continue
		}
		limit := drowsyFor
		if !core.Leads(n.core, ring.Partition(p)) {
			limit = standsFor
		}
		n.walkPartition(ring.Partition(p), func(t *vnode.Detail) bool {
			if t.State != crdt.StateReady || queues[t.Task.Enqueued.Queue] == "" {
				return true
			}
			i := t.Task.ID
			if d.ready[i] = s.Now; before[i] != 0 {
				d.ready[i] = before[i]
			}
			if s.Now-d.ready[i] > int64(limit) {
				s.violation(drowsiness, "task %s is ready at %s for %v while a request waits for it: %s", i, n.self.Node, time.Duration(s.Now-d.ready[i]), queues[t.Task.Enqueued.Queue])
			}
			return !s.Ended
		})
	}
}

// enough tells whether most of a cohort are there: else nothing is handed out until
// somebody recovers the partition.
func (d *drowsy) enough(cohort []register.Member) bool {
	there := 0
	for _, m := range cohort {
		if n := d.find(m); n != nil && n.up && n.self == m {
			there++
		}
	}
	return there >= quorum.Majority(len(cohort))
}

// skewed tells whether others refuse a node's claims.
func (d *drowsy) skewed(n *node) bool { return d.s.Now < d.skews[n].since+int64(calmFor) }

// waits gives the queues for which requests wait since before a time, and one of those.
func (d *drowsy) waits(since int64) map[string]string {
	queues := map[string]string{}
	for _, n := range d.alive() {
		for _, from := range n.questions() {
			q := n.asked[from]
			if m, ok := q.body.Body.(*nornv1.ClaimRequest); ok && q.at < since {
				for _, name := range m.GetQueues() {
					queues[name] = fmt.Sprintf("%x/%d at %s since %v", m.GetSession(), m.GetRequestNo(), n.self.Node, time.Duration(q.at))
				}
			}
		}
	}
	return queues
}

// newest is the state of the register that most of its changes are in.
func (f *fleet) newest() register.State {
	return slices.MaxFunc(f.alive(), func(a, b *node) int {
		return int(int64(a.peers.state().Revision) - int64(b.peers.state().Revision))
	}).peers.state()
}

// allUp tells whether all nodes are, but those that are to be away.
func (f *fleet) allUp() bool {
	return !slices.ContainsFunc(f.nodes, func(n *node) bool { return !n.away && !n.up })
}
