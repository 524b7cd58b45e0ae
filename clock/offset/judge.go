package offset

import (
	"fmt"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/quorum"
)

// Reason says why a node's clock is not good enough for a cohort.
type Reason uint8

// Reasons. None is that of an OK.
const (
	None       Reason = iota
	Unmeasured        // too few clocks of the cohort are known
	Imprecise         // enough are known, but not well enough
	Pair              // two nodes measure each other, and they disagree
	Off               // a majority agrees on a time, and this clock is off it
	Scattered         // no majority agrees on a time
)

var reasons = [...]string{None: "ok", Unmeasured: "unmeasured", Imprecise: "imprecise", Pair: "pair", Off: "off", Scattered: "scattered"}

// String is the reason as one word.
func (r Reason) String() string {
	if int(r) < len(reasons) {
		return reasons[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// Verdict is what a node's clock is good for in a cohort.
type Verdict struct {
	// OK says that the node may lead and vote there: a majority's clocks are
	// surely within eta/4 of its own.
	OK     bool
	Reason Reason
	// Members of the cohort, how many of them make a majority, how many clocks of
	// them are known, and how many are surely within eta/4; each counts this node
	// where it is of the cohort.
	Members, Need, Known, Near int
	// Majority is where the true time lies, as an offset to this node's wall clock,
	// if a majority of the clocks is within eta/8 of it (so that two of those are
	// within eta/4 of each other); only where Supported, that is, if there can be
	// such a majority.
	Majority  Interval
	Supported bool
	// Limit is eta/4.
	Limit time.Duration
}

// Judge tells whether this node may lead and vote in a cohort, given as its
// distinct members' ids (one named twice counts once where it is known, and
// asks for more where it is not). It costs O(n log n + n log m) for n members
// and m peers.
func (p *Peers) Judge(now clock.Time, cohort []uint64, eta time.Duration) Verdict {
	v := Verdict{Limit: max(eta, 0) / 4}
	limit, far, self := int64(v.Limit), 0, false
	p.turn++
	p.edges = p.edges[:0]
	for _, id := range cohort {
		var in Interval // this node's own clock is at 0
		if id == p.self {
			if self {
				continue
			}
			self = true
		} else {
			i, found := p.index(id)
			if found && p.peers[i].turn == p.turn {
				continue
			}
			known := false
			if found {
				p.peers[i].turn = p.turn
				in, _, known = p.best(&p.peers[i], now)
			}
			if !known {
				v.Members++
				continue
			}
		}
		v.Members++
		v.Known++
		if in.within(limit) {
			v.Near++
		} else if in.beyond(limit) {
			far++
		}
		p.edges = append(p.edges, edge{in.Lo - limit/2, 1}, edge{in.Hi + limit/2, -1})
	}
	v.Need = quorum.Majority(v.Members)
	v.Majority, v.Supported = supported(p.edges, v.Need)
	v.OK = v.Near >= v.Need
	v.Reason = v.reason(self, far)
	return v
}

// reason finds what to tell the operator, far being the number of members that
// are surely off by more than the limit.
func (v *Verdict) reason(self bool, far int) Reason {
	switch {
	case v.OK:
		return None
	case v.Known < v.Need || v.Members == 0:
		return Unmeasured
	case self && v.Known == 2 && far == 1:
		return Pair
	case v.Supported && v.Majority.beyond(int64(v.Limit)/2):
		return Off
	case !v.Supported:
		return Scattered
	}
	return Imprecise
}

// String is the verdict as a sentence for operators.
func (v Verdict) String() string {
	switch v.Reason {
	case None:
		return fmt.Sprintf("%d of %d clocks are within %v of this one", v.Near, v.Members, v.Limit)
	case Unmeasured:
		return fmt.Sprintf("only %d of %d clocks are known here, a majority is %d", v.Known, v.Members, v.Need)
	case Pair:
		return fmt.Sprintf("only two of %d nodes measure each other, and their clocks differ by more than %v: nobody can tell which is wrong, both stop", v.Members, v.Limit)
	case Off:
		d, which := v.Majority.Lo, "behind"
		if d < 0 {
			d, which = -v.Majority.Hi, "ahead of"
		}
		return fmt.Sprintf("this clock is at least %v %s the time of a majority, %v are allowed", time.Duration(d).Round(time.Millisecond), which, v.Limit/2)
	case Scattered:
		return fmt.Sprintf("no %d of %d clocks agree on a time", v.Need, v.Members)
	}
	return fmt.Sprintf("only %d of %d clocks are surely within %v of this one, a majority is %d", v.Near, v.Members, v.Limit, v.Need)
}

// Confirmed tells whether another node confirms this node's wall clock, so
// that it may end a lease that was learned by restart, vote or push (design
// 7.3): one peer at least is surely within eta/4, and those which are surely
// not are fewer than this node with those that are.
func (p *Peers) Confirmed(now clock.Time, eta time.Duration) bool {
	limit, near, far := int64(max(eta, 0)/4), 0, 0
	for i := range p.peers {
		in, _, known := p.best(&p.peers[i], now)
		switch {
		case !known:
		case in.within(limit):
			near++
		case in.beyond(limit):
			far++
		}
	}
	return near > 0 && far < near+1
}
