package explain

import (
	"fmt"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/ground"
	"github.com/norn-dev/norn/node/core/lease"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/replication"
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

// Env is what a node explains tasks by.
type Env struct {
	*ground.Ground
	// The others of the node.
	Routes      *router.Machine
	Leases      *lease.Machine
	Dispatch    *dispatch.Machine
	Dependency  *dependency.Machine
	Replication *replication.Machine
	// Sessions knows which workers serve a queue.
	Sessions interface {
		Serving(now clock.Time, queue string) *Serving
	}
	// Queues has the settings of queues.
	Queues interface {
		Settings(queue string) *nornv1.QueueSettings
	}
}

// Machine explains why tasks do not run.
type Machine struct{ Env }

// New explains nothing yet.
func New(env Env) *Machine { return &Machine{env} }

// Read makes the read that answers why a task is not running.
func (c *Machine) Read(q *message.Request, m *nornv1.ExplainRequest) (message.Read, *proto.Error) {
	task, bad := convert.ReadID(m.GetId())
	if bad != nil {
		return message.Read{From: q.From}, bad
	}
	e := &Explainer{Partitions: len(c.View.Cells)}
	p := ring.Of(task, len(c.View.Cells))
	e.Leading = c.Partitions.See(p).Leading() != 0
	e.Aside = c.Leases.Open(p)
	d, err := vnode.ReadTask(c.Round.Tx, p, task, vnode.ReadOptions{NoClaims: true, NoLog: true})
	if !c.Round.Check(err) || d.Task.Enqueued == nil && !d.Task.Collected() {
		return message.Read{From: q.From}, refusal.NoTaskUnless(task, c.Replication.Reads.TooFewAnswered)
	}
	name := QueueOf(d)
	if s := c.Queues.Settings(name); s.GetPaused() {
		e.Paused = s
	}
	c.room(e, p, name)
	e.Unhandled = c.Dispatch.Index.KeptFrom(c.Round.Now, task)
	e.Mute = !q.Scope.May(guard.Read, name)
	if !q.Routed {
		e.Serving = c.Sessions.Serving(c.Round.Now, name)
	}
	e.Elsewhere = c.Dependency.Elsewhere(vnode.Blockers(c.Round.Tx, p, task))
	return message.Read{From: q.From, Func: func(view store.View, now clock.Time) (gproto.Message, *proto.Error, error) {
		m, refused, err := e.Run(view, now, task)
		q.Scope.Show(m)
		return m, refused, err
	}}, nil
}

// room finds out whether there may be more claims.
func (c *Machine) room(e *Explainer, p ring.Partition, queue string) {
	if t := c.Tenants.Of(queue); t != nil {
		used := c.Tenants.Claimed(t.Prefix)
		if full := t.Claim(used); full != nil {
			e.Held, e.Full = int(used), full.Message+": it is handed out nothing until one of them ends"
			return
		}
	}
	part := vnode.Full(c.Partitions.See(p))
	switch n := c.Partitions.Claimed(); {
	case part > 0:
		e.Held = part
		e.Full = fmt.Sprintf("%d tasks of partition %d are under a claim, its limit: nothing of it is handed out until one of them ends", e.Held, p)
	case n >= c.Dispatch.MaxClaims:
		e.Held = n
		e.Full = fmt.Sprintf("%d tasks are under a claim on the node that leads partition %d, its limit (max-claims): it hands out nothing until one of them ends", n, p)
	}
}

// Gather has the node that knows a task best tell why it does not run, and then, where it is
// ready, all nodes of their workers.
func (c *Machine) Gather(now clock.Time, q *message.Request, m *nornv1.ExplainRequest) bool {
	r := c.Routes
	p, ok := r.Partition(m.GetId())
	if !ok {
		return false
	}
	to, ok := r.Reader(p)
	switch {
	case !ok:
		c.Round.Refuse(q.From, refusal.Unreachable(p))
		return true
	case r.Crowds(q.From):
		c.Round.Refuse(q.From, refusal.Crowded(router.MaxWaiting))
		return true
	}
	e := &Explained{Scope: q.Scope}
	g := r.Gather(now, q, e, 0)
	g.Then = func(g *router.Scatter) {
		if e.Err != nil || e.Reply.GetState() != nornv1.State_STATE_READY {
			c.Round.Ready.Replies = append(c.Round.Ready.Replies, message.Reply{To: g.From, Message: e.Reply, Err: e.Err, After: c.Round.After(g.Round)})
			return
		}
		e.Now = c.Round.Now.Wall
		all := r.Gather(c.Round.Now, q, e, router.StatusTimeout-router.ForwardTimeout)
		all.Method = uint16(nornv1.Method_METHOD_WORKERS)
		for _, node := range append(view.MembersOf(c.View.Alive()), c.Self) {
			r.Forward(c.Round.Now, all, node, nil, &nornv1.WorkersRequest{Queue: e.Reply.GetQueue()}, nil)
		}
		r.Finish(all)
	}
	r.Forward(now, g, to, []int{0}, m, nil)
	r.Finish(g)
	return true
}
