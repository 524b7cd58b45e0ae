package core

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// scatterRequest is a request whose parts are answered in several places.
type scatterRequest struct {
	call.Deadline
	from   message.Origin
	join   joiner
	left   map[uint64]*leg
	grants []message.GrantRef    // that are in the answer so far
	then   func(*scatterRequest) // takes the answer instead of the client; nil: nobody
	round  uint64                // in which this node has last written something for it; 0: in none
	method uint16                // of its parts, where that is another one than its own; 0: it is not

	scope *guard.Scope // of its parts, see [message.Request]
	by    string       // likewise

	choosy   bool // its parts are, see [message.Forward]
	declined bool // one of them was, see [message.Forwarded]
}

// leg is what one node answers of a request.
type leg struct {
	g      *scatterRequest
	number uint64
	at     register.Member
	idx    []int // of the items; nil: it has none
	method uint16
}

// abandonedLegs are numbers of parts that are not waited for any more: only of those it is
// sure that nobody has heard of an answer. Of those that are forgotten what was granted
// waits for its lease.
type abandonedLegs struct {
	has   map[uint64]bool
	order []uint64
}

func (f *abandonedLegs) add(number uint64) {
	if f.has == nil {
		f.has = make(map[uint64]bool)
	}
	if len(f.order) >= maxGathers {
		delete(f.has, f.order[0])
		f.order = f.order[1:]
	}
	f.has[number], f.order = true, append(f.order, number)
}

// take tells whether a part was forsaken, once.
func (f *abandonedLegs) take(number uint64) bool {
	had := f.has[number]
	delete(f.has, number)
	return had
}

// joiner makes one answer of several.
type joiner interface {
	// Take adds the answer to a part, for the items in idx.
	Take(idx []int, m gproto.Message)
	// Fail adds an error.
	Fail(idx []int, err *proto.Error)
	// Answer gives the whole, when nothing is left.
	Answer() (gproto.Message, *proto.Error)
}

// gather begins one. wait is how long the request itself may wait.
func (r *routes) gather(now clock.Time, q *message.Request, join joiner, wait time.Duration) *scatterRequest {
	g := &scatterRequest{from: q.From, scope: q.Scope, by: q.By, join: join, left: make(map[uint64]*leg)}
	g.Until = now.Mono + int64(wait+forwardTimeout)
	if q.Deadline != 0 {
		g.Until = min(g.Until, q.Deadline)
	}
	if r.number == 0 {
		r.number = r.c.cfg.Rand.Uint64() // answers to the process before this one match nothing
	}
	r.number++
	g.Deadline.Number = r.number
	if old := r.of[message.NumberOf(g.from)]; old != nil { // a client that uses a number twice, or a message that came twice
		r.abandon(old)
		if !g.from.Internal() {
			r.c.round.Refuse(old.from, proto.Invalid("request %d is still open, and its number came again", g.from.Request))
		}
	}
	r.byTime.Add(g)
	r.of[message.NumberOf(g.from)] = g
	r.held[g.from.Conn]++
	return g
}

// forward has a node answer a part. This node's own is answered like any other
// request, but for where the answer goes.
func (r *routes) forward(now clock.Time, g *scatterRequest, to register.Member, idx []int, body gproto.Message, only []ring.Partition) {
	r.number++
	p := &leg{g: g, number: r.number, at: to, idx: idx}
	g.left[p.number], r.parts[p.number] = p, p
	method := cmp.Or(g.method, g.from.Method)
	if to == r.c.cfg.Self {
		r.c.request(now, &message.Request{
			From: message.Origin{Conn: message.PartConn, Request: p.number, Method: method}, Body: body,
			Received: now.Mono, Deadline: g.Until, Routed: true, Choosy: g.choosy, Partitions: only, Scope: g.scope, By: g.by,
		})
		return
	}
	scope := g.scope
	if mutant.ScopeLost.On() {
		scope = nil
	}
	// It says nothing about what is on this disk.
	r.c.round.SendNow(to, &message.Forward{
		Number: p.number, Method: method, Wait: time.Duration(max(g.Until-now.Mono, 1)), Partitions: only, Body: body, Choosy: g.choosy, Scope: scope, By: g.by,
	})
}

// ownAnswer is by how much earlier than its gather a part of this node's own gives up: its
// answer says why.
const ownAnswer = 50 * time.Millisecond

// ownPart has this node carry out a part as a request of its own, which goes wherever it has to.
func ownPart(r *routes, now clock.Time, g *scatterRequest, n int, method uint16, body gproto.Message, received int64) {
	r.number++
	p := &leg{g: g, number: r.number, at: r.c.cfg.Self, idx: []int{n}, method: method}
	g.left[p.number], r.parts[p.number] = p, p
	r.c.request(now, &message.Request{
		From: message.Origin{Conn: message.PartConn, Request: p.number, Method: method}, Body: body, Received: received, Deadline: g.Until - int64(ownAnswer), Prompt: true, Scope: g.scope, By: g.by,
	})
}

// asked answers what another node could not.
func (r *routes) asked(now clock.Time, from register.Member, m *message.Forward) {
	q := &message.Request{
		From: message.Origin{Conn: r.conn(from), Request: m.Number, Method: m.Method}, Body: m.Body,
		Received: now.Mono, Routed: true, Choosy: m.Choosy, Partitions: m.Partitions, Scope: m.Scope, By: m.By,
	}
	for _, p := range m.Partitions {
		if int(p) >= len(r.c.view.Cells) {
			return
		}
	}
	if m.Wait > 0 {
		q.Deadline = now.Mono + int64(m.Wait)
	}
	r.c.request(now, q)
}

// answered takes the answer to a part.
func (r *routes) answered(number uint64, from register.Member, reply *message.Reply) {
	p := r.parts[number]
	if p == nil || p.at != from {
		if from == r.c.cfg.Self || r.abandonedLegs.take(number) {
			r.drop(from, reply.Grants) // nobody waits for it any more
		}
		return // else it has come twice, and its client may have heard of the grants
	}
	if reply.Err != nil {
		r.lose(p, reply.Err)
	} else {
		p.g.join.Take(p.idx, reply.Message)
		p.g.declined = p.g.declined || reply.Declined
		for _, g := range reply.Grants {
			if from != r.c.cfg.Self {
				g.By = from
			}
			p.g.grants = append(p.g.grants, g)
		}
		r.settle(p)
	}
	if from == r.c.cfg.Self {
		p.g.round = max(p.g.round, cmp.Or(reply.After, r.c.round.This()))
	}
	r.finish(p.g)
}

// lose ends a part with an error.
func (r *routes) lose(p *leg, err *proto.Error) {
	p.g.join.Fail(p.idx, err)
	r.settle(p)
}

func (r *routes) settle(p *leg) {
	delete(r.parts, p.number)
	delete(p.g.left, p.number)
}

// finish answers a request of which nothing is left.
func (r *routes) finish(g *scatterRequest) {
	if len(g.left) > 0 || r.of[message.NumberOf(g.from)] != g {
		return
	}
	r.forget(g)
	if g.then != nil {
		g.then(g)
		return
	}
	m, err := g.join.Answer()
	r.c.round.Answer(message.Reply{To: g.from, Message: m, Err: err, Grants: g.grants, After: r.c.round.After(g.round)})
}

func (r *routes) forget(g *scatterRequest) {
	r.byTime.Remove(g)
	delete(r.of, message.NumberOf(g.from))
	if r.held[g.from.Conn]--; r.held[g.from.Conn] == 0 {
		delete(r.held, g.from.Conn)
	}
}

// drop tells who has granted something that nobody will hear of it: only that
// node knows whether another answer has the same grants.
func (r *routes) drop(from register.Member, grants []message.GrantRef) {
	if len(grants) == 0 {
		return
	}
	if from == r.c.cfg.Self {
		r.c.dropped = append(r.c.dropped, grants...)
		return
	}
	grants = slices.Clone(grants)
	for i := range grants {
		grants[i].By = register.Member{} // who gets this knows them as its own
	}
	r.c.round.Send(from, &message.Dropped{Grants: grants})
}

// undelivered tells the other nodes which of their grants nobody will hear of,
// and gives the rest.
func (r *routes) undelivered(grants []message.GrantRef) (ours []message.GrantRef) {
	theirs := make(map[register.Member][]message.GrantRef)
	for _, g := range grants {
		if g.By != (register.Member{}) {
			theirs[g.By] = append(theirs[g.By], g)
		} else {
			ours = append(ours, g)
		}
	}
	for _, m := range view.MembersOf(theirs) {
		r.drop(m, theirs[m])
	}
	return ours
}

// work gives up what has waited too long.
func (r *routes) work(now clock.Time) {
	for len(r.byTime) > 0 && r.byTime[0].Until <= now.Mono {
		g := r.byTime[0]
		for _, number := range slices.Sorted(maps.Keys(g.left)) {
			p := g.left[number]
			r.withdraw(p)
			r.lose(p, refusal.NoAnswer(p.at))
		}
		r.finish(g)
	}
}

// withdraw tells a node that an answer is no longer wanted.
func (r *routes) withdraw(p *leg) {
	if p.at != r.c.cfg.Self {
		r.abandonedLegs.add(p.number)
		r.c.round.SendNow(p.at, &message.Withdraw{Number: p.number})
		return
	}
	r.c.cancel(message.Origin{Conn: message.PartConn, Request: p.number, Method: cmp.Or(p.method, p.g.from.Method)})
}

// hear takes over who is thought to be up. What was asked of others is not
// waited for.
func (r *routes) hear() {
	var gone []*leg
	for _, p := range r.parts { // Any order: sorted below.
		if !r.c.view.Up(p.at) {
			gone = append(gone, p)
		}
	}
	slices.SortFunc(gone, func(a, b *leg) int { return int(int64(a.number - b.number)) })
	for _, p := range gone {
		r.abandonedLegs.add(p.number)
		r.lose(p, refusal.NoAnswer(p.at))
		r.finish(p.g)
	}
}

// cancel withdraws a client's request that waits for other nodes.
func (r *routes) cancel(from message.Origin) {
	g := r.of[message.NumberOf(from)]
	if g == nil {
		return
	}
	r.abandon(g)
	r.c.round.Refuse(g.from, refusal.Cancelled())
}

// gone forgets the requests of a closed connection.
func (r *routes) gone(conn uint64) {
	var all []*scatterRequest
	for from, g := range r.of { // Any order: sorted below.
		if from.Conn == conn {
			all = append(all, g)
		}
	}
	slices.SortFunc(all, func(a, b *scatterRequest) int { return int(int64(a.Deadline.Number - b.Deadline.Number)) })
	for _, g := range all {
		r.abandon(g)
	}
}

// abandon forgets a request and whatever its parts will answer.
func (r *routes) abandon(g *scatterRequest) {
	r.forget(g)
	if k, ok := g.join.(*remoteClaim); ok {
		k.s.returned(g, k.w, k.to, false)
	}
	for _, number := range slices.Sorted(maps.Keys(g.left)) {
		p := g.left[number]
		r.settle(p)
		r.withdraw(p)
	}
	r.c.dropped = append(r.c.dropped, g.grants...)
}

// deliver takes out the answers that are for nodes, not for clients. Those that
// come of it, when the last part of a request is answered, take their place.
func (r *routes) deliver() {
	if !slices.ContainsFunc(r.c.round.Ready.Replies, func(a message.Reply) bool { return a.To.Internal() }) {
		return
	}
	var out []message.Reply
	for in := r.c.round.Ready.Replies; len(in) > 0; in = r.c.round.Ready.Replies {
		r.c.round.Ready.Replies = nil
		for i := range in {
			switch a := &in[i]; {
			case !a.To.Internal():
				out = append(out, *a)
			case a.To.Conn == message.WorkConn:
				r.c.sessions.Asks.Answered(a)
			case a.To.Conn < message.PeerConns:
				r.answered(a.To.Request, r.c.cfg.Self, a)
			default:
				to := r.peers[a.To.Conn&^message.PeerConns]
				r.c.round.Ready.Send = append(r.c.round.Ready.Send, message.Send{To: to, After: a.After, Message: &message.Forwarded{
					Number: a.To.Request, Method: a.To.Method, Message: a.Message, Err: a.Err, Grants: a.Grants, Declined: a.Declined,
				}})
			}
		}
	}
	r.c.round.Ready.Replies = out
}
