package sim

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/check"
)

// nemesis is what goes wrong in a cluster.
type nemesis struct{ *fleet }

// trouble sets off what goes wrong in a cluster by itself.
func (f nemesis) trouble() {
	s := f.s
	s.repeat(s.plan.net.cut, func() {
		if len(s.conns) > 0 {
			pick(&s.world, s.conns).cut()
		}
	})
	s.repeat(s.plan.crash.every, f.crash)
	s.repeat(s.plan.cluster.split, f.split)
	s.repeat(s.plan.cluster.slow, f.slowDown)
	s.repeat(s.plan.cluster.wipe, f.wipe)
	s.repeat(s.plan.cluster.restore, f.restore)
	s.repeat(s.plan.cluster.flip, f.flip)
	s.repeat(s.plan.cluster.members, f.change)
	s.repeat(s.plan.cluster.resize, f.resize)
	s.repeat(s.plan.clock.set, f.misset)
	s.repeat(s.plan.clock.nap, f.suspend)
	s.after(s.plan.storm/4, f.grow) // else nothing might move
	s.after(s.plan.storm/4, f.provoke)
	s.after(s.plan.storm/2, func() {
		if n := pick(&s.world, f.nodes); f.missing(Crashes) && !n.away {
			n.crash()
		}
	})
}

// provokeAgain is after what time it is looked again for a worker with tasks.
const provokeAgain = 100 * time.Millisecond

// provoke has a worker with tasks turn to another node until a session was handed
// over that way: a run without one proves nothing.
func (f nemesis) provoke() {
	s := f.s
	if s.healing || s.plan.hands == 0 || !f.missing(HandOvers) {
		return
	}
	able := slices.DeleteFunc(slices.Clone(s.hands), func(h *hand) bool { return h.on == nil || len(h.runs) == 0 })
	if len(able) == 0 {
		s.after(provokeAgain, f.provoke) // most tasks are done in less than a second
		return
	}
	h := pick(&s.world, able)
	h.moving = true
	h.hangUp()
	h.work()
	s.after(s.between(time.Second, 4*time.Second), f.provoke)
}

// missing tells whether something has not happened since the storm began.
func (f nemesis) missing(what Stat) bool { return f.s.stats[what] == f.before[what] }

// misset sets the wall clock of one node wrong for a while: by little, or by so
// much that it may not grant anything until it is right again. The others keep
// theirs, so a majority is always right; or all are set ahead alike.
func (f nemesis) misset() {
	s := f.s
	n := pick(&s.world, f.nodes)
	if slices.ContainsFunc(f.nodes, func(o *node) bool { return o.clock.off != 0 }) {
		return
	}
	if s.chance(0.25) {
		f.setAhead()
		return
	}
	by := s.between(-setBy, setBy)
	if s.chance(0.5) {
		by = s.between(-s.plan.eta, s.plan.eta) / 8
	}
	n.clock.off = int64(by)
	s.stats[ClockSteps]++
	s.note("%sthe wall clock is set wrong by %v", n, by)
	s.note("%s", check.ClockStepped)
	s.after(s.about(s.plan.cluster.apart), func() {
		n.clock.off = 0
		s.note("%sthe wall clock is right again", n)
	})
}

// setAhead sets all wall clocks ahead alike for a while.
func (f nemesis) setAhead() {
	s := f.s
	f.ahead = int64(s.between(s.plan.eta, setBy))
	for _, n := range f.nodes {
		n.clock.off = f.ahead
	}
	s.stats[ClockSteps]++
	s.note("all wall clocks are set ahead by %v", time.Duration(f.ahead))
	s.note("%s", check.ClockStepped)
	s.after(s.about(s.plan.cluster.apart), f.setRight)
}

// setRight ends that. No node may start before, also none that was down when they were
// set: what it has of leases then ends when the wall clock says so (package clock, Limit).
func (f nemesis) setRight() {
	if f.ahead == 0 {
		return
	}
	f.ahead = 0
	for _, n := range f.nodes {
		n.clock.off = 0
	}
	f.s.note("all wall clocks are right again")
}

// napFor is for how long a machine is suspended at most: leases end in less, and others
// take over.
const napFor = 15 * time.Second

// suspend has a machine do nothing for a while; then its wall clock has gone on, and its
// monotonic one has not.
func (f nemesis) suspend() {
	s := f.s
	n := pick(&s.world, f.nodes)
	if !n.up || n.away || n.draining || !n.clock.awake(n.s.now) {
		return
	}
	d := s.between(200*time.Millisecond, napFor)
	if s.chance(0.5) {
		d /= 10
	}
	for _, q := range n.asked { // Any order: each may take so much longer.
		q.limit += int64(d)
	}
	n.clock.suspend(s.now, d)
	s.stats[Suspended]++
	s.note("%sthe machine is suspended for %v", n, d)
}

// crash ends a process, at once or in the middle of something.
func (f nemesis) crash() {
	s, c := f.s, &f.s.plan.crash
	n := pick(&s.world, f.nodes)
	switch {
	case !n.up || n.away || !n.clock.awake(n.s.now):
	case s.chance(c.drained):
		n.drain()
	case c.steps && s.chance(0.7):
		n.armed = true
	case c.steps:
		n.steps = 1 + s.rnd.IntN(12)
	default:
		n.crash()
	}
}

// split cuts links for a while: two halves, a node from all others, a node from
// some of them, or one direction only.
func (f nemesis) split() {
	s := f.s
	side := make([]bool, len(f.nodes))
	one := s.rnd.IntN(len(f.nodes))
	oneWay, halves, some := s.chance(0.3), s.chance(0.4), s.chance(0.2)
	for i := range side {
		side[i] = i == one || halves && s.chance(0.5)
	}
	n := 0
	for i := range f.nodes {
		for j := range f.nodes {
			if side[i] && !side[j] && (!some || s.chance(0.5)) {
				f.links[i][j].cut, f.links[j][i].cut = true, !oneWay || s.chance(0.2)
				n++
			}
		}
	}
	if n == 0 {
		return
	}
	s.stats[Splits]++
	s.note("the network splits: %s", f.cuts())
	s.after(s.about(s.plan.cluster.apart), f.mend)
}

// cuts are the links that are cut, for people.
func (f nemesis) cuts() string {
	text := ""
	for i := range f.nodes {
		for j := range f.nodes {
			if f.links[i][j].cut {
				text += " " + f.nodes[i].self.Node + ">" + f.nodes[j].self.Node
			}
		}
	}
	return text
}

func (f nemesis) mend() {
	for i := range f.links {
		for j := range f.links[i] {
			f.links[i][j].cut, f.links[i][j].slow = false, 0
		}
	}
	f.s.note("the network is whole")
}

// slowDown makes the links of a node slow, one way or both.
func (f nemesis) slowDown() {
	s := f.s
	n := s.rnd.IntN(len(f.nodes))
	slow := s.between(50*time.Millisecond, time.Second)
	both := s.chance(0.5)
	for i := range f.nodes {
		f.links[n][i].slow = slow
		if both {
			f.links[i][n].slow = slow
		}
	}
	s.stats[SlowLinks]++
	s.note("what %s sends is slow: %v", f.nodes[n].self.Node, slow)
	s.after(s.about(s.plan.cluster.apart), f.mend)
}

// heal ends the storm in a cluster.
func (f nemesis) heal() {
	s := f.s
	s.healing = true
	s.plan.calm()
	s.plan.cluster.calm()
	s.note("%s", check.ClockStepped)
	s.note("the storm is over")
	f.mend()
	f.setRight()
	for _, n := range f.nodes {
		n.steps, n.armed, n.clock.off = 0, false, 0
		n.clock.resume(s.now)
		n.disk.bad, n.cells.bad = "", "" // nobody has read it
	}
	s.calmDown()
	s.after(10*time.Second, f.tidy)
	// Late copies of requests still arrive; then everything has to finish.
	s.after(s.plan.net.late+3*time.Second, func() { ending(f).await(s.now-1, s.now+int64(s.longest())) })
}
