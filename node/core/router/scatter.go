package router

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// Scatter is a request whose parts are answered in several places.
type Scatter struct {
	call.Deadline
	From  message.Origin
	Join  Joiner
	waits *waiting.Wait
	// Invariant: each part in left is in parts of the machine, and each in parts in left of its own.
	left   map[uint64]*leg
	Grants []message.GrantRef // that are in the answer so far
	Then   func(*Scatter)     // takes the answer instead of the client; nil: nobody
	// Abandoned hears that no answer is waited for any more; nil: nobody does.
	Abandoned func(*Scatter)
	Round     uint64 // in which this node has last written something for it; 0: in none
	Method    uint16 // of its parts, where that is another one than its own; 0: it is not

	Scope *guard.Scope // of its parts, see [message.Request]
	by    string       // likewise

	Choosy   bool // its parts are, see [message.Forward]
	Declined bool // one of them was, see [message.Forwarded]
}

// leg is what one node answers of a request.
type leg struct {
	g      *Scatter
	number uint64
	at     register.Member
	idx    []int // of the items; nil: it has none
	method uint16
}

// abandonedLegs are numbers of parts that are not waited for any more: only of those it is
// sure that nobody has heard of an answer. Of those that are forgotten what was granted
// waits for its lease.
type abandonedLegs struct {
	// Invariant: there are at most [MaxWaiting] in order, each of which is in has or was taken;
	// has never has one that is not in order (Audit).
	has   map[uint64]bool
	order []uint64
}

// add notes a part that nobody waits for any more; past the limit the oldest one is forgotten.
func (f *abandonedLegs) add(number uint64) {
	if f.has == nil {
		f.has = make(map[uint64]bool)
	}
	if len(f.order) >= MaxWaiting {
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

// Joiner makes one answer of several.
type Joiner interface {
	// Take adds the answer to a part, for the items in idx.
	Take(idx []int, m gproto.Message)
	// Fail adds an error.
	Fail(idx []int, err *proto.Error)
	// Answer gives the whole, when nothing is left.
	Answer() (gproto.Message, *proto.Error)
}

// Gather begins one. wait is how long the request itself may wait.
//
// The number of a request is unique in this process and drawn at its start. A second request
// with the origin of one that is open replaces it: clients use numbers once, and answers could
// not be told apart.
func (r *Machine) Gather(now clock.Time, q *message.Request, join Joiner, wait time.Duration) *Scatter {
	g := &Scatter{From: q.From, Scope: q.Scope, by: q.By, Join: join, left: make(map[uint64]*leg)}
	g.Until = now.Mono + int64(wait+ForwardTimeout)
	if q.Deadline != 0 {
		g.Until = min(g.Until, q.Deadline)
	}
	if r.number == 0 {
		r.number = r.Rand.Uint64() // answers to the process before this one match nothing
	}
	r.number++
	g.Deadline.Number = r.number
	if old := r.Pending.Find(waiting.Parts, g.From); old != nil { // a client that uses a number twice, or a message that came twice
		var twice *proto.Error
		if !g.From.Internal() {
			twice = proto.Invalid("request %d is still open, and its number came again", g.From.Request)
		}
		old.End(twice)
	}
	r.byTime.Add(g)
	g.waits = r.Pending.Open(waiting.Parts, g.From, func(why *proto.Error) {
		r.Abandon(g)
		if why != nil {
			r.Round.Refuse(g.From, why)
		}
	})
	r.held[g.From.Conn]++
	return g
}

// Forward has a node answer a part. This node's own is answered like any other
// request, but for where the answer goes.
func (r *Machine) Forward(now clock.Time, g *Scatter, to register.Member, idx []int, body gproto.Message, only []ring.Partition) {
	r.number++
	p := &leg{g: g, number: r.number, at: to, idx: idx}
	g.left[p.number], r.parts[p.number] = p, p
	method := cmp.Or(g.Method, g.From.Method)
	if to == r.Self {
		r.Node.Request(now, &message.Request{
			From: message.Origin{Conn: message.PartConn, Request: p.number, Method: method}, Body: body,
			Received: now.Mono, Deadline: g.Until, Routed: true, Choosy: g.Choosy, Partitions: only, Scope: g.Scope, By: g.by,
		})
		return
	}
	scope := g.Scope
	if r.Policy.ScopeLost {
		scope = nil
	}
	// It says nothing about what is on this disk.
	r.Round.SendNow(to, &message.Forward{
		Number: p.number, Method: method, Wait: time.Duration(max(g.Until-now.Mono, 1)), Partitions: only, Body: body, Choosy: g.Choosy, Scope: scope, By: g.by,
	})
}

// ownAnswer is by how much earlier than its gather a part of this node's own gives up: its
// answer says why.
const ownAnswer = 50 * time.Millisecond

// OwnPart has this node carry out a part as a request of its own, which goes wherever it has to.
func (r *Machine) OwnPart(now clock.Time, g *Scatter, n int, method uint16, body gproto.Message, received int64) {
	r.number++
	p := &leg{g: g, number: r.number, at: r.Self, idx: []int{n}, method: method}
	g.left[p.number], r.parts[p.number] = p, p
	r.Node.Request(now, &message.Request{
		From: message.Origin{Conn: message.PartConn, Request: p.number, Method: method}, Body: body, Received: received, Deadline: g.Until - int64(ownAnswer), Prompt: true, Scope: g.Scope, By: g.by,
	})
}

// Asked answers what another node could not.
func (r *Machine) Asked(now clock.Time, from register.Member, m *message.Forward) {
	q := &message.Request{
		From: message.Origin{Conn: r.Conn(from), Request: m.Number, Method: m.Method}, Body: m.Body,
		Received: now.Mono, Routed: true, Choosy: m.Choosy, Partitions: m.Partitions, Scope: m.Scope, By: m.By,
	}
	for _, p := range m.Partitions {
		if int(p) >= len(r.View.Cells) {
			return
		}
	}
	if m.Wait > 0 {
		q.Deadline = now.Mono + int64(m.Wait)
	}
	r.Node.Request(now, q)
}

// Answered takes the answer to a part.
//
// An answer to a part that was given up grants nothing to anybody: its grants are sent back to
// who has granted them. An answer that comes twice is dropped, since its client may have heard
// of the first one.
func (r *Machine) Answered(number uint64, from register.Member, reply *message.Reply) {
	p := r.parts[number]
	if p == nil || p.at != from {
		if from == r.Self || r.abandonedLegs.take(number) {
			r.drop(from, reply.Grants) // nobody waits for it any more
		}
		return // else it has come twice, and its client may have heard of the grants
	}
	if reply.Err != nil {
		r.lose(p, reply.Err)
	} else {
		p.g.Join.Take(p.idx, reply.Message)
		p.g.Declined = p.g.Declined || reply.Declined
		for _, g := range reply.Grants {
			if from != r.Self {
				g.By = from
			}
			p.g.Grants = append(p.g.Grants, g)
		}
		r.settle(p)
	}
	if from == r.Self {
		p.g.Round = max(p.g.Round, cmp.Or(reply.After, r.Round.This()))
	}
	r.Finish(p.g)
}

// lose ends a part with an error.
func (r *Machine) lose(p *leg, err *proto.Error) {
	p.g.Join.Fail(p.idx, err)
	r.settle(p)
}

// settle takes a part out, answered or not.
func (r *Machine) settle(p *leg) {
	delete(r.parts, p.number)
	delete(p.g.left, p.number)
}

// Finish answers a request of which nothing is left.
func (r *Machine) Finish(g *Scatter) {
	if len(g.left) > 0 || !g.Deadline.Waits() {
		return
	}
	r.forget(g)
	if g.Then != nil {
		g.Then(g)
		return
	}
	m, err := g.Join.Answer()
	r.Round.Answer(message.Reply{To: g.From, Message: m, Err: err, Grants: g.Grants, After: r.Round.After(g.Round)})
}

// forget takes a request out of both indexes.
func (r *Machine) forget(g *Scatter) {
	r.byTime.Remove(g)
	g.waits.Close()
	if r.held[g.From.Conn]--; r.held[g.From.Conn] == 0 {
		delete(r.held, g.From.Conn)
	}
}

// drop tells who has granted something that nobody will hear of it: only that
// node knows whether another answer has the same grants.
func (r *Machine) drop(from register.Member, grants []message.GrantRef) {
	if len(grants) == 0 {
		return
	}
	if from == r.Self {
		r.Node.Dropped(grants)
		return
	}
	grants = slices.Clone(grants)
	for i := range grants {
		grants[i].By = register.Member{} // who gets this knows them as its own
	}
	r.Round.Send(from, &message.Dropped{Grants: grants})
}

// Undelivered tells the other nodes which of their grants nobody will hear of,
// and gives the rest.
func (r *Machine) Undelivered(grants []message.GrantRef) (ours []message.GrantRef) {
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

// Work gives up what has waited too long.
func (r *Machine) Work(now clock.Time) {
	for len(r.byTime) > 0 && r.byTime[0].Until <= now.Mono {
		g := r.byTime[0]
		for _, number := range slices.Sorted(maps.Keys(g.left)) {
			p := g.left[number]
			r.withdraw(p)
			r.lose(p, refusal.NoAnswer(p.at))
		}
		r.Finish(g)
	}
}

// withdraw tells a node that an answer is no longer wanted.
func (r *Machine) withdraw(p *leg) {
	if p.at != r.Self {
		r.abandonedLegs.add(p.number)
		r.Round.SendNow(p.at, &message.Withdraw{Number: p.number})
		return
	}
	r.Pending.Cancel(message.Origin{Conn: message.PartConn, Request: p.number, Method: cmp.Or(p.method, p.g.From.Method)})
}

// Hear takes over who is thought to be up. What was asked of others is not
// waited for.
func (r *Machine) Hear() {
	var gone []*leg
	for _, p := range r.parts { // Any order: sorted below.
		if !r.View.Up(p.at) {
			gone = append(gone, p)
		}
	}
	slices.SortFunc(gone, func(a, b *leg) int { return int(int64(a.number - b.number)) })
	for _, p := range gone {
		r.abandonedLegs.add(p.number)
		r.lose(p, refusal.NoAnswer(p.at))
		r.Finish(p.g)
	}
}

// Abandon forgets a request and whatever its parts will answer.
func (r *Machine) Abandon(g *Scatter) {
	r.forget(g)
	if g.Abandoned != nil {
		g.Abandoned(g)
	}
	for _, number := range slices.Sorted(maps.Keys(g.left)) {
		p := g.left[number]
		r.settle(p)
		r.withdraw(p)
	}
	r.Node.Dropped(g.Grants)
}

// Deliver takes out the answers that are for nodes, not for clients. Those that
// come of it, when the last part of a request is answered, take their place.
func (r *Machine) Deliver() {
	if !slices.ContainsFunc(r.Round.Ready.Replies, func(a message.Reply) bool { return a.To.Internal() }) {
		return
	}
	var out []message.Reply
	for in := r.Round.Ready.Replies; len(in) > 0; in = r.Round.Ready.Replies {
		r.Round.Ready.Replies = nil
		for i := range in {
			switch a := &in[i]; {
			case !a.To.Internal():
				out = append(out, *a)
			case a.To.Conn == message.WorkConn:
				r.Node.Answered(a)
			case a.To.Conn < message.PeerConns:
				r.Answered(a.To.Request, r.Self, a)
			default:
				to := r.Peer(a.To.Conn)
				r.Round.Ready.Send = append(r.Round.Ready.Send, message.Send{To: to, After: a.After, Message: &message.Forwarded{
					Number: a.To.Request, Method: a.To.Method, Message: a.Message, Err: a.Err, Grants: a.Grants, Declined: a.Declined,
				}})
			}
		}
	}
	r.Round.Ready.Replies = out
}

// Peer is the node whose requests have the number of a connection.
func (r *Machine) Peer(conn uint64) register.Member { return r.peers[conn&^message.PeerConns] }

// Waiting is how many requests wait for other nodes.
func (r *Machine) Waiting() int { return len(r.byTime) }

// Waits tells whether a request waits.
func (r *Machine) Waits(from message.Origin) bool { return r.Pending.Find(waiting.Parts, from) != nil }

// Due is when the first has waited for too long, mono ns.
func (r *Machine) Due() int64 { return r.byTime.Next() }
