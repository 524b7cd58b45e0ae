package dispatch

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

const (
	// InquiryFor is for how long a claim request waits at most until the other leaders have
	// said what they have. News took over 100 ms where loops were busy with enqueues. A leader
	// that is silent costs one request per queue so much in each [seekAgain].
	InquiryFor = 200 * time.Millisecond
	// OldNews is from what age on it is not relied on that something is ready elsewhere: while
	// somebody asks it is asked for every [wantedFor]. That nothing is there stays true until there
	// is something: who was told so hears of that.
	OldNews = 2 * wantedFor
	// MaxInquiries bounds what one claim request inquires: a worker of very many queues, or in
	// a very large cluster, is served in the order that is known.
	MaxInquiries = 64
	// MaxProbes bounds the requests that wait for answers; more are served as things are known.
	MaxProbes = 1024
)

// freshnessProbes hold claim requests back until it is known what the other leaders have: where
// nobody has asked for a queue for a while nothing is, and the first requests would be
// granted the best task of this node, however many better ones are elsewhere (design 7.3:
// best head first).
type freshnessProbes struct {
	c *Machine
	// Invariant: at most [MaxProbes] requests are held; what comes beyond is served by what is
	// known (Audit).
	held []*freshnessProbe
}

// freshnessProbe is a claim request that waits for the answers of others.
type freshnessProbe struct {
	r     *message.Request
	m     *nornv1.ClaimRequest
	until int64     // mono ns
	open  []*remote // of which it is not known what they have
	waits *waiting.Wait
}

// answered tells whether a request need not wait any more.
func (h *freshnessProbe) answered(now clock.Time) bool {
	h.open = slices.DeleteFunc(h.open, func(o *remote) bool { return o.inquired == 0 })
	return len(h.open) == 0 || h.until <= now.Mono
}

// old tells whether it is not known what a queue has at another leader.
func (h *remote) old(now clock.Time) bool {
	return !h.known || h.ready && now.Mono-h.heard > int64(OldNews)
}

// hold asks the other leaders about the queues of a claim request, where it is not known what
// they have, and keeps the request until they have answered. It tells whether it does: not
// twice for the same request, and not for a leader that has just been asked in vain.
//
// It waits for half of the time that the client has left, at most [InquiryFor]: the other half
// is for the grant itself. The question costs one message for each leader of which something is
// not known, for all queues together.
func (q *freshnessProbes) hold(now clock.Time, r *message.Request, m *nornv1.ClaimRequest, w *claimRequest) bool {
	leaders := q.c.remote.leaders()
	if w.routed || r.Inquired || q.c.View.Alone || len(q.held) == MaxProbes || len(leaders)*len(w.names) > MaxInquiries || !q.choice(w, leaders) {
		return false
	}
	var open []*remote
	until := now.Mono + int64(InquiryFor)
	if r.Deadline != 0 {
		until = min(until, now.Mono+(r.Deadline-now.Mono)/2)
	}
	for _, to := range leaders {
		ask := &message.QueueHeads{}
		for _, name := range w.names {
			h := q.c.remote.of(to, name)
			if q.c.Index.paused[name] || !h.old(now) {
				continue
			}
			if h.inquired == 0 || now.Mono-h.inquired >= int64(seekAgain) {
				h.inquired, h.asked = now.Mono, now.Mono
				ask.Heads = append(ask.Heads, message.QueueHead{Queue: name, Asks: true})
			}
			if now.Mono-h.inquired < int64(InquiryFor) {
				open = append(open, h)
			}
		}
		if len(ask.Heads) > 0 {
			q.c.Round.SendNow(to, ask)
		}
	}
	if len(open) == 0 {
		return false
	}
	r.Inquired = true
	h := &freshnessProbe{r: r, m: m, until: until, open: open}
	h.waits = q.c.Pending.Open(waiting.Probes, r.From, func(why *proto.Error) {
		q.held = slices.DeleteFunc(q.held, func(o *freshnessProbe) bool { return o == h })
		q.c.refuse(r.From, why)
	})
	q.held = append(q.held, h)
	return true
}

// choice tells whether a claim request may be served at more than one place: else there is
// nothing to inquire.
func (q *freshnessProbes) choice(w *claimRequest, leaders []register.Member) bool {
	n := 0
	if best, _, _ := q.c.Index.best(w); best != nil {
		n++
	}
	for _, m := range leaders {
		if slices.ContainsFunc(w.names, func(name string) bool {
			h := q.c.remote.of(m, name)
			return !q.c.Index.paused[name] && (!h.known || h.ready)
		}) {
			n++
		}
	}
	return n > 1
}

// inquired answers those of the questions of another node that are any.
func (q *freshnessProbes) inquired(now clock.Time, from register.Member, m *message.QueueHeads) {
	reply := &message.QueueHeads{}
	for i := range m.Heads {
		name := m.Heads[i].Queue
		if !m.Heads[i].Asks || proto.CheckQueue(name) != nil {
			continue
		}
		h := q.c.gossip.head(name)
		reply.Heads = append(reply.Heads, h)
		q.c.gossip.told(now, from, &h)
	}
	if len(reply.Heads) > 0 {
		q.c.Round.SendNow(from, reply)
	}
}

// serveHeld serves those that know enough, in the order in which they came.
func (q *freshnessProbes) serveHeld(now clock.Time) {
	if len(q.held) == 0 {
		return
	}
	var done []*freshnessProbe
	q.held = slices.DeleteFunc(q.held, func(h *freshnessProbe) bool {
		is := h.answered(now)
		if is {
			done = append(done, h)
		}
		return is
	})
	for _, h := range done {
		h.waits.Close()
		m, err := q.c.Claim(now, h.r, h.m)
		q.c.Round.Done(h.r.From, m, err)
	}
}

// nextHeld is when the first has waited for long enough, mono ns.
func (q *freshnessProbes) nextHeld() int64 {
	at := int64(clock.Never)
	for _, h := range q.held {
		at = min(at, h.until)
	}
	return at
}
