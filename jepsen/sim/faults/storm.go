package faults

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/clients"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
)

// Nemesis is what goes wrong in a cluster.
type Nemesis struct {
	*nodes.Fleet
	*Slanderer
	s      *clients.People
	Size   int    // members there are about; 0: as drawn
	ahead  int64  // by how much all wall clocks are set ahead alike, ns
	sought sought // cohorts that the register may yet grant
}

// NewNemesis will do harm to a cluster; it hears at once what happens to nodes.
func NewNemesis(s *clients.People) *Nemesis {
	f := &Nemesis{Fleet: s.Fleet, s: s, sought: sought{}}
	f.Slanderer = &Slanderer{Fleet: s.Fleet, s: s, renew: f.renew}
	s.Fleet.Harm = f
	return f
}

// Trouble sets off what goes wrong in a cluster by itself.
func (f *Nemesis) Trouble() {
	s := f.s
	s.Repeat(s.Plan.Net.Cut, func() {
		if len(s.Conns) > 0 {
			world.Pick(&s.World, s.Conns).Cut()
		}
	})
	s.Repeat(s.Plan.Crash.Every, f.crash)
	s.Repeat(s.Plan.Cluster.Split, f.split)
	s.Repeat(s.Plan.Cluster.Slow, f.slowDown)
	s.Repeat(s.Plan.Cluster.Wipe, f.wipe)
	s.Repeat(s.Plan.Cluster.Restore, f.restore)
	s.Repeat(s.Plan.Cluster.Flip, f.flip)
	s.Repeat(s.Plan.Cluster.Members, f.change)
	s.Repeat(s.Plan.Cluster.Resize, f.resize)
	s.Repeat(s.Plan.Clock.Set, f.misset)
	s.Repeat(s.Plan.Clock.Nap, f.suspend)
	s.After(s.Plan.Storm/4, f.Grow) // else nothing might move
	s.After(s.Plan.Storm/4, f.provoke)
	s.After(s.Plan.Storm/2, func() {
		if n := world.Pick(&s.World, f.Nodes); f.missing(stats.Crashes) && !n.Away {
			n.Crash()
		}
	})
}

// provokeAgain is after what time it is looked again for a worker with tasks.
const provokeAgain = 100 * time.Millisecond

// provoke has a worker with tasks turn to another node until a session was handed
// over that way: a run without one proves nothing.
func (f *Nemesis) provoke() {
	s := f.s
	if s.Healing || s.Plan.Hands == 0 || !f.missing(stats.HandOvers) {
		return
	}
	able := slices.DeleteFunc(slices.Clone(s.Hands), func(h *clients.Hand) bool { return h.On == nil || len(h.Runs) == 0 })
	if len(able) == 0 {
		s.After(provokeAgain, f.provoke) // most tasks are done in less than a second
		return
	}
	h := world.Pick(&s.World, able)
	h.Moving = true
	h.HangUp()
	h.Work()
	s.After(s.Between(time.Second, 4*time.Second), f.provoke)
}

// missing tells whether something has not happened since the storm began.
func (f *Nemesis) missing(what stats.Stat) bool { return f.s.Stats[what] == f.Before[what] }

// misset sets the wall clock of one node wrong for a while: by little, or by so
// much that it may not grant anything until it is right again. The others keep
// theirs, so a majority is always right; or all are set ahead alike.
func (f *Nemesis) misset() {
	s := f.s
	n := world.Pick(&s.World, f.Nodes)
	if slices.ContainsFunc(f.Nodes, func(o *nodes.Node) bool { return o.Clock.Off != 0 }) {
		return
	}
	if s.Chance(0.25) {
		f.setAhead()
		return
	}
	by := s.Between(-plan.SetBy, plan.SetBy)
	if s.Chance(0.5) {
		by = s.Between(-s.Plan.Eta, s.Plan.Eta) / 8
	}
	n.Clock.Off = int64(by)
	s.Stats[stats.ClockSteps]++
	s.Note("%sthe wall clock is set wrong by %v", n, by)
	s.Note("%s", check.ClockStepped)
	s.After(s.About(s.Plan.Cluster.Apart), func() {
		n.Clock.Off = 0
		s.Note("%sthe wall clock is right again", n)
	})
}

// setAhead sets all wall clocks ahead alike for a while.
func (f *Nemesis) setAhead() {
	s := f.s
	f.ahead = int64(s.Between(s.Plan.Eta, plan.SetBy))
	for _, n := range f.Nodes {
		n.Clock.Off = f.ahead
	}
	s.Stats[stats.ClockSteps]++
	s.Note("all wall clocks are set ahead by %v", time.Duration(f.ahead))
	s.Note("%s", check.ClockStepped)
	s.After(s.About(s.Plan.Cluster.Apart), f.SetRight)
}

// SetRight ends that. No node may start before, also none that was down when they were
// set: what it has of leases then ends when the wall clock says so (package clock, Limit).
func (f *Nemesis) SetRight() {
	if f.ahead == 0 {
		return
	}
	f.ahead = 0
	for _, n := range f.Nodes {
		n.Clock.Off = 0
	}
	f.s.Note("all wall clocks are right again")
}

// napFor is for how long a machine is suspended at most: leases end in less, and others
// take over.
const napFor = 15 * time.Second

// suspend has a machine do nothing for a while; then its wall clock has gone on, and its
// monotonic one has not.
func (f *Nemesis) suspend() {
	s := f.s
	n := world.Pick(&s.World, f.Nodes)
	if !n.Up || n.Away || n.Draining || !n.Clock.Awake(n.S.Now) {
		return
	}
	d := s.Between(200*time.Millisecond, napFor)
	if s.Chance(0.5) {
		d /= 10
	}
	for _, q := range n.Asked { // Any order: each may take so much longer.
		q.Limit += int64(d)
	}
	n.Clock.Suspend(s.Now, d)
	s.Stats[stats.Suspended]++
	s.Note("%sthe machine is suspended for %v", n, d)
}

// crash ends a process, at once or in the middle of something.
func (f *Nemesis) crash() {
	s, c := f.s, &f.s.Plan.Crash
	n := world.Pick(&s.World, f.Nodes)
	switch {
	case !n.Up || n.Away || !n.Clock.Awake(n.S.Now):
	case s.Chance(c.Drained):
		n.Drain()
	case c.Steps && s.Chance(0.7):
		n.Armed = true
	case c.Steps:
		n.Steps = 1 + s.Rnd.IntN(12)
	default:
		n.Crash()
	}
}

// split cuts links for a while: two halves, a node from all others, a node from
// some of them, or one direction only.
func (f *Nemesis) split() {
	s := f.s
	side := make([]bool, len(f.Nodes))
	one := s.Rnd.IntN(len(f.Nodes))
	oneWay, halves, some := s.Chance(0.3), s.Chance(0.4), s.Chance(0.2)
	for i := range side {
		side[i] = i == one || halves && s.Chance(0.5)
	}
	n := 0
	for i := range f.Nodes {
		for j := range f.Nodes {
			if side[i] && !side[j] && (!some || s.Chance(0.5)) {
				f.Links[i][j].Cut, f.Links[j][i].Cut = true, !oneWay || s.Chance(0.2)
				n++
			}
		}
	}
	if n == 0 {
		return
	}
	s.Stats[stats.Splits]++
	s.Note("the network splits: %s", f.cuts())
	s.After(s.About(s.Plan.Cluster.Apart), f.Mend)
}

// cuts are the links that are cut, for people.
func (f *Nemesis) cuts() string {
	text := ""
	for i := range f.Nodes {
		for j := range f.Nodes {
			if f.Links[i][j].Cut {
				text += " " + f.Nodes[i].Self.Node + ">" + f.Nodes[j].Self.Node
			}
		}
	}
	return text
}

// Mend ends splits, and makes all links fast.
func (f *Nemesis) Mend() {
	for i := range f.Links {
		for j := range f.Links[i] {
			f.Links[i][j].Cut, f.Links[i][j].Slow = false, 0
		}
	}
	f.s.Note("the network is whole")
}

// slowDown makes the links of a node slow, one way or both.
func (f *Nemesis) slowDown() {
	s := f.s
	n := s.Rnd.IntN(len(f.Nodes))
	slow := s.Between(50*time.Millisecond, time.Second)
	both := s.Chance(0.5)
	for i := range f.Nodes {
		f.Links[n][i].Slow = slow
		if both {
			f.Links[i][n].Slow = slow
		}
	}
	s.Stats[stats.SlowLinks]++
	s.Note("what %s sends is slow: %v", f.Nodes[n].Self.Node, slow)
	s.After(s.About(s.Plan.Cluster.Apart), f.Mend)
}

// Heal ends the storm in a cluster; then everything has to finish.
func (f *Nemesis) Heal(then func()) {
	s := f.s
	s.Healing = true
	s.Plan.Calm()
	s.Plan.Cluster.Calm()
	s.Note("%s", check.ClockStepped)
	s.Note("the storm is over")
	f.Mend()
	f.SetRight()
	for _, n := range f.Nodes {
		n.Steps, n.Armed, n.Clock.Off = 0, false, 0
		n.Clock.Resume(s.Now)
		n.Disk.Bad, n.Cells.Bad = "", "" // nobody has read it
	}
	s.CalmDown()
	s.After(10*time.Second, f.Tidy)
	s.After(s.Plan.Net.Late+3*time.Second, then) // late copies of requests still arrive
}

// CutOff cuts a node off for a while, and then another one.
func (f *Nemesis) CutOff() {
	s := f.s
	if s.Healing {
		return
	}
	one := s.Rnd.IntN(len(f.Nodes))
	for j := range f.Nodes {
		if j != one {
			f.Links[one][j].Cut, f.Links[j][one].Cut = true, true
		}
	}
	s.Stats[stats.Splits]++
	s.Note("%s is cut off", f.Nodes[one].Self.Node)
	s.After(plan.CutFor, f.Mend)
	s.After(plan.CutEvery+s.About(time.Second), f.CutOff)
}
