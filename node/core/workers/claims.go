package workers

import (
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/session"
)

// When a leader is asked what a worker that has turned to this node holds: soon, and
// once more when a partition that had no leader may have one.
const (
	lookSoon  = 50 * time.Millisecond
	lookAgain = 10 * time.Second
)

// Holdings knows what the cluster takes for held by workers. A session learns from
// its worker what that runs; what the worker does not know of, because the dispatcher
// before has died with it on its lips, only leaders know.
type Holdings struct {
	s *Machine
	// Invariant: at is no later than the earliest time of a lookup; one that lies before it
	// would never be asked.
	looks map[session.Instance]*lookup
	at    int64 // mono ns of the next look
	ends  []endOf
	by    session.Instance // whose word is being carried out; zero: nobody's
}

// lookup is a worker whose claims leaders are to be asked for.
type lookup struct {
	association uint64
	at          int64
	again       bool
}

// endOf is a claim that has ended without its session's doing.
type endOf struct {
	claim    session.Claim
	instance session.Instance
}

// begin makes it that of a process that knows of no worker.
func (h *Holdings) begin(s *Machine) {
	h.s, h.at, h.looks = s, clock.Never, make(map[session.Instance]*lookup)
}

// look has leaders asked about a worker that is new to this node.
func (h *Holdings) look(now clock.Time, i session.Instance, association uint64) {
	l := h.looks[i]
	if l != nil && l.association == association {
		return // its name was renewed
	}
	h.looks[i] = &lookup{association: association, at: now.Mono + int64(lookSoon), again: true}
	h.at = min(h.at, h.looks[i].at)
}

// work asks what is due, and passes on what has ended.
func (h *Holdings) work(now clock.Time) {
	h.stop(now)
	if now.Mono < h.at {
		return
	}
	h.at = clock.Never
	m := &message.Work{}
	for _, i := range slices.SortedFunc(maps.Keys(h.looks), compareInstances) {
		l := h.looks[i]
		switch {
		case !h.s.Dispatcher.Knows(i):
			delete(h.looks, i)
			continue
		case l.at == clock.Never:
			continue
		case now.Mono >= l.at:
			m.Items = append(m.Items, message.WorkItem{Kind: message.WorkAsk, Instance: i, Association: l.association})
			if l.at = clock.Never; l.again {
				l.at, l.again = now.Mono+int64(lookAgain), false
			}
		}
		h.at = min(h.at, l.at)
	}
	if len(m.Items) == 0 {
		return
	}
	h.Take(now, h.s.Self, m)
	for _, to := range h.s.Routes.Leaders() {
		h.send(to, m.Items)
	}
}

// send sends news of workers to a node, after the sync: it says what this node has on its disk.
func (h *Holdings) send(to register.Member, items []message.WorkItem) {
	h.s.Round.Send(to, &message.Work{Items: items})
}

// Take takes news from a node.
func (h *Holdings) Take(now clock.Time, from register.Member, m *message.Work) {
	asked := make(map[session.Instance]uint64)
	for i := range m.Items {
		x := &m.Items[i]
		switch x.Kind {
		case message.WorkAsk:
			asked[x.Instance] = x.Association
		case message.WorkDoubt:
			var all []session.Question
			for _, c := range x.Claims {
				all = append(all, session.Question{Claim: session.Claim{Task: c.Task, Token: c.Token}, Lease: c.Lease})
			}
			h.s.Dispatcher.Doubt(now, x.Instance, all)
		case message.WorkStop:
			for _, c := range x.Claims {
				h.s.Dispatcher.Cancel(now, x.Instance, session.Claim{Task: c.Task, Token: c.Token}, session.Cause(c.Cause))
			}
		}
	}
	if len(asked) == 0 {
		return
	}
	items := h.heldBy(asked)
	switch {
	case len(items) == 0:
	case from == h.s.Self:
		h.Take(now, from, &message.Work{Items: items})
	default:
		h.send(from, items)
	}
}

// heldBy lists what workers hold of the partitions led here, but for what they were
// granted in the associations named: their dispatcher knows of that, or is about to.
// It looks at every claim here, for all of the workers at once.
//
// It costs a walk over all claims of the partitions led here, for any number of workers; a
// dispatcher that fails turns hundreds of them to others at once.
func (h *Holdings) heldBy(asked map[session.Instance]uint64) (items []message.WorkItem) {
	held := make(map[session.Instance][]message.WorkClaim)
	for _, v := range h.s.Partitions.Each() {
		if v.Leading() == 0 {
			continue
		}
		v.Held(func(task id.ID, r *claim.Record) {
			if association, ok := asked[r.Session]; ok && r.Request>>32 != association {
				held[r.Session] = append(held[r.Session], message.WorkClaim{Task: task, Token: r.Token, Lease: r.Lease})
			}
		})
	}
	for _, i := range slices.SortedFunc(maps.Keys(held), compareInstances) {
		slices.SortFunc(held[i], func(a, b message.WorkClaim) int { return a.Task.Compare(b.Task) })
		items = append(items, message.WorkItem{Kind: message.WorkDoubt, Instance: i, Claims: held[i]})
	}
	return items
}

// Tells notes whose word is carried out until the next call: of what ends by it that session
// need not be told.
func (h *Holdings) Tells(by []byte) {
	h.by = session.Instance{}
	copy(h.by[:], by)
}

// Ended hears from a vnode that a claim has ended. Of a lease that has run out its worker
// knows by itself.
func (h *Holdings) Ended(task id.ID, r *claim.Record) {
	if _, worker := h.s.Names.of[r.Session]; worker && r.Session != h.by && r.Outcome != claim.Expired && h.s.vnode(task).Leading() != 0 {
		h.ends = append(h.ends, endOf{session.Claim{Task: task, Token: r.Token}, r.Session})
	}
}

// stop has workers told of claims that were ended by others: at once, not when they
// renew next.
func (h *Holdings) stop(now clock.Time) {
	ends := h.ends
	h.ends = nil
	for _, e := range ends {
		cause := session.CauseLost
		if h.s.Node.State(e.claim.Task) == nornv1.State_STATE_CANCELLED {
			cause = session.CauseCancelled
		}
		if h.s.Dispatcher.Cancel(now, e.instance, e.claim, cause) {
			continue
		}
		if to, ok := h.s.dispatcherOf(e.instance); ok && to != h.s.Self {
			h.send(to, []message.WorkItem{{Kind: message.WorkStop, Instance: e.instance, Claims: []message.WorkClaim{{Task: e.claim.Task, Token: e.claim.Token, Cause: uint8(cause)}}}})
		}
	}
}

// handOver passes claims on whose workers have turned to other nodes.
func (h *Holdings) handOver(now clock.Time, all []session.Doubt) {
	for _, x := range all {
		to, ok := h.s.dispatcherOf(x.Instance)
		switch {
		case !ok: // their leases decide
		case to == h.s.Self:
			h.s.Dispatcher.Doubt(now, x.Instance, x.Claims)
		default:
			item := message.WorkItem{Kind: message.WorkDoubt, Instance: x.Instance}
			for _, q := range x.Claims {
				item.Claims = append(item.Claims, message.WorkClaim{Task: q.Claim.Task, Token: q.Claim.Token, Lease: q.Lease})
			}
			h.send(to, []message.WorkItem{item})
		}
	}
}

// nextLook is when there is something to do, mono ns.
func (h *Holdings) nextLook() int64 {
	if len(h.ends) > 0 {
		return 0
	}
	return h.at
}
