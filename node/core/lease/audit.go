package lease

import (
	"errors"
	"fmt"
)

// Audit tells which invariant of a machine does not hold. It is for tests. That claims do not
// overlap is what the simulator's witness looks at.
func Audit(g *Machine) error {
	return errors.Join(auditBatches(g), g.reclaims.audit(), auditLed(g))
}

// auditBatches looks at what is on its way and who waits for it.
func auditBatches(g *Machine) error {
	for i, o := range g.open {
		if i > 0 && (int64(o.number-g.open[i-1].number) <= 0 || o.until < g.open[i-1].until) {
			return fmt.Errorf("lease: batch %d comes after %d, and may be given up before it", o.number, g.open[i-1].number)
		}
		for _, part := range o.parts {
			for _, pl := range part.pledges {
				if err := pl.audit(); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// audit looks at a proposal, its twin and its owner.
func (pl *Proposal) audit() error {
	if pl.twin != nil && pl.twin.state != pl.state {
		return fmt.Errorf("lease: a claim of task %s is decided twice: %d and %d", pl.held.Task, pl.state, pl.twin.state)
	}
	if pl.owner == nil {
		return nil
	}
	left := 0
	for _, o := range pl.owner.pledges {
		if o.state == waiting {
			left++
		}
	}
	if left != pl.owner.left {
		return fmt.Errorf("lease: an answer waits for %d proposals, %d of them are not decided", pl.owner.left, left)
	}
	return nil
}

// audit compares the two views of what is to be taken back.
func (f *reclaims) audit() error {
	n := 0
	for _, o := range f.all {
		if o.done {
			continue
		}
		if n++; f.has[o.GrantRef] != o {
			return fmt.Errorf("lease: a claim of task %s is to be taken back, and cannot be found", o.Task)
		}
	}
	if n != len(f.has) || n > maxReclaims {
		return fmt.Errorf("lease: %d claims are to be taken back, %d can be found", n, len(f.has))
	}
	return nil
}

// auditLed looks for what is remembered of partitions that this node does not lead.
func auditLed(g *Machine) error {
	for p := range g.breakers.all { // Any order: each is judged for itself.
		if g.env.Partitions.See(p).Leading() == 0 {
			return fmt.Errorf("lease: partition %d has a breaker, and is not led here", p)
		}
	}
	for p := range g.confirms.asked { // Any order: likewise.
		if g.env.Partitions.See(p).Leading() == 0 {
			return fmt.Errorf("lease: who leads partition %d is asked, and it is not led here", p)
		}
	}
	for p := range g.confirms.last { // Any order: likewise.
		if g.env.Partitions.See(p).Leading() == 0 {
			return fmt.Errorf("lease: partition %d is confirmed, and not led here", p)
		}
	}
	return nil
}
