package workers

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/explain"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// List answers with the sessions of all nodes in reach.
func (s *Machine) List(now clock.Time, r *message.Request, m *nornv1.WorkersRequest) (gproto.Message, *proto.Error) {
	if len(m.GetNames()) > proto.MaxNames {
		return nil, refusal.TooManyNames(len(m.GetNames()))
	}
	last, err := query.WorkerCursor.Open(m.GetCursor())
	if err != nil {
		return nil, err
	}
	own := &nornv1.WorkersReply{Set: &nornv1.SessionSet{Version: s.Names.set.Version, Hash: s.Names.set.Hash}}
	page := query.NewFill(m.GetLimit())
	if m.GetQueue() != "" {
		own.WaitingClaims, own.LastAsked = s.Node.AskedFor(m.GetQueue())
	}
	for _, i := range s.Dispatcher.Sessions(now) {
		if len(m.GetNames()) > 0 && !slices.Contains(m.GetNames(), i.Identity.Name) || m.GetTroubled() && i.Trouble == "" || !explain.Serves(&i, m.GetQueue()) {
			continue
		}
		one := s.wire(&i)
		if !scope.Shows(r.Scope, one) || !past(one, last) {
			continue
		}
		if !page.Takes(one) {
			own.NextCursor = query.WorkerCursor.Seal(placeOf(own.Workers[len(own.Workers)-1]))
			break
		}
		own.Workers = append(own.Workers, one)
	}
	if r.Routed {
		return own, nil
	}
	to, join := view.MembersOf(s.View.Alive()), &lists{whole: own, limit: m.GetLimit(), policy: s.Policy}
	join.ended(own)
	if len(to) == 0 {
		return join.page(), nil
	}
	if err := s.Routes.Crowds(r.From); err != nil {
		return nil, err
	}
	s.Routes.Gather(now, r, join, to, m)
	return nil, nil
}

// Set drains or kills a worker, wherever its session is.
func (s *Machine) Set(now clock.Time, r *message.Request, m *nornv1.SetWorkerRequest) (gproto.Message, *proto.Error) {
	if err := proto.CheckSetWorker(m); err != nil {
		return nil, err
	}
	instance, node, ok := s.Names.holder(m.GetName())
	if len(m.GetInstance()) > 0 {
		instance = session.Instance(m.GetInstance())
		if at, held := s.dispatcherOf(instance); held {
			node, ok = at, true
		}
	}
	if i, here := s.Dispatcher.Info(now, instance); here && i.Identity.Name == m.GetName() {
		return s.act(now, m, instance)
	}
	if !ok || r.Routed || node == s.Self || !s.View.Up(node) {
		return nil, refusal.NoWorker(m.GetName())
	}
	body := gproto.CloneOf(m)
	body.Instance = instance[:]
	s.Routes.Pass(now, r, node, body)
	return nil, nil
}

// act tells a worker of this node what an operator wants.
func (s *Machine) act(now clock.Time, m *nornv1.SetWorkerRequest, instance session.Instance) (gproto.Message, *proto.Error) {
	if m.GetAction() == nornv1.WorkerAction_WORKER_ACTION_KILL {
		s.Dispatcher.Kill(now, instance, cmp.Or(m.GetReason(), "an operator has stopped it"))
	} else {
		s.Dispatcher.Drain(now, instance)
	}
	i, _ := s.Dispatcher.Info(now, instance)
	return &nornv1.WorkersReply{
		Workers: []*nornv1.Worker{s.wire(&i)}, Set: &nornv1.SessionSet{Version: s.Names.set.Version, Hash: s.Names.set.Hash},
	}, nil
}

// order has a worker that is with another node by now hear there what an operator wants of
// it: this node has said that it will. Whoever cannot be told for a minute is given up.
func (a *Asks) order(now clock.Time, o session.Order, since int64, tries int) {
	m := &nornv1.SetWorkerRequest{Name: o.Identity.Name, Instance: o.Identity.Instance[:], Action: nornv1.WorkerAction_WORKER_ACTION_DRAIN, Reason: o.Reason}
	if o.Kill {
		m.Action = nornv1.WorkerAction_WORKER_ACTION_KILL
	}
	a.put(now, nornv1.Method_METHOD_SET_WORKER, m, func(now clock.Time, r *message.Reply) {
		if r.Err == nil || now.Mono-since > int64(settleFor) {
			return
		}
		a.after(now, settlePauses.Pause(tries), func(now clock.Time) { a.order(now, o, since, tries+1) })
	})
}

// wire is a session as clients see it.
func (s *Machine) wire(i *session.Info) *nornv1.Worker {
	out := &nornv1.Worker{
		Name: i.Identity.Name, Instance: slices.Clone(i.Identity.Instance[:]), Machine: i.Identity.Machine, Lock: i.Identity.Lock, Node: s.Self.Node,
		State: nornv1.SessionState(i.State) + 1, Named: i.Named, Draining: i.Draining, Refused: nornv1.SessionRefusal(i.Refused),
		Slots: uint32(i.Capacity.Slots), Prefetch: uint32(i.Capacity.Prefetch), Unsure: uint32(i.Unsure), SilentSeconds: i.Silent.Seconds(),
		Set: &nornv1.SessionSet{Version: i.Set.Version, Hash: i.Set.Hash}, Association: i.Association, Trouble: i.Trouble,
		Declined: i.Declined, Declines: nornv1.SessionRefusal(i.Declines), RestingSeconds: i.Resting.Seconds(), Killed: i.Killed,
	}
	if i.Identity.Started != 0 {
		out.StartedAt = timestamppb.New(time.Unix(0, i.Identity.Started))
	}
	for _, q := range i.Capacity.Queues {
		out.Queues = append(out.Queues, &nornv1.SessionQueue{Queue: q.Queue, Slots: uint32(q.Slots), Weight: uint32(q.Weight)})
	}
	for _, c := range i.Running {
		out.Running = append(out.Running, &nornv1.WorkerClaim{Id: c.Task.String(), Token: c.Token})
	}
	return out
}

// placeOf is where a page goes on behind a worker.
func placeOf(w *nornv1.Worker) []byte {
	return append(slices.Clone(w.GetInstance()), w.GetName()...)
}

// past tells whether a worker comes after a place; all come after none.
//
// The order is by name and then by instance, on all nodes alike: a page of several nodes can be
// cut anywhere.
func past(w *nornv1.Worker, place []byte) bool {
	n := len(session.Instance{})
	return len(place) < n ||
		cmp.Or(cmp.Compare(w.GetName(), string(place[n:])), bytes.Compare(w.GetInstance(), place[:n])) > 0
}

// lists joins pages of the sessions of several nodes.
type lists struct {
	whole *nornv1.WorkersReply
	ends  [][]byte // of the parts that have more
	limit uint32

	policy Policy
}

// Take joins the page of a node.
func (l *lists) Take(_ []int, m gproto.Message) {
	part, ok := m.(*nornv1.WorkersReply)
	if !ok {
		return
	}
	l.whole.Workers = append(l.whole.Workers, part.GetWorkers()...)
	l.whole.WaitingClaims += part.GetWaitingClaims()
	if at := part.GetLastAsked(); at.AsTime().After(l.whole.GetLastAsked().AsTime()) {
		l.whole.LastAsked = at
	}
	l.ended(part)
	if part.GetSet().GetVersion() > l.whole.GetSet().GetVersion() {
		l.whole.Set = part.GetSet()
	}
}

// ended notes where a part has ended that has more.
func (l *lists) ended(part *nornv1.WorkersReply) {
	if at, err := query.WorkerCursor.Open(part.GetNextCursor()); err == nil && len(at) > 0 {
		l.ends = append(l.ends, at)
	}
}

// fail: what a node that is away knows is found by others in its time.
func (l *lists) Fail([]int, *proto.Error) {}

// Answer gives the joined page.
func (l *lists) Answer() (gproto.Message, *proto.Error) { return l.page(), nil }

// page orders workers by name and instance, and cuts them where a part that has more has
// ended. Of several sessions of one instance that of the newest association counts: the
// others have not heard of it yet.
func (l *lists) page() *nornv1.WorkersReply {
	all := l.whole.Workers
	slices.SortFunc(all, func(a, b *nornv1.Worker) int {
		return cmp.Or(cmp.Compare(a.GetName(), b.GetName()), slices.Compare(a.GetInstance(), b.GetInstance()), cmp.Compare(b.GetAssociation(), a.GetAssociation()))
	})
	all = slices.CompactFunc(all, func(a, b *nornv1.Worker) bool { return slices.Equal(a.GetInstance(), b.GetInstance()) })
	page, n := query.NewFill(l.limit), 0
	beyond := func(end []byte) bool { return past(all[n], end) && !l.policy.WorkerPageEnd } // of what a part has not shown
	for n < len(all) && !slices.ContainsFunc(l.ends, beyond) && page.Takes(all[n]) {
		n++
	}
	l.whole.NextCursor = nil
	if n > 0 && (n < len(all) || len(l.ends) > 0) {
		l.whole.NextCursor = query.WorkerCursor.Seal(placeOf(all[n-1]))
	}
	l.whole.Workers = all[:n]
	return l.whole
}

// Serving gives who takes tasks of a queue at this node.
func (s *Machine) Serving(now clock.Time, queue string) *explain.Serving {
	out := &explain.Serving{}
	out.Waiting, out.Asked = s.Node.AskedFor(queue)
	for _, i := range s.Dispatcher.Sessions(now) {
		if explain.Serves(&i, queue) {
			out.Workers = append(out.Workers, s.wire(&i))
		}
	}
	return out
}
