package sim

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// nemesis is what goes wrong in a cluster.
type nemesis struct{ *fleet }

// trouble sets off what goes wrong in a cluster by itself.
func (f nemesis) trouble() {
	s := f.s
	s.repeat(s.plan.Net.Cut, func() {
		if len(s.conns) > 0 {
			world.Pick(&s.World, s.conns).cut()
		}
	})
	s.repeat(s.plan.Crash.Every, f.crash)
	s.repeat(s.plan.Cluster.Split, f.split)
	s.repeat(s.plan.Cluster.Slow, f.slowDown)
	s.repeat(s.plan.Cluster.Wipe, f.wipe)
	s.repeat(s.plan.Cluster.Restore, f.restore)
	s.repeat(s.plan.Cluster.Flip, f.flip)
	s.repeat(s.plan.Cluster.Members, f.change)
	s.repeat(s.plan.Cluster.Resize, f.resize)
	s.repeat(s.plan.Clock.Set, f.misset)
	s.repeat(s.plan.Clock.Nap, f.suspend)
	s.After(s.plan.Storm/4, f.grow) // else nothing might move
	s.After(s.plan.Storm/4, f.provoke)
	s.After(s.plan.Storm/2, func() {
		if n := world.Pick(&s.World, f.nodes); f.missing(stats.Crashes) && !n.away {
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
	if s.healing || s.plan.Hands == 0 || !f.missing(stats.HandOvers) {
		return
	}
	able := slices.DeleteFunc(slices.Clone(s.hands), func(h *hand) bool { return h.on == nil || len(h.runs) == 0 })
	if len(able) == 0 {
		s.After(provokeAgain, f.provoke) // most tasks are done in less than a second
		return
	}
	h := world.Pick(&s.World, able)
	h.moving = true
	h.hangUp()
	h.work()
	s.After(s.Between(time.Second, 4*time.Second), f.provoke)
}

// missing tells whether something has not happened since the storm began.
func (f nemesis) missing(what stats.Stat) bool { return f.s.stats[what] == f.before[what] }

// misset sets the wall clock of one node wrong for a while: by little, or by so
// much that it may not grant anything until it is right again. The others keep
// theirs, so a majority is always right; or all are set ahead alike.
func (f nemesis) misset() {
	s := f.s
	n := world.Pick(&s.World, f.nodes)
	if slices.ContainsFunc(f.nodes, func(o *node) bool { return o.Clock.Off != 0 }) {
		return
	}
	if s.Chance(0.25) {
		f.setAhead()
		return
	}
	by := s.Between(-plan.SetBy, plan.SetBy)
	if s.Chance(0.5) {
		by = s.Between(-s.plan.Eta, s.plan.Eta) / 8
	}
	n.Clock.Off = int64(by)
	s.stats[stats.ClockSteps]++
	s.note("%sthe wall clock is set wrong by %v", n, by)
	s.note("%s", check.ClockStepped)
	s.After(s.About(s.plan.Cluster.Apart), func() {
		n.Clock.Off = 0
		s.note("%sthe wall clock is right again", n)
	})
}

// setAhead sets all wall clocks ahead alike for a while.
func (f nemesis) setAhead() {
	s := f.s
	f.ahead = int64(s.Between(s.plan.Eta, plan.SetBy))
	for _, n := range f.nodes {
		n.Clock.Off = f.ahead
	}
	s.stats[stats.ClockSteps]++
	s.note("all wall clocks are set ahead by %v", time.Duration(f.ahead))
	s.note("%s", check.ClockStepped)
	s.After(s.About(s.plan.Cluster.Apart), f.setRight)
}

// setRight ends that. No node may start before, also none that was down when they were
// set: what it has of leases then ends when the wall clock says so (package clock, Limit).
func (f nemesis) setRight() {
	if f.ahead == 0 {
		return
	}
	f.ahead = 0
	for _, n := range f.nodes {
		n.Clock.Off = 0
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
	n := world.Pick(&s.World, f.nodes)
	if !n.up || n.away || n.draining || !n.Clock.Awake(n.s.Now) {
		return
	}
	d := s.Between(200*time.Millisecond, napFor)
	if s.Chance(0.5) {
		d /= 10
	}
	for _, q := range n.asked { // Any order: each may take so much longer.
		q.limit += int64(d)
	}
	n.Clock.Suspend(s.Now, d)
	s.stats[stats.Suspended]++
	s.note("%sthe machine is suspended for %v", n, d)
}

// crash ends a process, at once or in the middle of something.
func (f nemesis) crash() {
	s, c := f.s, &f.s.plan.Crash
	n := world.Pick(&s.World, f.nodes)
	switch {
	case !n.up || n.away || !n.Clock.Awake(n.s.Now):
	case s.Chance(c.Drained):
		n.drain()
	case c.Steps && s.Chance(0.7):
		n.armed = true
	case c.Steps:
		n.steps = 1 + s.Rnd.IntN(12)
	default:
		n.crash()
	}
}

// split cuts links for a while: two halves, a node from all others, a node from
// some of them, or one direction only.
func (f nemesis) split() {
	s := f.s
	side := make([]bool, len(f.nodes))
	one := s.Rnd.IntN(len(f.nodes))
	oneWay, halves, some := s.Chance(0.3), s.Chance(0.4), s.Chance(0.2)
	for i := range side {
		side[i] = i == one || halves && s.Chance(0.5)
	}
	n := 0
	for i := range f.nodes {
		for j := range f.nodes {
			if side[i] && !side[j] && (!some || s.Chance(0.5)) {
				f.links[i][j].cut, f.links[j][i].cut = true, !oneWay || s.Chance(0.2)
				n++
			}
		}
	}
	if n == 0 {
		return
	}
	s.stats[stats.Splits]++
	s.note("the network splits: %s", f.cuts())
	s.After(s.About(s.plan.Cluster.Apart), f.mend)
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
	n := s.Rnd.IntN(len(f.nodes))
	slow := s.Between(50*time.Millisecond, time.Second)
	both := s.Chance(0.5)
	for i := range f.nodes {
		f.links[n][i].slow = slow
		if both {
			f.links[i][n].slow = slow
		}
	}
	s.stats[stats.SlowLinks]++
	s.note("what %s sends is slow: %v", f.nodes[n].self.Node, slow)
	s.After(s.About(s.plan.Cluster.Apart), f.mend)
}

// heal ends the storm in a cluster.
func (f nemesis) heal() {
	s := f.s
	s.healing = true
	s.plan.Calm()
	s.plan.Cluster.Calm()
	s.note("%s", check.ClockStepped)
	s.note("the storm is over")
	f.mend()
	f.setRight()
	for _, n := range f.nodes {
		n.steps, n.armed, n.Clock.Off = 0, false, 0
		n.Clock.Resume(s.Now)
		n.disk.Bad, n.cells.Bad = "", "" // nobody has read it
	}
	s.calmDown()
	s.After(10*time.Second, f.tidy)
	// Late copies of requests still arrive; then everything has to finish.
	s.After(s.plan.Net.Late+3*time.Second, func() { ending(f).await(s.Now-1, s.Now+int64(s.longest())) })
}

// cutOff cuts a node off for a while, and then another one.
func (f nemesis) cutOff() {
	s := f.s
	if s.healing {
		return
	}
	one := s.Rnd.IntN(len(f.nodes))
	for j := range f.nodes {
		if j != one {
			f.links[one][j].cut, f.links[j][one].cut = true, true
		}
	}
	s.stats[stats.Splits]++
	s.note("%s is cut off", f.nodes[one].self.Node)
	s.After(plan.CutFor, f.mend)
	s.After(plan.CutEvery+s.About(time.Second), f.cutOff)
}
