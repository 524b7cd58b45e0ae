package workers

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/session"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// Bounds of a stream: what its worker is owed while it keeps no request open. Past
// them messages are dropped, which the protocol bears; a task that is dropped is
// known not to have been sent.
const (
	maxStreamOut = proto.MaxSessionMessages
	// MaxStreamBytes is how much of that there is.
	MaxStreamBytes = 8 << 20
	// maxStreamOpen is how many requests a worker keeps open; beyond that the oldest
	// is answered, with nothing if need be.
	maxStreamOpen = 2
)

// Machine is the dispatcher's side of the worker protocol in a node: package
// session decides, this carries. What the machine wants of the cluster is asked for
// by requests of the client port, which go the way that any client's go; so routing,
// majorities and write levels are those of everybody.
//
// What comes of a round leaves with the round's answers, after its sync: nothing is
// told to a worker that a power failure could undo.
type Machine struct {
	Env
	// Dispatcher decides about the sessions.
	Dispatcher *session.Dispatcher
	// Streams are the ways to workers, and Conns has them by connection.
	// Invariant: Conns has exactly the streams of Streams, and those of their workers' later
	// associations.
	Streams map[session.Instance]*Stream
	Conns   map[uint64]map[session.Instance]*Stream
	// Asks, Names, Known and Questions are what is under way for them.
	Asks      Asks
	Names     Names
	Known     Holdings
	Questions Questions

	// Invariant: a stream is in dirty once if its own flag says so (Audit).
	dirty []*Stream // with something to say, or an answer too many
	// Invariant: waits has exactly the requests of Open: one that were missing would never be
	// answered (Audit).
	waits   call.ByTime[*Held]
	arrived uint64     // of requests
	wakeAt  int64      // of the dispatcher
	again   bool       // something was begun after the round had ended
	patient []patience // answers that wait for renewals, oldest first
}

// Stream is the way to one worker.
type Stream struct {
	// Open are its requests, oldest first.
	Open []*Held

	instance    session.Instance
	association uint64
	conn        uint64
	// Invariant: bytes is the size of what is in out, and there are at most [maxStreamOut]
	// messages (Audit). A message that does not fit is dropped and its task given back; the
	// worker says what it has with its next heartbeat.
	out         []session.Message
	bytes       int
	dirty       bool
	full        bool  // a task did not fit
	left        bool  // its worker is told that it has left
	renews      bool  // a heartbeat's claims are being renewed
	eager       bool  // something to say is not to wait
	patientTill int64 // mono ns at which what waits for that leaves all the same; 0: nothing waits
}

// Held is a request of a worker that waits for something to say.
type Held struct {
	call.Deadline
	from   message.Origin
	stream *Stream
	waits  *waiting.Wait
}

// New makes the machine of a process that knows of no worker.
func New(env Env) (*Machine, error) {
	d, err := session.NewDispatcher(env.Sessions)
	if err != nil {
		return nil, err
	}
	s := &Machine{
		Env: env, Dispatcher: d, Streams: make(map[session.Instance]*Stream), Conns: make(map[uint64]map[session.Instance]*Stream),
		wakeAt: clock.Never,
	}
	s.Asks.start(s)
	s.Names.begin(s)
	s.Known.begin(s)
	s.Questions.s = s
	return s, nil
}

// vnode is the partition of a task.
func (s *Machine) vnode(task id.ID) *vnode.Vnode { return s.Partitions.Use(s.partition(task)) }

// Request takes messages of a worker. Its answer brings what there is to say, now
// or as soon as there is something.
//
// It answers later, through [round.Writer], with whatever there is to say: one long poll per
// worker and connection. Errors: INVALID for a bundle that cannot be read, PERMISSION_DENIED
// for a session of another principal.
func (s *Machine) Request(now clock.Time, r *message.Request, m *nornv1.SessionRequest) (gproto.Message, *proto.Error) {
	all, err := session.Unbundle(m)
	if err != nil {
		return nil, proto.CheckSession(m)
	}
	instance, association := session.Instance(m.GetInstance()), m.GetAssociation()
	if err := s.Foreign(instance, r.By); err != nil {
		return nil, err
	}
	s.Asks.holders.Hold(instance, scope.Holder{Scope: r.Scope, By: r.By}, s.Dispatcher.Knows)
	st := s.stream(now, r.From.Conn, instance, association)
	for _, message := range all {
		s.Dispatcher.Step(now, message)
	}
	if st == nil { // of a stream that the worker has left: nobody waits for the answer
		return &nornv1.SessionReply{Association: association}, nil
	}
	s.arrived++
	h := &Held{from: r.From, stream: st}
	h.Until, h.Number = now.Mono+int64(proto.Seconds(m.GetWaitSeconds())), s.arrived
	if r.Deadline != 0 {
		h.Until = min(h.Until, r.Deadline)
	}
	s.Pending.Find(waiting.Work, r.From).End(nil) // a client that uses a number twice
	h.waits = s.Pending.Open(waiting.Work, r.From, func(why *proto.Error) { s.endWait(h, why) })
	st.Open = append(st.Open, h)
	s.waits.Add(h)
	s.touch(st)
	return nil, nil
}

// Foreign refuses a principal the session that another one has opened, here or elsewhere: who
// may see workers is told their instances.
func (s *Machine) Foreign(instance session.Instance, by string) *proto.Error {
	opener := s.Asks.holders.Of(instance).By
	if name, held := s.Names.of[instance]; held && !s.Dispatcher.Knows(instance) {
		opener = s.Names.cells[name].principal
	}
	if by == "" || opener == "" || by == opener {
		return nil
	}
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED, "the session of this worker was opened by another principal than %s; begin one with an instance of its own", by)
	e.Lasting = true
	return e
}

// stream gives the stream of an association, nil when there is a later one.
func (s *Machine) stream(now clock.Time, conn uint64, instance session.Instance, association uint64) *Stream {
	st := s.Streams[instance]
	switch {
	case st != nil && association < st.association:
		return nil
	case st != nil && association == st.association && conn == st.conn:
		return st
	case st != nil:
		s.close(now, st)
	}
	st = &Stream{instance: instance, association: association, conn: conn}
	s.Streams[instance] = st
	if s.Conns[conn] == nil {
		s.Conns[conn] = make(map[session.Instance]*Stream)
	}
	s.Conns[conn][instance] = st
	return st
}

// close ends a stream. What it was to bring and has not is known not to have been
// sent; its requests are answered with nothing.
func (s *Machine) close(now clock.Time, st *Stream) {
	for len(st.Open) > 0 {
		s.answer(st.Open[0], nil)
	}
	s.drop(now, st)
}

// drop forgets a stream.
func (s *Machine) drop(now clock.Time, st *Stream) {
	for len(st.Open) > 0 {
		s.forget(st.Open[0])
	}
	if s.Streams[st.instance] == st {
		delete(s.Streams, st.instance)
	}
	delete(s.Conns[st.conn], st.instance)
	if len(s.Conns[st.conn]) == 0 {
		delete(s.Conns, st.conn)
	}
	out := st.out
	st.out, st.bytes = nil, 0
	for _, m := range out {
		if t, ok := m.Body.(*session.RunTask); ok && t.Check == 0 {
			s.Dispatcher.Unsent(now, m.Instance, t.Claim)
		}
	}
	s.Dispatcher.Closed(now, st.instance, st.association)
}

// forget takes a request out of all indexes, answered or not.
func (s *Machine) forget(h *Held) {
	h.waits.Close()
	s.waits.Remove(h)
	h.stream.Open = slices.DeleteFunc(h.stream.Open, func(o *Held) bool { return o == h })
}

// Gone hears that a connection has closed.
func (s *Machine) Gone(now clock.Time, conn uint64) {
	all := make([]*Stream, 0, len(s.Conns[conn]))
	for _, st := range s.Conns[conn] { // Any order: sorted below.
		all = append(all, st)
	}
	slices.SortFunc(all, func(a, b *Stream) int { return compareInstances(a.instance, b.instance) })
	for _, st := range all {
		s.drop(now, st)
	}
}

// endWait forgets a request that its worker gave up, or that is sent to another node.
func (s *Machine) endWait(h *Held, why *proto.Error) {
	s.forget(h)
	if why != nil {
		s.Round.Refuse(h.from, why)
		s.touch(h.stream)
	}
}

// Unsent takes out the grants that were pushed to workers and surely never left.
func (s *Machine) Unsent(now clock.Time, grants []message.GrantRef) []message.GrantRef {
	if len(grants) == 0 || grants[0].Ask.Request != convert.PushedAsk {
		return grants
	}
	for _, g := range grants {
		s.Dispatcher.Unsent(now, g.Ask.Session, session.Claim{Task: g.Task, Token: g.Token})
	}
	return nil
}

// touch has a stream looked at when the round ends.
func (s *Machine) touch(st *Stream) {
	if !st.dirty {
		st.dirty = true
		s.dirty = append(s.dirty, st)
	}
}

// say puts a message on its way to a worker.
func (s *Machine) say(now clock.Time, m session.Message) {
	st := s.Streams[m.Instance]
	if st == nil || m.Association < st.association {
		s.unsaid(now, m)
		return
	}
	size := session.Size(m)
	if len(st.out) >= maxStreamOut || st.bytes+size > MaxStreamBytes && len(st.out) > 0 {
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
	stream *Stream
	till   int64
}

// impatient lets answers go whose renewals take long.
func (s *Machine) impatient(now clock.Time) {
	for len(s.patient) > 0 && s.patient[0].till <= now.Mono {
		p := s.patient[0]
		s.patient = s.patient[1:]
		if p.stream.patientTill == p.till {
			p.stream.renews, p.stream.eager = false, true
			s.touch(p.stream)
		}
	}
}

// unsaid gives a task back that a worker could not be told of. Other messages are repeated by
// the protocol.
func (s *Machine) unsaid(now clock.Time, m session.Message) {
	if t, ok := m.Body.(*session.RunTask); ok && t.Check == 0 {
		s.Dispatcher.Unsent(now, m.Instance, t.Claim)
	}
}

// flush answers what can be answered.
func (s *Machine) flush(now clock.Time) {
	s.impatient(now)
	for _, st := range s.dirty {
		st.dirty = false
		for st.eager && len(st.Open) > 0 && len(st.out) > 0 {
			n := session.Fit(st.out)
			some := st.out[:n:n]
			st.out = st.out[n:]
			for _, m := range some {
				st.bytes -= session.Size(m)
			}
			s.answer(st.Open[0], some)
			if st.full {
				st.full, s.again = false, true
				s.Dispatcher.Writable(now, st.instance)
			}
		}
		if len(st.out) == 0 {
			st.eager, st.patientTill = false, 0
		}
		for len(st.Open) > maxStreamOpen {
			s.answer(st.Open[0], nil)
		}
		if len(st.Open)+len(st.out) == 0 && s.Streams[st.instance] == st && (st.left || !s.Dispatcher.Knows(st.instance)) {
			s.drop(now, st) // the connection may live on, with others on it; or whoever it was never became a worker
			s.again = true
		}
	}
	s.dirty = s.dirty[:0]
	for len(s.waits) > 0 && s.waits[0].Until <= now.Mono {
		st := s.waits[0].stream
		s.answer(s.waits[0], nil)
		if len(st.Open) == 0 && len(st.out) == 0 && !s.Dispatcher.Knows(st.instance) {
			s.drop(now, st) // whoever it was never became a worker
		}
	}
}

// answer gives messages to a worker.
func (s *Machine) answer(h *Held, all []session.Message) {
	s.forget(h)
	reply, err := session.BundleReply(all)
	if err != nil {
		s.Round.Check(err) // a grant without its task cannot have been granted
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
	s.Round.Answer(r)
}

// partition is that of a task.
func (s *Machine) partition(task id.ID) ring.Partition { return ring.Of(task, len(s.View.Cells)) }

// Work does what the time has come for, and what has come in wants.
func (s *Machine) Work(now clock.Time) {
	s.again = false
	if !s.View.Joined || s.Node.Closed() {
		return
	}
	s.Dispatcher.Tick(now)
	s.Asks.retry(now)
	s.Asks.renewDue(now)
	s.pump(now)
	s.Known.work(now)
	s.Names.work(now)
	s.Questions.late(now)
	s.flush(now)
}

// Late takes the answers that came at the end of a round. Others may be given by it.
func (s *Machine) Late(now clock.Time) {
	if len(s.Asks.answers) == 0 || s.Node.Closed() {
		return
	}
	before := s.Asks.Number
	s.pump(now)
	s.Names.work(now)
	s.flush(now)
	s.again = s.again || s.Asks.Number != before
}

// pump carries out what the machine wants until it wants nothing more.
//
// The loop ends because each turn either takes answers, which are finite, or makes requests,
// which are answered in a later turn or round.
func (s *Machine) pump(now clock.Time) {
	for {
		s.Asks.collect(now)
		r := s.Dispatcher.Ready()
		s.wakeAt = r.WakeAt
		if len(r.Names)+len(r.Renew)+len(r.Want)+len(r.Unwant)+len(r.Settle)+len(r.Doubt)+len(r.Orders)+len(r.Send)+len(r.Lines) == 0 {
			return
		}
		for _, r := range r.Renew {
			if st := s.Streams[r.Instance]; st != nil {
				st.renews = true
			}
		}
		for _, m := range r.Send {
			s.say(now, m)
		}
		for _, no := range r.Unwant {
			s.Asks.unwant(no)
		}
		s.Asks.renew(now, r.Renew)
		s.Asks.settle(now, r.Settle)
		for _, w := range r.Want {
			s.Asks.want(now, w)
		}
		s.Names.ask(now, r.Names)
		s.Known.handOver(now, r.Doubt)
		for _, o := range r.Orders {
			s.Asks.order(now, o, now.Mono, 0)
		}
		s.Questions.answered(r.Lines)
	}
}

// Due is when there is something to do, mono ns.
func (s *Machine) Due() int64 {
	if s.again {
		return 0
	}
	if s.Node.Closed() {
		return clock.Never
	}
	at := min(s.wakeAt, s.waits.Next(), s.Questions.next(), s.Asks.nextAsk(), s.Names.next(), s.Known.nextLook())
	if len(s.patient) > 0 {
		at = min(at, s.patient[0].till)
	}
	return at
}
