package core

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
)

// Bounds of a stream: what its worker is owed while it keeps no request open. Past
// them messages are dropped, which the protocol bears; a task that is dropped is
// known not to have been sent.
const (
	maxStreamOut   = proto.MaxSessionMessages
	maxStreamBytes = 8 << 20
	// maxStreamOpen is how many requests a worker keeps open; beyond that the oldest
	// is answered, with nothing if need be.
	maxStreamOpen = 2
)

// sessions is the dispatcher's side of the worker protocol in a node: package
// session decides, this carries. What the machine wants of the cluster is asked for
// by requests of the client port, which go the way that any client's go; so routing,
// majorities and write levels are those of everybody.
//
// What comes of a round leaves with the round's answers, after its sync: nothing is
// told to a worker that a power failure could undo.
type sessions struct {
	c       *Core
	d       *session.Dispatcher
	streams map[session.Instance]*stream
	conns   map[uint64]map[session.Instance]*stream // by connection
	dirty   []*stream                               // with something to say, or an answer too many
	open    map[message.Origin]*heldOpen
	waits   call.ByTime[*heldOpen]
	arrived uint64 // of requests
	wakeAt  int64  // of the machine
	again   bool   // something was begun after the round had ended

	patient []patience // answers that wait for renewals, oldest first
	asked   lineAsks

	asks  workAsks
	names workerNames
	known holdings
}

// stream is the way to one worker.
type stream struct {
	instance    session.Instance
	association uint64
	conn        uint64
	open        []*heldOpen // oldest first
	out         []session.Message
	bytes       int
	dirty       bool
	full        bool  // a task did not fit
	left        bool  // its worker is told that it has left
	renews      bool  // a heartbeat's claims are being renewed
	eager       bool  // something to say is not to wait
	patientTill int64 // mono ns at which what waits for that leaves all the same; 0: nothing waits
}

// heldOpen is a request of a worker that waits for something to say.
type heldOpen struct {
	call.Deadline
	from   message.Origin
	stream *stream
}

func newSessions(c *Core) (*sessions, error) {
	d, err := session.NewDispatcher(c.cfg.Sessions)
	if err != nil {
		return nil, err
	}
	s := &sessions{
		c: c, d: d, streams: make(map[session.Instance]*stream), conns: make(map[uint64]map[session.Instance]*stream),
		open: make(map[message.Origin]*heldOpen), wakeAt: clock.Never,
	}
	s.asks.begin(s)
	s.names.begin(s)
	s.known.begin(s)
	s.asked.s = s
	return s, nil
}

// request takes messages of a worker. Its answer brings what there is to say, now
// or as soon as there is something.
func (s *sessions) request(now clock.Time, r *message.Request, m *nornv1.SessionRequest) (gproto.Message, *proto.Error) {
	all, err := session.Unbundle(m)
	if err != nil {
		return nil, proto.CheckSession(m)
	}
	instance, association := session.Instance(m.GetInstance()), m.GetAssociation()
	if err := s.foreign(instance, r.By); err != nil {
		return nil, err
	}
	s.asks.holders.Hold(instance, scope.Holder{Scope: r.Scope, By: r.By}, s.d.Knows)
	st := s.stream(now, r.From.Conn, instance, association)
	for _, message := range all {
		s.d.Step(now, message)
	}
	if st == nil { // of a stream that the worker has left: nobody waits for the answer
		return &nornv1.SessionReply{Association: association}, nil
	}
	s.arrived++
	h := &heldOpen{from: r.From, stream: st}
	h.Until, h.Number = now.Mono+int64(proto.Seconds(m.GetWaitSeconds())), s.arrived
	if r.Deadline != 0 {
		h.Until = min(h.Until, r.Deadline)
	}
	if old := s.open[message.NumberOf(r.From)]; old != nil {
		s.forget(old) // a client that uses a number twice
	}
	s.open[message.NumberOf(r.From)], st.open = h, append(st.open, h)
	s.waits.Add(h)
	s.touch(st)
	return nil, nil
}

// foreign refuses a principal the session that another one has opened, here or elsewhere: who
// may see workers is told their instances.
func (s *sessions) foreign(instance session.Instance, by string) *proto.Error {
	opener := s.asks.holders.Of(instance).By
	if name, held := s.names.of[instance]; held && !s.d.Knows(instance) {
		opener = s.names.cells[name].principal
	}
	if by == "" || opener == "" || by == opener || mutant.ClaimOfOthers.On() {
		return nil
	}
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED, "the session of this worker was opened by another principal than %s; begin one with an instance of its own", by)
	e.Lasting = true
	return e
}

// stream gives the stream of an association, nil when there is a later one.
func (s *sessions) stream(now clock.Time, conn uint64, instance session.Instance, association uint64) *stream {
	st := s.streams[instance]
	switch {
	case st != nil && association < st.association:
		return nil
	case st != nil && association == st.association && conn == st.conn:
		return st
	case st != nil:
		s.close(now, st)
	}
	st = &stream{instance: instance, association: association, conn: conn}
	s.streams[instance] = st
	if s.conns[conn] == nil {
		s.conns[conn] = make(map[session.Instance]*stream)
	}
	s.conns[conn][instance] = st
	return st
}

// close ends a stream. What it was to bring and has not is known not to have been
// sent; its requests are answered with nothing.
func (s *sessions) close(now clock.Time, st *stream) {
	for len(st.open) > 0 {
		s.answer(st.open[0], nil)
	}
	s.drop(now, st)
}

// drop forgets a stream.
func (s *sessions) drop(now clock.Time, st *stream) {
	for len(st.open) > 0 {
		s.forget(st.open[0])
	}
	if s.streams[st.instance] == st {
		delete(s.streams, st.instance)
	}
	delete(s.conns[st.conn], st.instance)
	if len(s.conns[st.conn]) == 0 {
		delete(s.conns, st.conn)
	}
	out := st.out
	st.out, st.bytes = nil, 0
	for _, m := range out {
		if t, ok := m.Body.(*session.RunTask); ok && t.Check == 0 {
			s.d.Unsent(now, m.Instance, t.Claim)
		}
	}
	s.d.Closed(now, st.instance, st.association)
}

func (s *sessions) forget(h *heldOpen) {
	delete(s.open, message.NumberOf(h.from))
	s.waits.Remove(h)
	h.stream.open = slices.DeleteFunc(h.stream.open, func(o *heldOpen) bool { return o == h })
}

// gone hears that a connection has closed.
func (s *sessions) gone(now clock.Time, conn uint64) {
	s.asked.gone(conn)
	all := make([]*stream, 0, len(s.conns[conn]))
	for _, st := range s.conns[conn] { // Any order: sorted below.
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b *stream) int { return compareInstances(a.instance, b.instance) })
	for _, st := range all {
		s.drop(now, st)
	}
}

// cancel answers a request that its worker gave up.
func (s *sessions) cancel(from message.Origin) {
	if h := s.open[message.NumberOf(from)]; h != nil {
		s.forget(h)
		s.c.round.Refuse(h.from, refusal.Cancelled())
		s.touch(h.stream)
	}
	s.asked.cancel(from)
}

// drain sends the workers to other nodes.
func (s *sessions) drain(why *proto.Error) {
	for len(s.waits) > 0 {
		h := s.waits[0]
		s.forget(h)
		s.c.round.Refuse(h.from, why)
	}
	s.asked.drain(why)
}

// unsent takes out the grants that were pushed to workers and surely never left.
func (s *sessions) unsent(now clock.Time, grants []message.GrantRef) []message.GrantRef {
	if len(grants) == 0 || grants[0].Ask.Request != convert.PushedAsk {
		return grants
	}
	for _, g := range grants {
		s.d.Unsent(now, g.Ask.Session, session.Claim{Task: g.Task, Token: g.Token})
	}
	return nil
}

// touch has a stream looked at when the round ends.
func (s *sessions) touch(st *stream) {
	if !st.dirty {
		st.dirty = true
		s.dirty = append(s.dirty, st)
	}
}

// say puts a message on its way to a worker.
func (s *sessions) say(now clock.Time, m session.Message) {
	st := s.streams[m.Instance]
	if st == nil || m.Association < st.association {
		s.unsaid(now, m)
		return
	}
	size := session.Size(m)
	if len(st.out) >= maxStreamOut || st.bytes+size > maxStreamBytes && len(st.out) > 0 {
		st.full = true
		s.unsaid(now, m)
		return
	}
	st.out, st.bytes = append(st.out, m), st.bytes+size
	switch b := m.Body.(type) {
	case *session.HeartbeatReply:
		// One answer for both, and so one request of the worker for each heartbeat.
		if st.renews && b.Good && len(b.Cancelled) == 0 && !b.Drain {
			if st.patientTill == 0 {
				st.patientTill = now.Mono + int64(answerPatience)
				s.patient = append(s.patient, patience{st, st.patientTill})
			}
			return
		}
	case *session.Renewed:
		st.renews = false
	case *session.LeaveAck:
		st.left = true
	}
	st.eager = true
	s.touch(st)
}

// answerPatience is how long the answer to a heartbeat waits for the renewal of the
// claims in it, at most: what those gather for, and the time that they take.
const answerPatience = 2 * renewGather

// patience is an answer that waits, and until when, mono ns.
type patience struct {
	stream *stream
	till   int64
}

// impatient lets answers go whose renewals take long.
func (s *sessions) impatient(now clock.Time) {
	for len(s.patient) > 0 && s.patient[0].till <= now.Mono {
		p := s.patient[0]
		s.patient = s.patient[1:]
		if p.stream.patientTill == p.till {
			p.stream.renews, p.stream.eager = false, true
			s.touch(p.stream)
		}
	}
}

func (s *sessions) unsaid(now clock.Time, m session.Message) {
	if t, ok := m.Body.(*session.RunTask); ok && t.Check == 0 {
		s.d.Unsent(now, m.Instance, t.Claim)
	}
}

// flush answers what can be answered.
func (s *sessions) flush(now clock.Time) {
	s.impatient(now)
	for _, st := range s.dirty {
		st.dirty = false
		for st.eager && len(st.open) > 0 && len(st.out) > 0 {
			n := session.Fit(st.out)
			some := st.out[:n:n]
			st.out = st.out[n:]
			for _, m := range some {
				st.bytes -= session.Size(m)
			}
			s.answer(st.open[0], some)
			if st.full {
				st.full, s.again = false, true
				s.d.Writable(now, st.instance)
			}
		}
		if len(st.out) == 0 {
			st.eager, st.patientTill = false, 0
		}
		for len(st.open) > maxStreamOpen {
			s.answer(st.open[0], nil)
		}
		if len(st.open)+len(st.out) == 0 && s.streams[st.instance] == st && (st.left || !s.d.Knows(st.instance)) {
			s.drop(now, st) // the connection may live on, with others on it; or whoever it was never became a worker
			s.again = true
		}
	}
	s.dirty = s.dirty[:0]
	for len(s.waits) > 0 && s.waits[0].Until <= now.Mono {
		st := s.waits[0].stream
		s.answer(s.waits[0], nil)
		if len(st.open) == 0 && len(st.out) == 0 && !s.d.Knows(st.instance) {
			s.drop(now, st) // whoever it was never became a worker
		}
	}
}

// answer gives messages to a worker.
func (s *sessions) answer(h *heldOpen, all []session.Message) {
	s.forget(h)
	reply, err := session.BundleReply(all)
	if err != nil {
		s.c.round.Check(err) // a grant without its task cannot have been granted
		return
	}
	reply.Association = h.stream.association
	r := message.Reply{To: h.from, Message: reply}
	for _, m := range all {
		if t, ok := m.Body.(*session.RunTask); ok && t.Check == 0 && m.Association == h.stream.association {
			r.Grants = append(r.Grants, message.GrantRef{
				Partition: s.partition(t.Claim.Task), Task: t.Claim.Task, Token: t.Claim.Token, Ask: message.AskKey{Session: m.Instance, Request: convert.PushedAsk},
			})
		}
	}
	s.c.round.Answer(r)
}

func (s *sessions) partition(task id.ID) ring.Partition { return ring.Of(task, len(s.c.view.Cells)) }

// work does what the time has come for, and what has come in wants.
func (s *sessions) work(now clock.Time) {
	s.again = false
	if !s.c.view.Joined || s.c.closed != nil {
		return
	}
	s.d.Tick(now)
	s.asks.retry(now)
	s.asks.renewDue(now)
	s.pump(now)
	s.known.work(now)
	s.names.work(now)
	s.asked.late(now)
	s.flush(now)
}

// late takes the answers that came at the end of a round. Others may be given by it.
func (s *sessions) late(now clock.Time) {
	if len(s.asks.answers) == 0 || s.c.closed != nil {
		return
	}
	before := s.asks.number
	s.pump(now)
	s.names.work(now)
	s.flush(now)
	s.again = s.again || s.asks.number != before
}

// pump carries out what the machine wants until it wants nothing more.
func (s *sessions) pump(now clock.Time) {
	for {
		s.asks.collect(now)
		r := s.d.Ready()
		s.wakeAt = r.WakeAt
		if len(r.Names)+len(r.Renew)+len(r.Want)+len(r.Unwant)+len(r.Settle)+len(r.Doubt)+len(r.Orders)+len(r.Send)+len(r.Lines) == 0 {
			return
		}
		for _, r := range r.Renew {
			if st := s.streams[r.Instance]; st != nil {
				st.renews = true
			}
		}
		for _, m := range r.Send {
			s.say(now, m)
		}
		for _, no := range r.Unwant {
			s.asks.unwant(no)
		}
		s.asks.renew(now, r.Renew)
		s.asks.settle(now, r.Settle)
		for _, w := range r.Want {
			s.asks.want(now, w)
		}
		s.names.ask(now, r.Names)
		s.known.handOver(now, r.Doubt)
		for _, o := range r.Orders {
			s.asks.order(now, o, now.Mono, 0)
		}
		s.asked.answered(r.Lines)
	}
}

// next is when there is something to do, mono ns.
func (s *sessions) next() int64 {
	if s.again {
		return 0
	}
	if s.c.closed != nil {
		return clock.Never
	}
	at := min(s.wakeAt, s.waits.Next(), s.asked.next(), s.asks.next(), s.names.next(), s.known.next())
	if len(s.patient) > 0 {
		at = min(at, s.patient[0].till)
	}
	return at
}
