package leadership

import (
	"fmt"

	"github.com/norn-dev/norn/election"
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

// Acceptors are what this node has promised (design 7.2). Each is on disk before
// anything leaves that depends on it: it is written in the batch of the round.
type Acceptors struct {
	// Invariant: this node leads no partition in an epoch below its promise: it would grant
	// claims that a majority has promised not to take, or that the next leader does not know
	// ([Machine.StepDownBelow] after each promise).
	All []acceptor // by partition

	env *Env
}

// acceptorVersion is the version of the record of a promise on disk. A record of another
// version stops the start: to take it for absent would be to vote a second time.
const acceptorVersion = 1

// OpenAcceptors reads what was promised. It returns an error when a record
// cannot be read: damaged is not the same as absent (K4).
func OpenAcceptors(env *Env, partitions int, view store.View) (*Acceptors, error) {
	a := &Acceptors{env: env, All: make([]acceptor, partitions)}
	for p := range a.All {
		b := vnode.Ballot(view, ring.Partition(p))
		if b == nil {
			continue
		}
		var err error
		if a.All[p], err = readAcceptor(b); err != nil {
			return nil, fmt.Errorf("core: promise of partition %d: %w", p, err)
		}
	}
	return a, nil
}

// Save writes an acceptor that has changed.
func (a *Acceptors) Save(p ring.Partition) {
	if a.env.Policy.PromiseInMemory {
		return
	}
	vnode.SetBallot(a.env.Round.Tx, p, appendAcceptor(nil, &a.All[p]))
}

// Accept tells whether a leader's message of an epoch may take effect here.
func (a *Acceptors) Accept(p ring.Partition, epoch uint64) bool {
	if !a.Believes(p, epoch) {
		return false
	}
	ok, changed := a.All[p].Accept(epoch)
	if changed {
		a.Save(p)
	}
	return ok
}

// Believes tells whether an epoch can be, by what the register has shown here. One that is
// too far ahead is believed once it has shown more.
func (a *Acceptors) Believes(p ring.Partition, epoch uint64) bool {
	return a.All[p].Believes(epoch, a.env.View.Cells[p].Epoch)
}

// Registered takes over the cells that the register shows.
func (a *Acceptors) Registered() {
	for p := range a.All {
		if a.All[p].Registered(a.env.View.Cells[p].Epoch) {
			a.Save(ring.Partition(p))
		}
	}
}

// Ahead tells whether this node, before it started, was shown a later cell than
// those of a state. A register that is opened shows what its snapshot says until it
// has gone through its log; the first node's may be of when there was no other, so
// that its own copy would pass for a majority.
func (a *Acceptors) Ahead(s *register.State) bool {
	for p := range a.All {
		if s.Cells[p].Epoch < a.All[p].Seen {
			return true
		}
	}
	return false
}

// Blind tells whether there is a later cohort than the one that facts are sent to,
// of which this node knows no more than that: its copy must not count before it can
// name that cohort ([Acceptors.Fence]). Whoever has sent them sends them again.
func (a *Acceptors) Blind(p ring.Partition, epoch uint64) bool {
	seen := a.All[p].Seen
	return epoch < seen && a.env.View.Cells[p].Epoch < seen
}

// Fence gives the cohorts that a write or a read has to reach beside the one that it
// was sent to, which is that of a cell of some epoch, if there are any. Where the cell
// here is an earlier one it says nothing about whom that was sent to.
func (a *Acceptors) Fence(p ring.Partition, epoch uint64) (f message.Fence, ok bool) {
	f.Partition = p
	cell := &a.env.View.Cells[p]
	if cell.Epoch > epoch {
		f.Cohorts = append(f.Cohorts, cell.Cohort)
	}
	for _, o := range a.All[p].Open {
		if o.Old >= epoch && (cell.Epoch < epoch || !election.Same(o.To, cell.Cohort)) {
			f.Cohorts = append(f.Cohorts, o.To)
		}
	}
	return f, len(f.Cohorts) > 0
}

// Proposed tells whether this node is to be of the cohort of an open proposal.
func (a *Acceptors) Proposed(p ring.Partition) bool {
	for _, o := range a.All[p].Open {
		for _, m := range o.To {
			if m == a.env.Self {
				return true
			}
		}
	}
	return false
}

// appendAcceptor encodes version, promise, nonce, highest epoch seen, and the open proposals
// (epoch, epoch of the old cell, members), all as varints; see package wire.
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

// readAcceptor decodes it. Errors wrap [vnode.ErrDamaged].
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
