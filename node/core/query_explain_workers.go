package core

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// maxTroubled is how many workers one explanation names.
const maxTroubled = 10

// troubledReasons are why workers of a queue, of those given, cannot begin tasks.
func troubledReasons(queue string, all []*nornv1.Worker) (out []*nornv1.Reason) {
	for _, w := range all {
		serves := slices.ContainsFunc(w.GetQueues(), func(q *nornv1.SessionQueue) bool { return q.GetQueue() == queue })
		if w.GetTrouble() == "" || !serves || len(out) == maxTroubled {
			continue
		}
		out = append(out, &nornv1.Reason{
			Kind: nornv1.ReasonKind_REASON_KIND_WORKER_TROUBLED, Worker: w.GetName(),
			Text: "worker " + w.GetName() + " serves queue " + queue + ", and cannot begin tasks: " + w.GetTrouble(),
		})
	}
	return out
}

// troubled are the workers of this node that cannot begin tasks.
func (w workers) troubled(now clock.Time) (out []*nornv1.Worker) {
	for _, i := range w.d.Sessions(now) {
		if i.Trouble != "" {
			out = append(out, w.wire(&i))
		}
	}
	return out
}

// explain has the node that knows a task best tell why it does not run, and the others
// which of their workers cannot begin tasks.
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
	join := &explained{}
	g := r.gather(now, q, join, 0)
	r.forward(now, g, to, []int{0}, m, nil)
	g.method = uint16(nornv1.Method_METHOD_WORKERS)
	for _, other := range append(r.others(), r.c.cfg.Self) {
		if other != to { // who adds its own by itself
			r.forward(now, g, other, nil, &nornv1.WorkersRequest{Troubled: true}, nil)
		}
	}
	r.finish(g)
	return true
}

// explained joins the reasons of several nodes.
type explained struct {
	reply   *nornv1.ExplainReply
	err     *proto.Error
	workers []*nornv1.Worker
}

func (e *explained) take(_ []int, m gproto.Message) {
	switch m := m.(type) {
	case *nornv1.ExplainReply:
		e.reply = m
	case *nornv1.WorkersReply:
		e.workers = append(e.workers, m.GetWorkers()...)
	}
}

// fail: without the word of who knows the task there is no answer; a node that does not
// tell of its workers is found by others in its time.
func (e *explained) fail(idx []int, err *proto.Error) {
	if idx != nil {
		e.err = err
	}
}

func (e *explained) answer() (gproto.Message, *proto.Error) {
	if e.err != nil {
		return nil, e.err
	}
	if e.reply.GetState() == nornv1.State_STATE_READY {
		e.reply.Reasons = append(e.reply.Reasons, troubledReasons(e.reply.GetQueue(), e.workers)...)
	}
	return e.reply, nil
}
