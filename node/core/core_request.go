package core

import (
	"time"

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
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"

	gproto "google.golang.org/protobuf/proto"
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
		known := scope.Known{Policy: c.cfg.Policy.Scope, View: c.round.Tx, Vnodes: c.vnodes, Partitions: len(c.view.Cells)}
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
			list, many := c.lists().of(now, r.Body)
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
	if m, adds := q.Body.(*nornv1.EnqueueRequest); adds && (c.intake.Shut(q.From) || convert.CheckTasks(m.GetTasks()) != nil) {
		return false // refused as a whole: so that the client asks another node, or because of what its parts have together
	}
	if list, ok := c.lists().of(now, q.Body); ok {
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
		return c.explain.Gather(now, q, m)
	case *nornv1.LogRequest:
		wait := proto.Seconds(m.GetWaitSeconds())
		return convert.CheckWait(m) == nil && c.routes.Pass(now, q, m.GetId(), wait) // or nobody could be asked for as long
	case *nornv1.KeyRequest:
		return c.routes.Pass(now, q, c.keys.Home(now, m.GetQueue(), m.GetKey(), m.GetWindowSeconds()), 0)
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
		return c.routes.ScatterAll(now, q, &query.Lists{Policy: c.cfg.Policy.Query, Limit: int(m.GetLimit())})
	case *nornv1.CountRequest:
		return c.routes.ScatterAll(now, q, &query.Counts{})
	case *nornv1.QueuesRequest:
		return c.routes.ScatterAll(now, q, c.queues.Join(m))
	case *nornv1.StatusRequest:
		return c.status.Gather(now, q, m)
	case *nornv1.HistoryRequest:
		whole, err := history.Check(m, now.Wall)
		if err != nil || c.routes.Crowds(q.From) {
			return false // refused there, or this node answers for itself
		}
		g := c.routes.Gather(now, q, &history.Sum{Most: int(whole.GetBusiest())}, router.StatusTimeout-router.ForwardTimeout)
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

// handle carries out a request that is for this node, and gives its answer, an error, or neither
// while the answer is still to come.
func (c *Core) handle(now clock.Time, r *message.Request) (gproto.Message, *proto.Error) {
	c.taken++
	if c.closed != nil && !c.shows(r) {
		return nil, c.closed
	}
	if !c.view.Joined {
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the node is starting; try again").Again(50 * time.Millisecond)
	}
	if c.replication.Reads.ReadBeforeDecide(now, r, nil) || c.replication.Confirms.ReadIndex(now, r) {
		return nil, nil
	}
	c.replication.Reads.TooFewAnswered = r.Unsure
	switch m := r.Body.(type) {
	case *nornv1.EnqueueRequest:
		return c.intake.Enqueue(now, r, m)
	case *nornv1.LaunchRequest:
		return c.intake.Launch(now, r, m)
	case *nornv1.ClaimRequest:
		return c.dispatch.Claim(now, r, m)
	case *nornv1.RenewRequest:
		return c.settle.Renew(now, r, m)
	case *nornv1.UpdateRequest:
		return c.settle.Update(now, r, m)
	case *nornv1.CompleteRequest:
		return c.settle.Complete(now, r, m)
	case *nornv1.FailRequest:
		return c.settle.Fail(now, r, m)
	case *nornv1.ReleaseRequest:
		return c.settle.Release(now, r, m)
	case *nornv1.WorkRequest:
		return c.routes.WorkRequest(now, r, m)
	case *nornv1.CancelRequest:
		return c.intake.Cancel(now, m)
	case *nornv1.RetryRequest:
		return c.intake.Retry(now, m)
	case *nornv1.BulkRequest:
		return c.intake.ByFilter(now, r, m)
	}
	return c.other(now, r)
}

// other carries out what neither adds nor finishes work.
func (c *Core) other(now clock.Time, r *message.Request) (gproto.Message, *proto.Error) {
	if e := c.moved(r); e != nil {
		return nil, e
	}
	switch m := r.Body.(type) {
	case *nornv1.GetRequest:
		if takes, err := c.replication.Reads.Get(now, r, m); takes || err != nil {
			return nil, err
		}
		return c.round.Read(query.NewGet(r, m, len(c.view.Cells)))
	case *nornv1.ListRequest:
		return c.round.Read(c.cfg.Policy.Query.NewList(r, m, query.About(c.view, c.vnodes, r), len(c.view.Cells)))
	case *nornv1.CountRequest:
		return c.queues.Counts(r, m)
	case *nornv1.LogRequest:
		return c.log(now, r, m)
	case *nornv1.StatusRequest:
		return c.status.Status(now, r, m)
	case *nornv1.ClusterRequest:
		return c.operator.Handle(now, r, m)
	case *nornv1.VerifyRequest:
		return c.operator.Verify(now, r, m)
	case *nornv1.BackupRequest:
		return c.operator.Page(r, m)
	case *nornv1.RestoreRequest:
		return c.operator.Restore(now, r, m)
	case *nornv1.HistoryRequest:
		return c.remembered(now, r, m)
	case *nornv1.ExplainRequest:
		return c.round.Read(c.explain.Read(r, m))
	case *nornv1.KeyRequest:
		return c.keys.Answer(now, m)
	case *nornv1.QueuesRequest:
		return c.queues.List(now, r, m)
	case *nornv1.SetQueueRequest:
		return c.queues.Change(r.From, m, false)
	case *nornv1.SchedulesRequest:
		return c.schedules.List(r, m)
	case *nornv1.ChangeSchedulesRequest:
		return c.schedules.Change(r, m)
	case *nornv1.SessionRequest:
		return c.sessions.Request(now, r, m)
	case *nornv1.WorkersRequest:
		return c.sessions.List(now, r, m)
	case *nornv1.SetWorkerRequest:
		return c.sessions.Set(now, r, m)
	case *nornv1.LinesRequest:
		return c.sessions.Lines(now, r, m)
	}
	return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "this server cannot do that")
}

// shows tells whether a request is answered all the same: the others show in
// their status what a removed node has still to hand over, and what it keeps aside.
func (c *Core) shows(r *message.Request) bool {
	_, status := r.Body.(*nornv1.StatusRequest)
	return status && r.Routed && c.view.Dismissed
}

// moved refuses a read that another node has sent here about a partition that
// this node does not keep, or not any longer: who sent it has not heard of that
// yet. What is here may be old, or on its way out, and no part of a quorum: not
// to know a task here says nothing. Of a partition that is being deleted nothing
// is read, whoever asks. nil: it may be answered.
func (c *Core) moved(r *message.Request) *proto.Error {
	foreign := r.Routed && r.From.Conn >= message.PeerConns
	if !foreign && len(c.view.Dropping) == 0 {
		return nil
	}
	var about []ring.Partition
	one := func(task []byte) {
		if p, ok := c.routes.Partition(task); ok {
			about = append(about, p)
		}
	}
	switch m := r.Body.(type) {
	case *nornv1.GetRequest:
		one(m.GetId())
	case *nornv1.ExplainRequest:
		one(m.GetId())
	case *nornv1.LogRequest:
		one(m.GetId())
	case *nornv1.KeyRequest:
		one(c.keys.Home(c.round.Now, m.GetQueue(), m.GetKey(), m.GetWindowSeconds()))
	case *nornv1.ListRequest, *nornv1.CountRequest, *nornv1.QueuesRequest:
		about = r.Partitions
	}
	for _, p := range about {
		if foreign && c.view.Elsewhere(p) || c.view.Deleting(p) {
			e := c.transfer.Gone(p)
			e.Guarantee = "replicas read"
			return e
		}
	}
	return nil
}

// log answers with lines of a log, or waits for some.
func (c *Core) log(now clock.Time, r *message.Request, m *nornv1.LogRequest) (gproto.Message, *proto.Error) {
	task, bad := convert.ReadID(m.GetId())
	wait := proto.Seconds(m.GetWaitSeconds())
	switch {
	case bad != nil:
	case convert.CheckWait(m) != nil:
		bad = convert.CheckWait(m)
	case wait > 0:
		bad = c.dispatch.RoomToWait(r.From.Conn, 0, r.Scope.Tenant())
	}
	if bad != nil {
		return nil, bad
	}
	c.logs.Follow(now, r, m, task, c.replication.Reads.TooFewAnswered)
	return nil, nil
}

// remembered answers a request for what was decided when, as far as this node remembers it: the
// runner of the core does that for it. Others are asked in [router.Machine.take].
func (c *Core) remembered(now clock.Time, r *message.Request, m *nornv1.HistoryRequest) (gproto.Message, *proto.Error) {
	m, err := history.Check(m, now.Wall)
	if err == nil && c.cfg.History == nil {
		err = proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "this node remembers nothing")
	}
	return c.round.Read(message.Read{From: r.From, Func: func(store.View, clock.Time) (gproto.Message, *proto.Error, error) {
		return c.cfg.History(m), nil, nil
	}}, err)
}

// lists finds the parts of requests that are lists.
func (c *Core) lists() lists { return lists{c.intake, c.settle, c.replication.Reads} }
