package faults

import (
	"time"

	"github.com/norn-dev/norn/jepsen/check"
	"github.com/norn-dev/norn/jepsen/sim/nodes"
	"github.com/norn-dev/norn/jepsen/sim/plan"
	"github.com/norn-dev/norn/jepsen/sim/stats"
	"github.com/norn-dev/norn/jepsen/sim/world"
	"github.com/norn-dev/norn/node/core/message"
)

// Lone is what goes wrong at a node that is alone.
type Lone struct{ *nodes.System }

// Trouble sets off what goes wrong by itself.
func (s Lone) Trouble() {
	s.Repeat(s.Plan.Net.Cut, func() {
		if len(s.Conns) > 0 {
			world.Pick(&s.World, s.Conns).Cut()
		}
	})
	s.Repeat(s.Plan.Clock.Set, func() {
		s.Node.Clock.Off = int64(s.Between(-plan.SetBy, plan.SetBy))
		s.Stats[stats.ClockSteps]++
		s.Note("%s", check.ClockStepped)
	})
	s.Repeat(s.Plan.Disk.Full, s.fillDisk)
	s.Next = s.nextCrash
	s.nextCrash()
}

// nextCrash plans the next crash or clean stop.
func (s Lone) nextCrash() {
	c := s.Plan.Crash
	if c.Every == 0 || s.Healing {
		return
	}
	s.After(s.About(c.Every), func() {
		n := s.Node
		switch {
		case s.Healing:
		case !n.Up:
			s.nextCrash()
		case s.Chance(c.Drained):
			n.Drain()
		case c.Steps && s.Chance(0.7):
			n.Armed = true
		case c.Steps:
			n.Steps = 1 + s.Rnd.IntN(12)
		default:
			n.Crash()
			s.nextCrash()
		}
	})
}

// fillDisk makes the data disk nearly full for a while.
func (s Lone) fillDisk() {
	if !s.Node.Up {
		return
	}
	s.Note("the disk is nearly full")
	s.Node.Put(message.DiskSpace{Free: nodes.DiskReserve - 1}, true)
	s.After(s.About(3*time.Second), s.FreeDisk)
}

// FreeDisk ends that.
func (s Lone) FreeDisk() {
	if s.Node.Up {
		s.Node.Put(message.DiskSpace{Free: 1 << 40}, true)
	}
}
