package election

import (
	"slices"

	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/ring"
)

// Ballot asks a member for its vote, so that the sender becomes the leader of a
// partition in an epoch with the cohort To, if the register still says Old.
type Ballot[M comparable] struct {
	Partition ring.Partition
	Epoch     uint64 // asked for
	Nonce     uint64 // names the candidacy; not 0
	Old       uint64 // epoch of the register's cell that it starts from
	From, To  []M    // cohorts: that of the cell, and the one to be
	// Pre asks whether a vote would be given, without changing anything, so that a
	// node that is cut off does not raise epochs (protocol X4).
	Pre bool
	// Transfer says that the present leader is not to be spared: it has asked for
	// this, or the cohort is to change.
	Transfer bool
}

// Changes tells whether the cohort is to be another one.
func (b *Ballot[M]) Changes() bool { return !Same(b.From, b.To) }

// Same compares two cohorts as sets.
func Same[M comparable](a, b []M) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(m M) bool { return !slices.Contains(b, m) })
}

// Vote answers a [Ballot].
type Vote struct {
	Partition    ring.Partition
	Epoch, Nonce uint64 // of the ballot
	Pre          bool
	Granted      bool
	Promise      uint64 // of the acceptor, after it
}

// Proposal is a ballot that was voted for and may still become the register's
// value: an AP write needs a quorum in its cohort too (design 5).
type Proposal[M comparable] struct {
	Epoch uint64
	Old   uint64
	To    []M
}

// MaxOpen bounds the proposals with different cohorts that an acceptor keeps
// open. Cohorts are proposed by placement, one step at a time; so many at once
// mean that something is wrong, and each costs every write a quorum.
const MaxOpen = 8

// Acceptor is what one member keeps of one partition, whether it holds the
// partition or not, and never deletes (design 7.2, steps 3 and 8).
type Acceptor[M comparable] struct {
	// Promise: nothing of a lower epoch is accepted any more. It never decreases.
	Promise uint64
	// Nonce is that of the candidacy that has the vote of epoch Promise, 0 when
	// the promise came with a leader's message.
	Nonce uint64
	// Seen is the highest epoch that the register has shown to this node.
	Seen uint64
	// Open are the proposals voted for that the register has not overtaken.
	Open []Proposal[M]
}

// Would answers a pre-vote: spare tells that the present leader is well, as far
// as this node knows.
func (a *Acceptor[M]) Would(b *Ballot[M], spare bool) Vote {
	v := Vote{Partition: b.Partition, Epoch: b.Epoch, Nonce: b.Nonce, Pre: true, Promise: a.Promise}
	v.Granted = b.Epoch > a.Promise && b.Old >= a.Seen && (b.Transfer || !spare) && a.room(b)
	return v
}

// Vote answers a ballot, and promises its epoch where it grants the vote. Only a
// strictly greater epoch is promised; the same candidacy may ask again, because
// its answer may have been lost.
func (a *Acceptor[M]) Vote(b *Ballot[M]) Vote {
	v := Vote{Partition: b.Partition, Epoch: b.Epoch, Nonce: b.Nonce}
	again := b.Epoch == a.Promise && b.Nonce == a.Nonce && b.Nonce != 0 && (!b.Changes() || a.find(b) >= 0)
	if (b.Old >= a.Seen || mutant.StaleBallot.On()) && (again || (b.Epoch > a.Promise || mutant.SameEpoch.On() && b.Epoch == a.Promise) && a.room(b)) {
		v.Granted = true
		a.Promise, a.Nonce = b.Epoch, b.Nonce
		a.propose(b)
	}
	v.Promise = a.Promise
	return v
}

func (a *Acceptor[M]) find(b *Ballot[M]) int {
	return slices.IndexFunc(a.Open, func(p Proposal[M]) bool { return p.Old == b.Old && Same(p.To, b.To) })
}

// room tells whether the ballot's proposal can be kept, if it has to be.
func (a *Acceptor[M]) room(b *Ballot[M]) bool {
	return !b.Changes() || len(a.Open) < MaxOpen || a.find(b) >= 0
}

// propose keeps the ballot's proposal. Of several for the same cohort from the
// same cell one is enough: they ask the same of whoever writes. One that keeps
// the cohort asks nothing: whoever writes starts from it anyway.
func (a *Acceptor[M]) propose(b *Ballot[M]) {
	if !b.Changes() || mutant.ProposalLost.On() {
		return
	}
	if i := a.find(b); i >= 0 {
		a.Open[i].Epoch = max(a.Open[i].Epoch, b.Epoch)
		return
	}
	a.Open = append(slices.Clip(a.Open), Proposal[M]{Epoch: b.Epoch, Old: b.Old, To: b.To})
}

// Accept tells whether a leader's or candidate's message of an epoch may take
// effect, and promises its epoch. changed says that the acceptor is to be
// persisted before the answer leaves.
func (a *Acceptor[M]) Accept(epoch uint64) (ok, changed bool) {
	if epoch < a.Promise || epoch == 0 {
		return false, false
	}
	if epoch == a.Promise {
		return true, false
	}
	a.Promise, a.Nonce = epoch, 0
	return true, true
}

// Bounds of the epochs that are promised on the word of one member. An epoch that leaves no
// higher one, or none that fits into a token, would leave the partition without a leader
// for good.
const (
	// Window is by how much an epoch may be ahead of what the register has shown: that many
	// candidacies in a row that came to nothing.
	Window = 1 << 16
	// step is by how much it may be ahead of what was promised.
	step = 64
	// maxEpoch is the upper half of a token, but for room to go on.
	maxEpoch = 1 << 31
)

// Believes tells whether an epoch may be promised because another member says it.
// registered is that of the register as it is known here.
func (a *Acceptor[M]) Believes(epoch, registered uint64) bool {
	return epoch < maxEpoch && epoch <= max(a.Seen+Window, registered+Window, a.Promise+step)
}

// Registered takes over what the register was seen to say: a proposal that
// starts from an older cell can never become its value, because the
// compare-and-set is of exactly that cell.
func (a *Acceptor[M]) Registered(epoch uint64) (changed bool) {
	a.Seen = max(a.Seen, epoch) // alone no reason to write: it is read again from the register
	if len(a.Open) == 0 {
		return false
	}
	n := len(a.Open)
	a.Open = slices.DeleteFunc(slices.Clone(a.Open), func(p Proposal[M]) bool { return p.Old < a.Seen })
	return len(a.Open) != n
}

// MayForget tells whether a member that the registered cohort does not list may
// delete its claims and data of the partition: only when the epoch it has read
// itself is at least its promise, else a candidate may still count on them.
func (a *Acceptor[M]) MayForget(epoch uint64) bool {
	return epoch >= a.Promise || mutant.ForgetAnyway.On()
}
