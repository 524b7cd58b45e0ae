package workers

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

const (
	// wantWait is how long a request for tasks waits before it is asked anew.
	wantWait = time.Minute
	// workPause is the pause after a request that was refused for now.
	workPause = 100 * time.Millisecond
	// settleFor bounds how long claims that no worker waits for are given back: beyond
	// that they lapse.
	settleFor = time.Minute
	// maxSettleLater bounds them in number.
	maxSettleLater = 100_000
)

// settlePauses are those between the tries.
var settlePauses = clock.Backoff{First: workPause, Most: 4 * time.Second}

// Asks are the requests of the sessions to the cluster.
type Asks struct {
	s      *Machine
	Number uint64 // of the newest request
	// Invariant: each request that was put is here until its answer comes, which takes it out
	// before it is carried out. An answer is taken once, even if it comes twice.
	open    map[uint64]func(clock.Time, *message.Reply)
	answers []message.Reply // to be taken
	// Invariant: there is one entry per wish that the dispatcher has open; what comes for
	// another one is given back ([session.Dispatcher.Granted]).
	wants    map[uint64]*want // by their number
	Shares   map[session.Instance]*session.Shares
	later    call.ByTime[*workLater]
	renewals renewals
	holders  scope.Holders[session.Instance] // who the workers are, see [message.Request]
}

// workLater is something to be asked again.
type workLater struct {
	call.Deadline
	do func(clock.Time)
}

// start gives it the machine that it asks for.
func (a *Asks) start(s *Machine) {
	a.s = s
	a.open, a.wants = make(map[uint64]func(clock.Time, *message.Reply)), make(map[uint64]*want)
	a.Shares = make(map[session.Instance]*session.Shares)
	a.renewals.at = clock.Never
}

// put asks the cluster; then takes the answer.
//
// The request carries who the worker is, so that its rights are judged like any client's. The
// answer comes in this round or in a later one, never within the call.
func (a *Asks) put(now clock.Time, method nornv1.Method, body gproto.Message, then func(clock.Time, *message.Reply)) (number uint64) {
	a.Number++
	number = a.Number
	a.open[number] = then
	a.s.Node.Request(now, &message.Request{From: message.Origin{Conn: message.WorkConn, Request: number, Method: uint16(method)}, Body: body, Received: now.Mono, Scope: a.holders.Now.Scope, By: a.holders.Now.By})
	return number
}

// Answered takes the answer to a request.
func (a *Asks) Answered(r *message.Reply) { a.answers = append(a.answers, *r) }

// collect takes the answers that have come.
func (a *Asks) collect(now clock.Time) {
	for {
		if len(a.open) > 0 && slices.ContainsFunc(a.s.Round.Ready.Replies, func(r message.Reply) bool { return r.To.Conn == message.WorkConn }) {
			a.s.Round.Ready.Replies = slices.DeleteFunc(a.s.Round.Ready.Replies, func(r message.Reply) bool {
				if r.To.Conn == message.WorkConn {
					a.answers = append(a.answers, r)
				}
				return r.To.Conn == message.WorkConn
			})
		}
		if len(a.answers) == 0 {
			return
		}
		all := a.answers
		a.answers = nil
		for i := range all {
			then := a.open[all[i].To.Request]
			delete(a.open, all[i].To.Request)
			if then != nil {
				then(now, &all[i])
			}
		}
	}
}

// after has something done later.
func (a *Asks) after(now clock.Time, pause time.Duration, do func(clock.Time)) {
	a.Number++
	l := &workLater{do: do}
	l.Until, l.Number = now.Mono+int64(pause), a.Number
	a.later.Add(l)
}

// retry does what the time has come for.
func (a *Asks) retry(now clock.Time) {
	for len(a.later) > 0 && a.later[0].Until <= now.Mono {
		l := a.later[0]
		a.later.Remove(l)
		l.do(now)
	}
}

// nextAsk is when something is due, mono ns.
func (a *Asks) nextAsk() int64 { return min(a.later.Next(), a.renewals.at) }

// byLeader groups claims by who leads their partitions, as far as that is known: so
// that one node which does not answer holds up no answers but its own.
func (a *Asks) byLeader(n int, task func(int) id.ID) (groups *call.Groups, rest []int) {
	groups = call.NewGroups()
	for i := range n {
		if m, ok := a.s.Routes.Leader(a.s.partition(task(i))); ok {
			groups.Add(m, i)
		} else {
			rest = append(rest, i)
		}
	}
	return groups, rest
}

// ending is a claim that is being ended at its leader.
type ending struct {
	session.Settle
	since int64 // mono ns
	tries int
}

// settle ends claims.
func (a *Asks) settle(now clock.Time, all []session.Settle) {
	list := make([]*ending, len(all))
	for i := range all {
		list[i] = &ending{Settle: all[i], since: now.Mono}
	}
	a.end(now, list)
}

// end asks for claims to be ended: completions of whoever keeps the tasks, the rest
// of their leaders.
func (a *Asks) end(now clock.Time, list []*ending) {
	scope.By(&a.holders, list, func(e **ending) session.Instance { return (*e).Instance }, func(list []*ending) { a.endAll(now, list) })
}

// endAll asks for the ends of claims, one request per method and leader.
func (a *Asks) endAll(now clock.Time, list []*ending) {
	for _, method := range []nornv1.Method{nornv1.Method_METHOD_COMPLETE, nornv1.Method_METHOD_FAIL, nornv1.Method_METHOD_RELEASE} {
		var some []*ending
		for _, e := range list {
			if methodOf(&e.Settle) == method {
				some = append(some, e)
			}
		}
		groups, rest := a.byLeader(len(some), func(i int) id.ID { return some[i].Claim.Task })
		lists := [][]int{rest}
		for _, to := range groups.Order {
			lists = append(lists, groups.Of[to])
		}
		for _, idx := range lists {
			for len(idx) > 0 {
				part := fitting(some, idx)
				a.endSome(now, method, part)
				idx = idx[len(part):]
			}
		}
	}
}

// fitting picks the first ones that one request may have, at least one: what a round
// brings of many workers may be more than a message between nodes.
func fitting(all []*ending, idx []int) (some []*ending) {
	size := 0
	for _, i := range idx[:min(len(idx), proto.MaxBatchTasks)] {
		if size += len(all[i].End.Result) + len(all[i].End.Error) + len(all[i].End.Further); len(some) > 0 && size > proto.MaxBatchBytes {
			break
		}
		some = append(some, all[i])
	}
	return some
}

// methodOf is by what a claim is ended.
func methodOf(s *session.Settle) nornv1.Method {
	switch {
	case s.Why == session.WhyEnded && s.End.Kind == session.EndCompleted:
		return nornv1.Method_METHOD_COMPLETE
	case (s.Why == session.WhyEnded || s.Why == session.WhyRefused) && s.End.Kind == session.EndFailed, s.Why == session.WhyLost:
		return nornv1.Method_METHOD_FAIL
	}
	return nornv1.Method_METHOD_RELEASE // also what was reported otherwise: if it was not, nobody runs it
}

// endSome asks for the ends of some claims in one request.
func (a *Asks) endSome(now clock.Time, method nornv1.Method, some []*ending) {
	var body gproto.Message
	switch method {
	case nornv1.Method_METHOD_COMPLETE:
		m := &nornv1.CompleteRequest{}
		for _, e := range some {
			done := &nornv1.Completion{
				Id: e.Claim.Task.Bytes(), Token: e.Claim.Token, Seq: e.End.Seq, AutoSeq: e.End.AutoSeq, Result: e.End.Result, Session: e.Instance[:],
			}
			convert.AddUnknown(done, e.End.Further)
			m.Completions = append(m.Completions, done)
		}
		body = m
	case nornv1.Method_METHOD_FAIL:
		m := &nornv1.FailRequest{}
		for _, e := range some {
			m.Failures = append(m.Failures, Failure(&e.Settle, a.s.Buffer))
		}
		body = m
	default:
		m := &nornv1.ReleaseRequest{}
		for _, e := range some {
			m.Claims = append(m.Claims, claimRefOf(e.Claim, e.Instance, e.Name))
		}
		body = m
	}
	a.put(now, method, body, func(now clock.Time, r *message.Reply) {
		reply, _ := r.Message.(*nornv1.WriteReply)
		for i, e := range some {
			o := refusedEnd(r.Err)
			if r.Err == nil && len(reply.GetResults()) == len(some) {
				o = outcomeOf(reply.GetResults()[i])
			}
			a.ended(now, e, o)
		}
	})
}

// claimRefOf names a claim that has to be of a worker, where that is known.
func claimRefOf(c session.Claim, i session.Instance, name string) *nornv1.ClaimRef {
	ref := &nornv1.ClaimRef{Id: c.Task.Bytes(), Token: c.Token, Worker: name}
	if !i.IsZero() {
		ref.Session = i[:]
	}
	return ref
}

// LostMargin is added to what the handlers of a lost worker needed to end: they are
// over by then by their worker's own clock, which cannot be asked any more.
const LostMargin = 5 * time.Second

// Failure is the failure of a claim, by its worker's word or by its worker's loss.
func Failure(s *session.Settle, buffer time.Duration) *nornv1.Failure {
	f := &nornv1.Failure{Id: s.Claim.Task.Bytes(), Token: s.Claim.Token, Worker: s.Name}
	if !s.Instance.IsZero() {
		f.Session = s.Instance[:]
	}
	if s.Why == session.WhyLost {
		f.Error, f.AtLeastSeconds = "the worker was lost", (s.Grace + max(LostMargin, buffer)).Seconds()
		return f
	}
	f.Error, f.Uncounted, f.Discard = s.End.Error, s.End.Uncounted, s.End.Discard
	f.RetryInSeconds = s.End.RetryIn.Seconds()
	if s.End.RetryAt != 0 {
		f.RetryAt = timestamppb.New(time.Unix(0, s.End.RetryAt))
	}
	convert.AddUnknown(f, s.End.Further)
	further := &nornv1.Failure{} // what a session does not have a field of its own for
	if gproto.Unmarshal(s.End.Further, further) == nil {
		f.KeepAwaySeconds = further.GetKeepAwaySeconds()
	}
	return f
}

// outcomeOf is what became of one end.
func outcomeOf(r *nornv1.WriteResult) session.Outcome {
	if r.GetError() == nil {
		return session.Outcome{Done: true, State: r.GetState()}
	}
	o := refusedEnd(proto.FromProto(r.GetError()))
	o.State = r.GetState()
	return o
}

// refusedEnd tells an end that can never be written from one that is to be tried
// again.
func refusedEnd(err *proto.Error) session.Outcome {
	if err == nil {
		return session.Outcome{} // an answer that makes no sense
	}
	switch err.Kind {
	case nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, nornv1.ErrorKind_ERROR_KIND_CONFLICT,
		nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT, nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS, nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW:
		return session.Outcome{Done: true, Lost: true}
	}
	return session.Outcome{}
}

// ended passes on what became of an end. One that its worker repeats is left to it.
//
// An end that its worker reports is repeated by the worker. Only those that no worker stands
// for are tried again here, for [settleFor].
func (a *Asks) ended(now clock.Time, e *ending, o session.Outcome) {
	if e.Why == session.WhyEnded || e.Why == session.WhyNotRunning {
		a.s.Dispatcher.Settled(now, e.Instance, e.Claim, o)
		return
	}
	if o.Done || now.Mono-e.since > int64(settleFor) || len(a.later) >= maxSettleLater {
		return
	}
	e.tries++
	a.after(now, settlePauses.Pause(e.tries-1), func(now clock.Time) { a.end(now, []*ending{e}) })
}

// dispatcherOf is the node that a worker is with, as the register has it.
func (s *Machine) dispatcherOf(i session.Instance) (register.Member, bool) {
	name, ok := s.Names.of[i]
	if !ok {
		return register.Member{}, false
	}
	return s.Names.cells[name].node, true
}
