package core

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxNamed is how many workers one explanation names.
const maxNamed = 10

// serving is who takes tasks of a queue, of one node or of all.
type serving struct {
	workers []*nornv1.Worker
	waiting uint64                 // claim requests
	asked   *timestamppb.Timestamp // when one last came; nil: none has, as far as is known
}

// serves tells whether a session takes tasks of a queue; all do of none.
func serves(i *session.Info, queue string) bool {
	return queue == "" || slices.ContainsFunc(i.Capacity.Queues, func(q session.QueueSlots) bool { return q.Queue == queue })
}

// serving gives who takes tasks of a queue at this node.
func (w workers) serving(now clock.Time, queue string) *serving {
	s := &serving{}
	s.waiting, s.asked = w.askedFor(queue)
	for _, i := range w.d.Sessions(now) {
		if serves(&i, queue) {
			s.workers = append(s.workers, w.wire(&i))
		}
	}
	return s
}

// askedFor is how many claim requests wait here for a queue, and when one last came.
func (w workers) askedFor(queue string) (waiting uint64, last *timestamppb.Timestamp) {
	return uint64(w.c.readyIndex.waiting(queue)), convert.Timestamp(w.c.readyIndex.last[queue])
}

// reasons are why no worker takes a task of the queue that is ready, at the wall ns now.
func (s *serving) reasons(queue string, now int64) (out []*nornv1.Reason) {
	var able, busy []*nornv1.Worker
	var away []string
	slots := uint64(0)
	for _, w := range s.workers {
		switch {
		case w.GetTrouble() != "":
			if len(out) < maxNamed {
				out = append(out, &nornv1.Reason{
					Kind: nornv1.ReasonKind_REASON_KIND_WORKER_TROUBLED, Worker: w.GetName(),
					Text: "worker " + w.GetName() + " serves queue " + queue + ", and cannot begin tasks: " + w.GetTrouble(),
				})
			}
		case w.GetDraining():
			away = append(away, "worker "+w.GetName()+" is draining")
		case w.GetKilled(), w.GetState() == nornv1.SessionState_SESSION_STATE_MUST_DIE:
			away = append(away, "worker "+w.GetName()+" was killed or lost")
		case w.GetState() == nornv1.SessionState_SESSION_STATE_UNHEALTHY:
			away = append(away, fmt.Sprintf("worker %s has been silent for %s", w.GetName(), proto.Seconds(w.GetSilentSeconds()).Round(time.Second)))
		case w.GetRestingSeconds() > 0:
			away = append(away, fmt.Sprintf("worker %s declined many tasks and is given none for %s", w.GetName(), proto.Seconds(w.GetRestingSeconds()).Round(time.Second)))
		default:
			able = append(able, w)
			if n := uint64(len(w.GetRunning())); n >= uint64(w.GetSlots()) {
				busy, slots = append(busy, w), slots+n
			}
		}
	}
	switch {
	case s.waiting > 0 || len(able) > len(busy): // somebody asks, or is about to
		return out
	case len(able) > 0:
		return append([]*nornv1.Reason{{
			Kind: nornv1.ReasonKind_REASON_KIND_ALL_BUSY, Count: slots,
			Text: fmt.Sprintf("all slots of the workers that take queue %s are busy: %d tasks run (%s): wait, start more workers, or give them more slots (`norn work -q %s --slots N -- CMD`)", queue, slots, named(busy), queue),
		}}, out...)
	}
	return append([]*nornv1.Reason{s.none(queue, now, away)}, out...)
}

// named are the names of some workers, with how much each runs.
func named(all []*nornv1.Worker) string {
	var names []string
	for _, w := range all[:min(len(all), maxNamed)] {
		names = append(names, fmt.Sprintf("%s %d of %d", w.GetName(), len(w.GetRunning()), w.GetSlots()))
	}
	if n := len(all) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(names, ", ")
}

// none says that nobody takes tasks of a queue, and who was last there.
func (s *serving) none(queue string, now int64, away []string) *nornv1.Reason {
	r := &nornv1.Reason{Kind: nornv1.ReasonKind_REASON_KIND_NO_WORKER, Since: s.asked}
	last := "none has asked for its tasks since the nodes started"
	if s.asked != nil {
		ago := max(time.Duration(now-s.asked.AsTime().UnixNano()), 0).Round(time.Second)
		last = fmt.Sprintf("one last asked for its tasks %s ago, at %s", ago, s.asked.AsTime().Format(time.RFC3339))
	}
	what := "none is connected"
	switch {
	case len(away) > 0:
		what = strings.Join(away[:min(len(away), maxNamed)], ", ")
	case len(s.workers) > 0:
		what = "those that serve it cannot begin tasks"
	}
	r.Text = fmt.Sprintf("no worker takes queue %s now: %s, and %s: start one (`norn work -q %s -- CMD`)", queue, what, last, queue)
	return r
}

// withWorkers puts what keeps workers from a task before what is ahead of it, in place of
// what one node alone has said of them.
func withWorkers(reasons, workers []*nornv1.Reason) []*nornv1.Reason {
	reasons = slices.DeleteFunc(reasons, func(r *nornv1.Reason) bool {
		return r.GetKind() == nornv1.ReasonKind_REASON_KIND_NO_WORKER || r.GetKind() == nornv1.ReasonKind_REASON_KIND_WORKER_TROUBLED
	})
	at := slices.IndexFunc(reasons, func(r *nornv1.Reason) bool { return r.GetKind() == nornv1.ReasonKind_REASON_KIND_BEHIND })
	if at < 0 {
		at = len(reasons)
	}
	return slices.Insert(reasons, at, workers...)
}

// explain has the node that knows a task best tell why it does not run, and then, where it is
// ready, all nodes of their workers.
func explain(r *routes, now clock.Time, q *message.Request, m *nornv1.ExplainRequest) bool {
	p, ok := r.partition(m.GetId())
	if !ok {
		return false
	}
	to, ok := r.reader(p)
	switch {
	case !ok:
		r.c.round.Refuse(q.From, refusal.Unreachable(p))
		return true
	case crowds(r, q.From):
		r.c.round.Refuse(q.From, refusal.Crowded(maxGathers))
		return true
	}
	e := &explained{scope: q.Scope}
	g := r.gather(now, q, e, 0)
	g.then = func(g *scatterRequest) {
		if e.err != nil || e.reply.GetState() != nornv1.State_STATE_READY {
			r.c.round.Ready.Replies = append(r.c.round.Ready.Replies, message.Reply{To: g.from, Message: e.reply, Err: e.err, After: r.c.round.After(g.round)})
			return
		}
		e.now = r.c.round.Now.Wall
		all := r.gather(r.c.round.Now, q, e, statusTimeout-forwardTimeout)
		all.method = uint16(nornv1.Method_METHOD_WORKERS)
		for _, node := range append(r.others(), r.c.cfg.Self) {
			r.forward(r.c.round.Now, all, node, nil, &nornv1.WorkersRequest{Queue: e.reply.GetQueue()}, nil)
		}
		r.finish(all)
	}
	r.forward(now, g, to, []int{0}, m, nil)
	r.finish(g)
	return true
}

// explained joins what the node that knows a task says and what all say of their workers.
type explained struct {
	reply *nornv1.ExplainReply
	err   *proto.Error
	all   serving
	now   int64        // wall ns
	scope *guard.Scope // of who asks, who may not be shown all workers
}

func (e *explained) Take(_ []int, m gproto.Message) {
	switch m := m.(type) {
	case *nornv1.ExplainReply:
		e.reply = m
	case *nornv1.WorkersReply:
		queue := e.reply.GetQueue()
		for _, w := range m.GetWorkers() { // an older node tells of all
			if slices.ContainsFunc(w.GetQueues(), func(q *nornv1.SessionQueue) bool { return q.GetQueue() == queue }) {
				e.all.workers = append(e.all.workers, w)
			}
		}
		e.all.waiting += m.GetWaitingClaims()
		if at := m.GetLastAsked(); at != nil && (e.all.asked == nil || at.AsTime().After(e.all.asked.AsTime())) {
			e.all.asked = at
		}
	}
}

// fail: without the word of who knows the task there is no answer; a node that does not
// tell of its workers is found by others in its time.
func (e *explained) Fail(idx []int, err *proto.Error) {
	if idx != nil {
		e.err = err
	}
}

func (e *explained) Answer() (gproto.Message, *proto.Error) {
	if e.err != nil {
		return nil, e.err
	}
	e.reply.Reasons = withWorkers(e.reply.GetReasons(), e.all.reasons(e.reply.GetQueue(), e.now))
	e.scope.Show(e.reply)
	return e.reply, nil
}
