package session

import (
	"time"

	"github.com/norn-dev/norn/internal/mutant"
)

// NameOp is what a dispatcher wants with the name of a worker.
type NameOp uint8

// Operations on names.
const (
	NameAcquire NameOp = iota + 1 // take it for this worker and association, or keep it
	NameTake                      // take it from the holder Expect, whom it may replace
	NameRelease                   // the worker has left
	NameRevoke                    // the worker is lost: it must not come back
	NameRead                      // changes nothing: is it still this association's?
)

// String gives the operation as in traces.
func (o NameOp) String() string {
	if names := [...]string{"none", "acquire", "take", "release", "revoke", "read"}; int(o) < len(names) {
		return names[o]
	}
	return "unknown"
}

// NameRequest asks the CP path for a name. It is answered by [Dispatcher.Name].
type NameRequest struct {
	No          uint64 // number of the request
	Op          NameOp
	Identity    Identity
	Association uint64
	Lease       time.Duration // acquire, take: how long the grant is to last
	Expect      Instance      // take: the holder
}

// NameVerdict is what became of a [NameRequest].
type NameVerdict uint8

// Verdicts.
const (
	NameUnknown    NameVerdict = iota // nothing is known; it is asked again
	NameGranted                       // for Lease, from the moment it was asked for
	NameRefused                       // Holder has it
	NameDead                          // this instance was revoked
	NameSuperseded                    // the worker has the name by a later association
	NameReleased
	NameRevoked
	NameStands // read: it is, or is nobody's
)

// String gives the verdict as in traces.
func (v NameVerdict) String() string {
	if names := [...]string{"unknown", "granted", "refused", "dead", "superseded", "released", "revoked", "stands"}; int(v) < len(names) {
		return names[v]
	}
	return "invalid"
}

// NameAnswer answers a NameRequest.
type NameAnswer struct {
	// No is that of the request; 0: nobody asked, it has come about: superseded,
	// or refused.
	No       uint64
	Instance Instance
	Verdict  NameVerdict
	Holder   Identity // refused: who has it
}

// Cell is what the CP path remembers of a name. The zero Cell is free. Whoever
// stores it applies requests one after the other, each on what the one before
// left, and lets a lease lapse like any other: after the full time it was granted
// for, and eta.
type Cell struct {
	Holder      Identity
	Association uint64
	// Dead: the holder was lost. It may not have the name again, anybody else may.
	Dead bool
}

// Apply carries out a request; lapsed says that the lease is over.
//
// The association decides between two dispatchers of one worker: the later one
// wins, and the earlier can then neither renew nor revoke. So a dispatcher that was
// cut off never declares dead who lives on with another.
func (c Cell) Apply(r NameRequest, lapsed bool) (Cell, NameVerdict) {
	mine := c.Holder.Instance == r.Identity.Instance
	if mine && c.Association > r.Association && !mutant.EarlierWins.On() {
		return c, NameSuperseded
	}
	switch r.Op {
	case NameAcquire, NameTake:
		switch {
		case mine && c.Dead:
			return c, NameDead
		case mine, c.Dead, lapsed, c.Holder.Instance.IsZero(), r.Op == NameTake && c.Holder.Instance == r.Expect:
			return Cell{Holder: r.Identity, Association: r.Association}, NameGranted
		}
		return c, NameRefused
	case NameRelease:
		if mine && !c.Dead {
			return Cell{}, NameReleased
		}
		return c, NameReleased
	case NameRevoke:
		if mine {
			return Cell{Holder: c.Holder, Association: r.Association, Dead: true}, NameRevoked
		}
		return c, NameRefused
	case NameRead:
		switch {
		case mine && c.Dead:
			return c, NameDead
		case mine || c.Holder.Instance.IsZero():
			return c, NameStands
		}
		return c, NameRefused
	}
	return c, NameUnknown
}
