package cluster

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/history"
	"github.com/norn-dev/norn/jepsen/lab/network"
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

// Steady is for how long a node must have run before it is expected to serve: it
// has to open its stores and find the others first.
const Steady = 8 * time.Second

// Probed counts a write with one copy through a node, unless the machine had no time for it.
func (l *Lab) Probed(p *Process, fine bool, before Patient, err error) {
	took := time.Since(before.At)
	starved := !fine && l.Strain.Starved(p, before)
	l.Mu.Lock()
	defer l.Mu.Unlock()
	pr := l.Probes[p.N]
	if pr == nil {
		pr = &Probe{Node: p.Name}
		l.Probes[p.N] = pr
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

// Thin is an acknowledgement that speaks of less than two copies on disk: it may
// get lost with one disk.
type Thin struct {
	Op   uint64
	Item int
	Node int // that was asked; driver: any
}

// Forgiven takes back the acknowledgements of one copy whose disk was lost
// later: nobody promises more. Where every node has a copy of everything, it is
// that of the node that was asked. It gives their number.
func (l *Lab) Forgiven(events []*history.Event) int {
	if len(l.Wipes) == 0 {
		return 0
	}
	ends := map[uint64]*history.Event{}
	for _, e := range events {
		if e.Phase == history.OK {
			ends[e.Op] = e
		}
	}
	n := 0
	for _, t := range l.Thin {
		e := ends[t.Op]
		if e == nil || !l.lostAfter(t.Node, e.At) {
			continue
		}
		e.Items[t.Item].Unsure = true
		n++
	}
	return n
}

// lostAfter tells whether the disk of a node, or for all any one, was lost after
// a time, before all replicas were seen to be equal.
func (l *Lab) lostAfter(node int, at int64) bool {
	cohort := len(l.Nodes) <= Replicas // every node holds everything, and needs no hints
	for n, times := range l.Wipes {    // Any order: one is enough.
		if cohort && n != node && node != network.Driver {
			continue
		}
		for _, t := range times {
			healed := slices.ContainsFunc(l.Equals, func(e int64) bool { return at < e && e < t })
			if t > at && !(healed && cohort) {
				return true
			}
		}
	}
	return false
}

// leastAvailable is the least share of writes with one copy that must succeed
// through a node that runs and that its clients reach (I15).
const leastAvailable = 0.99

// mostStarved is the largest share of those writes that may fail and not count, because the
// machine had no time for the node or its client: of ten times as many as may fail nobody
// can say that they are available.
const mostStarved = 0.1

// Fine tells whether the node was as available as it has to be. Of a few calls a few may
// fail: they are too few to tell a hundredth.
func (p *Probe) Fine() bool {
	most := float64(p.Calls) * (1 - leastAvailable)
	if p.Calls < 100 {
		most = max(2, float64(p.Calls)/10)
	}
	return float64(p.Failed) <= most
}

// Told tells whether enough of the writes count to say how available the node was.
func (p *Probe) Told() bool {
	return float64(p.Starved) <= max(2, float64(p.Calls+p.Starved)*mostStarved)
}
