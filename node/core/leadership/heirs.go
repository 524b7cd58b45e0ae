package leadership

import (
	"cmp"
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/round"
	"github.com/norn-dev/norn/placement"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// passTurn is for how long the same member is asked to lead by who cannot: as long as an
// election may take. Then it is the turn of the next one, as that one may be no good either.
const passTurn = 2 * election.Patience

// passed is since when others are asked to lead after the cell of an epoch, mono ns.
type passed struct {
	epoch uint64
	since int64
}

// turn counts whose turn it is to be asked.
func (e *Machine) turn(p ring.Partition) int {
	o, now := e.passed[p], e.env.Round.Now.Mono
	if epoch := e.env.View.Cells[p].Epoch; o.since == 0 || o.epoch != epoch {
		o = passed{epoch, now}
		e.passed[p] = o
	}
	return int((now - o.since) / int64(passTurn))
}

// Pass has another member lead a partition: this node is no good for it.
func (e *Machine) Pass(p ring.Partition) {
	e.StepDown(p)
	cell := &e.env.View.Cells[p]
	if heir, ok := e.heir(p, cell, e.turn(p)); ok {
		s := message.Stand{Partition: p, Epoch: cell.Epoch, Nonce: cell.Nonce, To: cell.Cohort}
		e.env.Round.Send(heir, &message.Elect{Stand: []message.Stand{s}})
	}
}

// refer has another one stand in the stead of this node, which is asked to and cannot. It
// does only where the present leader is to leave the cohort, which cannot stay as it is then:
// who asks is not told, and would ask this node again without end.
func (e *Machine) refer(now clock.Time, s *message.Stand) {
	p := s.Partition
	leader, _ := placement.Leading(&e.env.View.Cells[p])
	if slices.Contains(s.To, leader) || e.nudged[p] > now.Mono {
		return
	}
	heir, ok := e.heir(p, &register.Cell{Cohort: s.To}, e.turn(p))
	if !ok {
		return
	}
	e.nudged[p] = now.Mono + int64(nudgeAgain) // that one may not be able to either, and ask this one
	e.env.Round.Send(heir, &message.Elect{Stand: []message.Stand{*s}})
}

// heir is the member in reach that is to lead a partition after this node: for
// each partition another one, and the next one with each turn.
//
// Members are ordered by a hash of partition and member (rendezvous hashing; Thaler and
// Ravishankar 1998), so the partitions of one node that goes spread over all others instead of
// falling to one.
func (e *Machine) heir(p ring.Partition, cell *register.Cell, turn int) (heir register.Member, ok bool) {
	var able []register.Member
	for _, m := range cell.Cohort {
		if m != e.env.Self && e.env.View.Up(m) {
			able = append(able, m)
		}
	}
	if len(able) == 0 {
		return heir, false
	}
	slices.SortFunc(able, func(a, b register.Member) int { return cmp.Compare(lot(p, a), lot(p, b)) })
	return able[turn%len(able)], true
}

// Retreat has others lead what this node leads: it is about to stop. What was
// asked may get lost, or who was asked may not be able to: others are asked again
// and again, each in its turn.
func (e *Machine) Retreat(now clock.Time) {
	e.resign = true
	e.askAt = now.Mono + int64(retreatAgain)
	to := make(map[register.Member]*message.Elect)
	for p, v := range e.env.Partitions.Each() {
		if v.Leading() == 0 {
			continue
		}
		cell := &e.env.View.Cells[p]
		heir, ok := e.heir(ring.Partition(p), cell, e.asked)
		if !ok {
			continue // nobody could
		}
		mail := round.For(to, heir)
		mail.Stand = append(mail.Stand, message.Stand{Partition: ring.Partition(p), Epoch: cell.Epoch, Nonce: cell.Nonce, To: cell.Cohort})
	}
	round.SendAll(e.env.Round.Send, to)
	e.asked++
}
