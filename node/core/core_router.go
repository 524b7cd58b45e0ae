package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/history"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/scope"
	"github.com/norn-dev/norn/node/core/view"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// request handles one request, or sends it on its way to where it can be
// handled, and holds its answer back while it waits for copies.
func (c *Core) request(now clock.Time, r *message.Request) {
	if r.Deadline != 0 && r.Deadline <= now.Mono { // before others are given what is left of it
		c.taken++
		c.round.Refuse(r.From, proto.Refused(nornv1.ErrorKind_ERROR_KIND_DEADLINE_EXCEEDED, "the request's deadline passed before it was looked at"))
		return
	}
	if c.view.Joined && c.closed == nil && c.route(now, r) {
		return
	}
	if r.Scope != nil && c.view.Joined && c.closed == nil {
		known := scope.Known{View: c.round.Tx, Vnodes: c.vnodes, Partitions: len(c.view.Cells)}
		refused, left, err := scope.Judge(known, r)
		if !c.round.Check(err) || c.replication.Reads.ReadBeforeDecide(now, r, refused) {
			return
		}
		if refused != nil && r.Unsure { // which has come out only now
			if refused, left, err = scope.Judge(known, r); !c.round.Check(err) {
				return
			}
		}
		if refused != nil {
			list, many := itemsOf(c, now, r.Body)
			if !many || list.N != len(refused) {
				c.round.Refuse(r.From, refused[0])
				return
			}
			g := c.routes.Gather(now, r, list.Join, 0)
			for i, e := range refused {
				if e != nil {
					list.Join.(denier).Deny(i, e)
				}
			}
			if g.Scope = nil; len(left) > 0 {
				c.routes.Forward(now, g, c.cfg.Self, left, list.Some(left), nil)
			}
			c.routes.Finish(g)
			return
		}
	}
	first := len(c.round.Ready.Replies)
	c.replication.Writes.Handles()
	m, err := c.handle(now, r)
	c.round.Done(r.From, m, err)
	c.replication.Writes.AwaitCopies(now, r, first)
}

// route sends a request on its way, and tells whether it did: else this node
// answers all of it.
func (c *Core) route(now clock.Time, q *message.Request) bool {
	if c.view.Alone || q.Routed {
		return false
	}
	if m, adds := q.Body.(*nornv1.EnqueueRequest); adds && ((enqueuing{Core: c}).shut(q.From) || convert.CheckTasks(m.GetTasks()) != nil) {
		return false // refused as a whole: so that the client asks another node, or because of what its parts have together
	}
	if list, ok := itemsOf(c, now, q.Body); ok {
		switch q.Body.(type) {
		case *nornv1.UpdateRequest: // whose claim it is is known best to the leader
			if q.By != "" {
				list.Best = func(int) bool { return true }
			}
		case *nornv1.CancelRequest: // the way that it goes is not to tell whether there is a task
			if q.Scope != nil {
				list.Best = func(int) bool { return true }
			}
		}
		return c.routes.Split(now, q, list)
	}
	switch m := q.Body.(type) {
	case *nornv1.GetRequest:
		return c.routes.Pass(now, q, m.GetId(), 0)
	case *nornv1.ExplainRequest:
		return explaining(c, now, q, m)
	case *nornv1.LogRequest:
		wait := proto.Seconds(m.GetWaitSeconds())
		return convert.CheckWait(m) == nil && c.routes.Pass(now, q, m.GetId(), wait) // or nobody could be asked for as long
	case *nornv1.KeyRequest:
		return c.routes.Pass(now, q, keyHome(c, now, m.GetQueue(), m.GetKey(), m.GetWindowSeconds()), 0)
	case *nornv1.RestoreRequest:
		return c.routes.Pass(now, q, m.GetTasks()[:min(len(m.GetTasks()), id.Size)], 0) // all are of one partition, or it is refused
	case *nornv1.BackupRequest:
		who, join, ask := c.operator.BackupFrom(m)
		if who == nil || c.routes.Crowds(q.From) {
			return false
		}
		g := c.routes.Gather(now, q, join, 0)
		g.Then = c.operator.Joined(q, join)
		c.routes.Each(now, g, who, ask)
		c.routes.Finish(g)
		return true
	case *nornv1.ListRequest:
		return c.routes.ScatterAll(now, q, &query.Lists{Limit: int(m.GetLimit())})
	case *nornv1.CountRequest:
		return c.routes.ScatterAll(now, q, &query.Counts{})
	case *nornv1.QueuesRequest:
		return c.routes.ScatterAll(now, q, c.queues.join(m))
	case *nornv1.StatusRequest:
		return statusOf(c, now, q, m)
	case *nornv1.HistoryRequest:
		whole, err := history.Check(m, now.Wall)
		if err != nil || c.routes.Crowds(q.From) {
			return false // refused there, or this node answers for itself
		}
		g := c.routes.Gather(now, q, &history.Sum{Most: int(whole.GetBusiest())}, statusTimeout-router.ForwardTimeout)
		for _, node := range append(view.MembersOf(c.view.Alive()), c.cfg.Self) {
			c.routes.Forward(now, g, node, nil, whole, nil)
		}
		c.routes.Finish(g)
		return true
	}
	return false
}

// denier is a [router.Joiner] that takes the answer to one item by itself.
type denier interface{ Deny(i int, err *proto.Error) }

// routing is what a router has this node do.
type routing struct{ *Core }

// newRouter sends the requests of a node on their way. What is opened later is given to it
// then.
func newRouter(c *Core) *router.Machine {
	return router.New(router.Env{Self: c.cfg.Self, Random: c.cfg.Rand.Uint64, IDs: id.NewGenerator(c.cfg.Rand.Uint32(), c.cfg.Rand.Uint64), View: c.view, Round: c.round, Node: routing{c}})
}

// Request handles a part of a request, or one of another node.
func (c routing) Request(now clock.Time, r *message.Request) { c.request(now, r) }

// Cancel withdraws one.
func (c routing) Cancel(from message.Origin) { c.cancel(from) }

// Answered takes the answer to what a worker's session has asked for.
func (c routing) Answered(a *message.Reply) { c.sessions.Asks.Answered(a) }

// Dropped notes grants of this node that nobody will hear of.
func (c routing) Dropped(grants []message.GrantRef) { c.dropped = append(c.dropped, grants...) }
