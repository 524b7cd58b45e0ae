package core

import (
	"fmt"

	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/register/wire"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"
)

// acceptor is what this node has promised for one partition, whether it keeps
// the partition or not.
type acceptor = election.Acceptor[register.Member]

// acceptors are what this node has promised (design 7.2). Each is on disk before
// anything leaves that depends on it: it is written in the batch of the round.
type acceptors struct {
	c   *Core
	all []acceptor // by partition
}

const acceptorVersion = 1

// openAcceptors reads what was promised. It returns an error when a record
// cannot be read: damaged is not the same as absent (K4).
func openAcceptors(c *Core, partitions int, view store.View) (*acceptors, error) {
	a := &acceptors{c: c, all: make([]acceptor, partitions)}
	for p := range a.all {
		b := vnode.Ballot(view, ring.Partition(p))
		if b == nil {
			continue
		}
		var err error
		if a.all[p], err = readAcceptor(b); err != nil {
			return nil, fmt.Errorf("core: promise of partition %d: %w", p, err)
		}
	}
	return a, nil
}

// save writes an acceptor that has changed.
func (a *acceptors) save(p ring.Partition) {
	if mutant.PromiseInMemory.On() {
		return
	}
	vnode.SetBallot(a.c.round.Tx, p, appendAcceptor(nil, &a.all[p]))
}

// accept tells whether a leader's message of an epoch may take effect here.
func (a *acceptors) accept(p ring.Partition, epoch uint64) bool {
	if !a.believes(p, epoch) {
		return false
	}
	ok, changed := a.all[p].Accept(epoch)
	if changed {
		a.save(p)
	}
	return ok
}

// believes tells whether an epoch can be, by what the register has shown here. One that is
// too far ahead is believed once it has shown more.
func (a *acceptors) believes(p ring.Partition, epoch uint64) bool {
	return a.all[p].Believes(epoch, a.c.view.Cells[p].Epoch)
}

// registered takes over the cells that the register shows.
func (a *acceptors) registered() {
	for p := range a.all {
		if a.all[p].Registered(a.c.view.Cells[p].Epoch) {
			a.save(ring.Partition(p))
		}
	}
}

// ahead tells whether this node, before it started, was shown a later cell than
// those of a state. A register that is opened shows what its snapshot says until it
// has gone through its log; the first node's may be of when there was no other, so
// that its own copy would pass for a majority.
func (a *acceptors) ahead(s *register.State) bool {
	for p := range a.all {
		if s.Cells[p].Epoch < a.all[p].Seen {
			return true
		}
	}
	return false
}

// blind tells whether there is a later cohort than the one that facts are sent to,
// of which this node knows no more than that: its copy must not count before it can
// name that cohort ([acceptors.fence]). Whoever has sent them sends them again.
func (a *acceptors) blind(p ring.Partition, epoch uint64) bool {
	seen := a.all[p].Seen
	return epoch < seen && a.c.view.Cells[p].Epoch < seen
}

// fence gives the cohorts that a write or a read has to reach beside the one that it
// was sent to, which is that of a cell of some epoch, if there are any. Where the cell
// here is an earlier one it says nothing about whom that was sent to.
func (a *acceptors) fence(p ring.Partition, epoch uint64) (f message.Fence, ok bool) {
	f.Partition = p
	cell := &a.c.view.Cells[p]
	if cell.Epoch > epoch {
		f.Cohorts = append(f.Cohorts, cell.Cohort)
	}
	for _, o := range a.all[p].Open {
		if o.Old >= epoch && (cell.Epoch < epoch || !election.Same(o.To, cell.Cohort)) {
			f.Cohorts = append(f.Cohorts, o.To)
		}
	}
	return f, len(f.Cohorts) > 0
}

// proposed tells whether this node is to be of the cohort of an open proposal.
func (a *acceptors) proposed(p ring.Partition) bool {
	for _, o := range a.all[p].Open {
		for _, m := range o.To {
			if m == a.c.cfg.Self {
				return true
			}
		}
	}
	return false
}

func appendAcceptor(dst []byte, a *acceptor) []byte {
	w := wire.Writer{B: dst}
	w.Uint(acceptorVersion)
	w.Uint(a.Promise)
	w.Uint(a.Nonce)
	w.Uint(a.Seen)
	w.Uint(uint64(len(a.Open)))
	for _, o := range a.Open {
		w.Uint(o.Epoch)
		w.Uint(o.Old)
		w.Uint(uint64(len(o.To)))
		for _, m := range o.To {
			register.AppendMember(&w, m)
		}
	}
	return w.B
}

func readAcceptor(b []byte) (a acceptor, err error) {
	r := wire.NewReader(b)
	if v := r.Uint(); v != acceptorVersion {
		return a, fmt.Errorf("%w: version %d of an acceptor", vnode.ErrDamaged, v)
	}
	a.Promise, a.Nonce, a.Seen = r.Uint(), r.Uint(), r.Uint()
	for range r.Count(election.MaxOpen) {
		o := election.Proposal[register.Member]{Epoch: r.Uint(), Old: r.Uint()}
		for range r.Count(register.MaxCohort) {
			o.To = append(o.To, register.ReadMember(r))
		}
		a.Open = append(a.Open, o)
	}
	if err := r.End(); err != nil {
		return a, fmt.Errorf("%w: %w", vnode.ErrDamaged, err)
	}
	return a, nil
}
