package transfer

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const (
	// cellsEvery is the pause between two questions about cells: a removed node is in
	// no hurry.
	cellsEvery = 5 * time.Second
	// cellsFrom is how many of those in reach are asked at once: each of them knows
	// all cells, one may be behind.
	cellsFrom = 3
)

// FormerMember is what a node that was removed does beside handing over: it finds out
// who keeps what it has.
//
// The register talks to nodes that are in it, and a removed one is not. So it learns of later
// cells from members, and believes one only when two of them, or the only other one, say the
// same: a single member might show a cell that it had heard of from nobody (a bug, or a
// set-back disk), and what is handed over is deleted here afterwards.
type FormerMember struct {
	m    *Machine
	at   int64 // mono ns of the next question; Never: there is nothing to ask
	turn int   // whose it is to be asked
	// Invariant: for a partition there are answers of at most [register.MaxNodes]+1 members:
	// past it all are forgotten, so that messages with invented senders cannot fill the memory.
	said map[ring.Partition]map[register.Member]register.Cell // what each has last said
}

// Work asks when it is time.
func (o *FormerMember) Work(now clock.Time) {
	m := o.m
	if !m.View.Dismissed || len(m.Outgoing) == 0 {
		o.at = clock.Never
		return
	}
	if o.at != clock.Never && o.at > now.Mono {
		return
	}
	o.at = now.Mono + int64(cellsEvery)
	ask := &message.Cells{Ask: true}
	var to []register.Member
	for _, p := range m.todo {
		if m.Outgoing[p] == nil {
			continue
		}
		ask.Cells = append(ask.Cells, message.KnownCell{Partition: p, Cell: register.Cell{Epoch: o.m.View.Cells[p].Epoch}})
		for _, who := range o.m.View.Cells[p].Cohort {
			// A message is what has this node look for somebody it has not known before.
			if who != o.m.Self && !o.m.View.Up(who) && !slices.Contains(to, who) {
				to = append(to, who)
			}
		}
	}
	for range min(cellsFrom, len(m.View.Members)) {
		to = append(to, m.View.Members[o.turn%len(m.View.Members)])
		o.turn++
	}
	for _, who := range to {
		o.m.Round.Send(who, ask)
	}
}

// Take answers who asks, and learns from an answer. A cell that a member knows has
// been in the register: a later one is as good as heard from there.
func (o *FormerMember) Take(now clock.Time, from register.Member, m *message.Cells) {
	switch {
	case m.Ask && !o.m.View.Dismissed:
		answer := &message.Cells{}
		for i := range m.Cells {
			if p := m.Cells[i].Partition; int(p) < len(o.m.View.Cells) && o.m.View.Cells[p].Epoch > m.Cells[i].Cell.Epoch {
				answer.Cells = append(answer.Cells, message.KnownCell{Partition: p, Cell: o.m.View.Cells[p]})
			}
		}
		if len(answer.Cells) > 0 {
			o.m.Round.Send(from, answer)
		}
	case !m.Ask && o.m.View.Dismissed:
		o.Learn(now, from, m.Cells)
	}
}

// enough tells whether enough members say that a cell is this one, from among them: two, or the
// only other one. This node hands over to its cohort what it has, and deletes it then.
func (o *FormerMember) enough(p ring.Partition, cell *register.Cell, from register.Member) bool {
	if o.said == nil {
		o.said = make(map[ring.Partition]map[register.Member]register.Cell)
	}
	if o.said[p] == nil || len(o.said[p]) > register.MaxNodes {
		o.said[p] = make(map[register.Member]register.Cell)
	}
	o.said[p][from] = *cell
	same, others := 0, 0
	for _, said := range o.said[p] { // Any order: they are counted.
		if said.Epoch == cell.Epoch && said.Nonce == cell.Nonce && slices.Equal(said.Cohort, cell.Cohort) {
			same++
		}
	}
	for i := range o.m.View.State.Nodes {
		if n := &o.m.View.State.Nodes[i]; n.Member != o.m.Self && n.Status != register.Removed {
			others++
		}
	}
	return same >= min(2, max(others, 1))
}

// Learn takes over the later cells that enough members say.
func (o *FormerMember) Learn(now clock.Time, from register.Member, cells []message.KnownCell) {
	some := false
	for i := range cells {
		p := cells[i].Partition
		if int(p) >= len(o.m.View.Cells) || cells[i].Cell.Epoch <= o.m.View.Cells[p].Epoch || !o.enough(p, &cells[i].Cell, from) {
			continue
		}
		o.m.View.Set(p, cells[i].Cell)
		some = true
		if move := o.m.Outgoing[p]; move != nil {
			move.tries, move.Pause = 0, 0
		}
	}
	if !some {
		return
	}
	o.m.Elections.Registered()
	o.m.Learn(now)
}

// Waits tells what a node that was removed still has to hand over: of how many partitions, and
// what the first of them waits for.
func (o *FormerMember) Waits() (partitions int, why string) {
	m := o.m
	if !m.View.Dismissed {
		return 0, ""
	}
	for _, p := range m.todo {
		if move := m.Outgoing[p]; move != nil {
			partitions++
			why = cmp.Or(why, m.waitsFor(p, move))
		}
	}
	return partitions + len(m.View.Dropping), why
}

// waitsFor tells why a partition has not been handed over yet.
func (m *Machine) waitsFor(p ring.Partition, move *Move) string {
	cohort, up := m.View.Cells[p].Cohort, 0
	for _, o := range cohort {
		if o != m.Self && m.View.Up(o) {
			up++
		}
	}
	need := quorum.Majority(len(cohort))
	aside, _ := vnode.KeptAside(m.Partitions.See(p))
	switch {
	case len(cohort) == 0:
		return fmt.Sprintf("nobody in reach says who keeps partition %d", p)
	case slices.Contains(cohort, m.Self):
		return fmt.Sprintf("this node still counts among those who keep partition %d, until it has moved", p)
	case up < need:
		return fmt.Sprintf("%d of the %d nodes that keep partition %d are in reach, %d are needed", up, len(cohort), p, need)
	case aside > 0 && move.Aside.Write != 0 && move.tries > 0:
		return fmt.Sprintf("those who keep partition %d have no room for facts older than gc-grace: raise `quarantine` there", p)
	case m.Quarantine.Full > 0 && move.tries > 0:
		return "there is no room here to keep facts older than gc-grace aside: raise `quarantine`"
	}
	return fmt.Sprintf("partition %d is being compared with those who keep it", p)
}
