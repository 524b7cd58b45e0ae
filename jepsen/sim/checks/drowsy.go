package checks

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

	"github.com/norn-dev/norn/jepsen/sim/clients"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/run"
)

const (
	// calmFor is how long nothing goes wrong, and a partition's leader is the same, until none
	// of its tasks may wait beside a worker: what was under way is over.
	calmFor = 4 * time.Second
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
	*nodes.Fleet
	s     *clients.People
	ready map[id.ID]int64 // true time since when a task is ready at each look
	well  int64           // true time since when the cluster is well
	skews map[*nodes.Node]skew
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
	if d.Stormy && !s.Healing || !d.allUp() {
		d.well = s.Now
	}
	for _, n := range d.Alive() {
		if refused := n.Core.Stats().Skewed; refused != d.skews[n].refused {
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
	d.Closing = true
	for _, p := range s.Producers {
		for n := range feedings {
			p.Busy++
			p.After(time.Duration(n)*feedEvery+s.About(feedEvery), func() {
				p.Busy--
				j := p.Draw()
				j.Deps, j.NotBefore = nil, 0
				if s.Chance(0.5) {
					j.NotBefore = p.Clock.Wall(s.Now) + int64(s.Between(0, 2*time.Second))
				}
				p.Send([]*run.Job{j}, 8)
			})
		}
	}
	s.After(feedEvery, then)
}

// look holds what is ready against who waits.
func (d *drowsy) look() {
	s := d.s
	queues := d.waits(s.Now - int64(run.DrowsyFor))
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
	if slices.ContainsFunc(d.Alive(), d.skewed) {
		return // a request may be there, and is looked for a task that nobody refuses it
	}
	for p := range state.Cells {
		n := d.Find(state.Cells[p].Leader)
		if n == nil || !n.Up || s.Now < d.Moved[ring.Partition(p)]+int64(calmFor) || !d.enough(state.Cells[p].Cohort) {
			continue
		}
		limit := run.DrowsyFor
		if !core.Leads(n.Core, ring.Partition(p)) {
			limit = standsFor
		}
		n.WalkPartition(ring.Partition(p), func(t *vnode.Detail) bool {
			if t.State != crdt.StateReady || queues[t.Task.Enqueued.Queue] == "" {
				return true
			}
			i := t.Task.ID
			if d.ready[i] = s.Now; before[i] != 0 {
				d.ready[i] = before[i]
			}
			if s.Now-d.ready[i] > int64(limit) {
				s.Violation(run.Drowsiness, "task %s is ready at %s for %v while a request waits for it: %s", i, n.Self.Node, time.Duration(s.Now-d.ready[i]), queues[t.Task.Enqueued.Queue])
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
		if n := d.Find(m); n != nil && n.Up && n.Self == m {
			there++
		}
	}
	return there >= quorum.Majority(len(cohort))
}

// skewed tells whether others refuse a node's claims.
func (d *drowsy) skewed(n *nodes.Node) bool { return d.s.Now < d.skews[n].since+int64(calmFor) }

// waits gives the queues for which requests wait since before a time, and one of those.
func (d *drowsy) waits(since int64) map[string]string {
	queues := map[string]string{}
	for _, n := range d.Alive() {
		for _, from := range n.Questions() {
			q := n.Asked[from]
			if m, ok := q.Body.Body.(*nornv1.ClaimRequest); ok && q.At < since {
				for _, name := range m.GetQueues() {
					queues[name] = fmt.Sprintf("%x/%d at %s since %v", m.GetSession(), m.GetRequestNo(), n.Self.Node, time.Duration(q.At))
				}
			}
		}
	}
	return queues
}

// newest is the state of the register that most of its changes are in.
func (d *drowsy) newest() register.State {
	return slices.MaxFunc(d.Alive(), func(a, b *nodes.Node) int {
		return int(int64(a.Peers.State().Revision) - int64(b.Peers.State().Revision))
	}).Peers.State()
}

// allUp tells whether all nodes are, but those that are to be away.
func (d *drowsy) allUp() bool {
	return !slices.ContainsFunc(d.Nodes, func(n *nodes.Node) bool { return !n.Away && !n.Up })
}
