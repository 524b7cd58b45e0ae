package lab

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/history"
)

// Probe is how available a node was for writes that want one copy, while it ran
// and its clients could reach it.
type Probe struct {
	Node          string
	Calls, Failed int
	Starved       int // that failed, and are not counted: the machine had no time for the node
	Slowest       time.Duration
	Error         string // the first
}

// steady is for how long a node must have run before it is expected to serve: it
// has to open its stores and find the others first.
const steady = 8 * time.Second

// reachable tells whether the client's node runs and can be reached.
func (h *hand) reachable() bool {
	if h.node == nil {
		return false
	}
	there, back := h.linked(h.node)
	return h.node.running(steady) && there == (link{}) && back == (link{})
}

func (l *lab) probed(p *process, fine bool, before patient, err error) {
	took := time.Since(before.at)
	starved := !fine && l.strain.starved(p, before)
	l.mu.Lock()
	defer l.mu.Unlock()
	pr := l.probes[p.n]
	if pr == nil {
		pr = &Probe{Node: p.name}
		l.probes[p.n] = pr
	}
	if starved {
		pr.Starved++
		return
	}
	pr.Calls++
	pr.Slowest = max(pr.Slowest, took)
	if !fine {
		pr.Failed++
		if pr.Error == "" && err != nil {
			pr.Error = err.Error()
		}
	}
}

// thin is an acknowledgement that speaks of less than two copies on disk: it may
// get lost with one disk.
type thin struct {
	op   uint64
	item int
	node int // that was asked; driver: any
}

func (h *hand) thinly(op uint64, item int) {
	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	t := thin{op, item, driver}
	if h.node != nil {
		t.node = h.node.n
	}
	h.lab.thin = append(h.lab.thin, t)
}

// forgiven takes back the acknowledgements of one copy whose disk was lost
// later: nobody promises more. Where every node has a copy of everything, it is
// that of the node that was asked. It gives their number.
func (l *lab) forgiven(events []*history.Event) int {
	if len(l.wipes) == 0 {
		return 0
	}
	ends := map[uint64]*history.Event{}
	for _, e := range events {
		if e.Phase == history.OK {
			ends[e.Op] = e
		}
	}
	n := 0
	for _, t := range l.thin {
		e := ends[t.op]
		if e == nil || !l.lostAfter(t.node, e.At) {
			continue
		}
		e.Items[t.item].Unsure = true
		n++
	}
	return n
}

// lostAfter tells whether the disk of a node, or for all any one, was lost after
// a time, before all replicas were seen to be equal.
func (l *lab) lostAfter(node int, at int64) bool {
	cohort := len(l.nodes) <= replicas // every node holds everything, and needs no hints
	for n, times := range l.wipes {    // Any order: one is enough.
		if cohort && n != node && node != driver {
			continue
		}
		for _, t := range times {
			healed := slices.ContainsFunc(l.equals, func(e int64) bool { return at < e && e < t })
			if t > at && !(healed && cohort) {
				return true
			}
		}
	}
	return false
}

// converge waits until all replicas are equal, or not too long: what was
// acknowledged before it began is then on all of them.
func (n *nemesis) converge(through *process) {
	begun := int64(time.Since(n.rec.began))
	if err := n.equal(n.caller.goesOn(), through, 10*time.Second); err != nil {
		n.say("not equal under load: %v", err)
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.equals = append(n.equals, begun)
	n.say("all replicas are equal")
}
