package workers

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// Renewals of many workers gather for a while, so that ten thousand of them cost a few
// rounds a second and not one each: for renewGather, but a twentieth of the lease at
// most. Nobody loses by it: a lease counts from when its worker sent the heartbeat.
const (
	renewGather      = 250 * time.Millisecond
	renewGatherShare = 20
	// maxRenewGather bounds the claims that gather.
	maxRenewGather = proto.MaxBatchTasks
)

// renewals are those that gather.
type renewals struct {
	waiting []session.Renew
	// Invariant: claims is how many there are in waiting; at [maxRenewGather] they are asked
	// for at once (Audit).
	claims int
	at     int64 // mono ns at which they are asked for; clock.Never: none wait
}

// renew has the claims of heartbeats renewed, now or soon.
func (a *Asks) renew(now clock.Time, all []session.Renew) {
	w := &a.renewals
	for _, r := range all {
		w.waiting, w.claims = append(w.waiting, r), w.claims+len(r.Claims)
		w.at = min(w.at, now.Mono+int64(min(renewGather, r.Lease/renewGatherShare)))
	}
	a.renewDue(now)
}

// renewDue asks for what has gathered, when it is time.
func (a *Asks) renewDue(now clock.Time) {
	w := &a.renewals
	if now.Mono < w.at && w.claims < maxRenewGather || len(w.waiting) == 0 {
		return
	}
	all := slices.DeleteFunc(w.waiting, func(r session.Renew) bool { return !a.s.Dispatcher.Renews(r.Instance) })
	*w = renewals{at: clock.Never}
	scope.By(&a.holders, all, func(r *session.Renew) session.Instance { return r.Instance }, func(all []session.Renew) { a.renewAll(now, all) })
}

// renewing is the claims of one heartbeat that are being renewed.
type renewing struct {
	session.Renew
	left int // claims that are not decided
}

// renewAll renews the claims of heartbeats, by one request per leader.
//
// A claim that is not answered for stays undecided: the worker's deadline decides, and the
// worker asks again.
func (a *Asks) renewAll(now clock.Time, all []session.Renew) {
	type one struct {
		of    *renewing
		claim session.Claim
	}
	var claims []one
	for _, r := range all {
		of := &renewing{Renew: r, left: len(r.Claims)}
		for _, c := range r.Claims {
			claims = append(claims, one{of, c})
		}
	}
	undecided := func(now clock.Time, idx []int) {
		for _, i := range idx {
			a.renewed(now, claims[i].of, nil)
		}
	}
	groups, rest := a.byLeader(len(claims), func(i int) id.ID { return claims[i].claim.Task })
	for _, to := range groups.Order {
		for idx := range slices.Chunk(groups.Of[to], proto.MaxBatchTasks) {
			m := &nornv1.RenewRequest{}
			for _, i := range idx {
				m.Claims = append(m.Claims, claimRefOf(claims[i].claim, claims[i].of.Instance, claims[i].of.Name))
			}
			a.put(now, nornv1.Method_METHOD_RENEW, m, func(now clock.Time, r *message.Reply) {
				reply, _ := r.Message.(*nornv1.RenewReply)
				if len(reply.GetResults()) != len(idx) {
					undecided(now, idx)
					return
				}
				items := make(map[*renewing][]session.Renewal)
				var order []*renewing
				for k, i := range idx {
					of := claims[i].of
					if items[of] == nil {
						order = append(order, of)
					}
					items[of] = append(items[of], renewal(claims[i].claim, reply.GetResults()[k]))
				}
				for _, of := range order {
					a.renewed(now, of, items[of])
				}
			})
		}
	}
	undecided(now, rest)
}

// renewal is what became of one claim; with neither lease nor cause it is undecided.
func renewal(c session.Claim, r *nornv1.RenewResult) session.Renewal {
	out := session.Renewal{Claim: c}
	switch kind := r.GetError().GetKind(); {
	case r.GetError() == nil:
		out.Lease = proto.Seconds(r.GetLeaseSeconds())
	case r.GetState() == nornv1.State_STATE_CANCELLED:
		out.Lost = session.CauseCancelled
	case kind == nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, kind == nornv1.ErrorKind_ERROR_KIND_NOT_FOUND:
		out.Lost = session.CauseLost
	}
	return out
}

// renewed passes on what is known; no items stand for one claim that is undecided.
func (a *Asks) renewed(now clock.Time, of *renewing, items []session.Renewal) {
	of.left -= max(1, len(items))
	items = slices.DeleteFunc(items, func(r session.Renewal) bool { return r.Lease <= 0 && r.Lost == session.CauseNone })
	a.s.Dispatcher.Renewed(now, of.Instance, of.Association, of.Echo, items, of.left <= 0)
}
