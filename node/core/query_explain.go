package core

import (
	"fmt"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/explain"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// newExplain makes the read that answers why a task is not running.
func newExplain(c *Core, q *message.Request, m *nornv1.ExplainRequest) (message.Read, *proto.Error) {
	task, bad := convert.ReadID(m.GetId())
	if bad != nil {
		return message.Read{From: q.From}, bad
	}
	e := &explain.Explainer{Partitions: len(c.view.Cells)}
	p := ring.Of(task, len(c.view.Cells))
	e.Leading = c.vnodes.See(p).Leading() != 0
	e.Aside = c.leases.Open(p)
	d, err := vnode.ReadTask(c.round.Tx, p, task, vnode.ReadOptions{NoClaims: true, NoLog: true})
	if !c.round.Check(err) || d.Task.Enqueued == nil && !d.Task.Collected() {
		return message.Read{From: q.From}, refusal.NoTaskUnless(task, c.replication.Reads.TooFewAnswered)
	}
	name := explain.QueueOf(d)
	if s := c.queues.of(name); s.GetPaused() {
		e.Paused = s
	}
	room(c, e, p, name)
	e.Unhandled = c.dispatch.Index.KeptFrom(c.round.Now, task)
	e.Mute = !q.Scope.May(guard.Read, name)
	if !q.Routed {
		e.Serving = c.sessions.Serving(c.round.Now, name)
	}
	e.Elsewhere = c.dependency.Elsewhere(vnode.Blockers(c.round.Tx, p, task))
	return message.Read{From: q.From, Func: func(view store.View, now clock.Time) (gproto.Message, *proto.Error, error) {
		m, refused, err := e.Run(view, now, task)
		q.Scope.Show(m)
		return m, refused, err
	}}, nil
}

// room finds out whether there may be more claims.
func room(c *Core, e *explain.Explainer, p ring.Partition, queue string) {
	if t := c.tenants.Of(queue); t != nil {
		used := c.tenants.Claimed(t.Prefix)
		if full := t.Claim(used); full != nil {
			e.Held, e.Full = int(used), full.Message+": it is handed out nothing until one of them ends"
			return
		}
	}
	part := vnode.Full(c.vnodes.See(p))
	switch n := c.vnodes.Claimed(); {
	case part > 0:
		e.Held = part
		e.Full = fmt.Sprintf("%d tasks of partition %d are under a claim, its limit: nothing of it is handed out until one of them ends", e.Held, p)
	case n >= c.dispatch.MaxClaims:
		e.Held = n
		e.Full = fmt.Sprintf("%d tasks are under a claim on the node that leads partition %d, its limit (max-claims): it hands out nothing until one of them ends", n, p)
	}
}

// explaining has the node that knows a task best tell why it does not run, and then, where it is
// ready, all nodes of their workers.
func explaining(c *Core, now clock.Time, q *message.Request, m *nornv1.ExplainRequest) bool {
	r := c.routes
	p, ok := r.Partition(m.GetId())
	if !ok {
		return false
	}
	to, ok := r.Reader(p)
	switch {
	case !ok:
		c.round.Refuse(q.From, refusal.Unreachable(p))
		return true
	case r.Crowds(q.From):
		c.round.Refuse(q.From, refusal.Crowded(router.MaxWaiting))
		return true
	}
	e := &explain.Explained{Scope: q.Scope}
	g := r.Gather(now, q, e, 0)
	g.Then = func(g *router.Scatter) {
		if e.Err != nil || e.Reply.GetState() != nornv1.State_STATE_READY {
			c.round.Ready.Replies = append(c.round.Ready.Replies, message.Reply{To: g.From, Message: e.Reply, Err: e.Err, After: c.round.After(g.Round)})
			return
		}
		e.Now = c.round.Now.Wall
		all := r.Gather(c.round.Now, q, e, statusTimeout-router.ForwardTimeout)
		all.Method = uint16(nornv1.Method_METHOD_WORKERS)
		for _, node := range append(view.MembersOf(c.view.Alive()), c.cfg.Self) {
			r.Forward(c.round.Now, all, node, nil, &nornv1.WorkersRequest{Queue: e.Reply.GetQueue()}, nil)
		}
		r.Finish(all)
	}
	r.Forward(now, g, to, []int{0}, m, nil)
	r.Finish(g)
	return true
}
