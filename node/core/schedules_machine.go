package core

import (
	"slices"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/cron"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/guard/rights"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// cronConn is the connection of what the cron master asks for.
const cronConn = message.PartConn + 1

// crons connects the cron master of this node with the register, which keeps
// what it decides, and with the tasks that it launches.
type crons struct {
	c *Core
	m *cron.Machine
	// wall and mono are when it wants to be looked at.
	wall, mono int64
	number     uint64 // of the last request it has made
	// refused is the number of the last request when a node has last not enqueued what was
	// sent to it because the disk of this one is nearly full.
	refused map[register.Member]uint64
}

func newCrons(c *Core) *crons {
	return &crons{c: c, wall: clock.Never, mono: clock.Never, refused: make(map[register.Member]uint64), m: cron.New(cron.Config{
		Self: c.cfg.Self, Cluster: [16]byte(c.cfg.Cluster.ID), Grace: c.cfg.GCGrace,
		Nonce: func() uint64 { return max(1, c.cfg.Rand.Uint64()) }, Barred: rights.Barred,
	})}
}

// time is what schedules go by, which may not be what this node's clock shows.
func (k *crons) time(now clock.Time) clock.Time { return k.c.standing.Clocks.Agreed(now) }

// work does what is due.
func (k *crons) work(real clock.Time) {
	now := k.time(real)
	if k.c.closed != nil { // the successor goes on
		k.wall, k.mono = clock.Never, clock.Never
		return
	}
	out := k.m.Work(now)
	for i := range out.Commits {
		commit := &out.Commits[i]
		k.c.send(registerRequest{then: func(now clock.Time, r register.Result) { k.m.Committed(k.time(now), commit, r) }}, commit.Request)
	}
	for i := range out.Launches {
		k.launch(real, &out.Launches[i])
	}
	for i := range out.Cancels {
		k.cancel(real, &out.Cancels[i])
	}
	for _, f := range out.Finds {
		k.find(real, f.Task, nornv1.ReadLevel_READ_LEVEL_QUORUM, func(now clock.Time, err *proto.Error) { k.m.Found(k.time(now), f.Tag, err) })
	}
	for _, task := range out.Ask {
		k.ask(real, task)
	}
	for _, task := range out.Seek {
		k.seek(real, task)
	}
	if k.wall, k.mono = k.m.Next(now); k.wall != clock.Never {
		k.wall += real.Wall - now.Wall // it wakes by its own clock
	}
}

// origin names a request of the master.
func (k *crons) origin(m nornv1.Method) message.Origin {
	k.number++
	return message.Origin{Conn: cronConn, Request: k.number, Method: uint16(m)}
}

// launch has tasks enqueued where they belong.
func (k *crons) launch(now clock.Time, l *cron.Launches) {
	n, list := len(l.Request.GetTasks()), launchItems(l.Request)
	away := k.away(l.Request, &list)
	k.c.routes.Do(now, k.origin(nornv1.Method_METHOD_LAUNCH), list, l.Request, func(now clock.Time, m gproto.Message, err *proto.Error) {
		errs := enqueueErrors(n, m, err)
		for i, to := range away { // Any order: it is the same request.
			if errs[i] != nil {
				k.refused[to] = k.number
			}
		}
		for _, task := range k.m.Launched(k.time(now), l.Tag, errs) {
			k.ask(now, task)
		}
	})
}

// away has others enqueue what this node keeps, where its disk is nearly full: clients are
// refused and go to another node then, and schedules are not to depend on the disk of whoever
// is their master. It gives who gets which.
func (k *crons) away(m *nornv1.LaunchRequest, list *router.List) map[int]register.Member {
	r := k.c.routes
	if !diskLow(k.c) {
		return nil
	}
	away := make(map[int]register.Member)
	of := make(map[ring.Partition]register.Member)
	for i := range list.N {
		p, ok := r.Partition(list.Task(i))
		if to, found := r.Keeper(p); !ok || !found || to != k.c.cfg.Self {
			continue
		}
		if to, found := k.other(p); found {
			away[i], of[p] = to, to
		}
	}
	list.Find = func(p ring.Partition) (register.Member, bool) {
		if to, ok := of[p]; ok {
			return to, true
		}
		return r.Keeper(p)
	}
	m.SenderFull = len(away) > 0
	some := list.Some
	list.Some = func(idx []int) gproto.Message {
		part := some(idx).(*nornv1.LaunchRequest)
		part.SenderFull = slices.ContainsFunc(idx, func(i int) bool { return away[i] != register.Member{} })
		return part
	}
	return away
}

// other is who enqueues in a partition instead of this node: whoever has refused longest
// ago, if at all.
func (k *crons) other(p ring.Partition) (to register.Member, found bool) {
	for _, m := range k.c.view.Cells[p].Cohort {
		if m == k.c.cfg.Self || !k.c.view.Serves(m) {
			continue
		}
		if !found || k.refused[m] < k.refused[to] {
			to, found = m, true
		}
	}
	return to, found
}

// enqueueErrors are the errors of an enqueue of n tasks, nil where there is none.
func enqueueErrors(n int, m gproto.Message, err *proto.Error) []*proto.Error {
	all := make([]*proto.Error, n)
	results := []*nornv1.EnqueueResult(nil)
	if reply, ok := m.(*nornv1.EnqueueReply); ok {
		results = reply.GetResults()
	}
	for i := range all {
		switch {
		case err != nil:
			all[i] = err
		case i >= len(results):
			all[i] = proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "there is no answer for the task")
		case results[i].GetError() != nil:
			all[i] = proto.FromProto(results[i].GetError())
		}
	}
	return all
}

// launchItems are the tasks of a launch request, each for itself.
func launchItems(m *nornv1.LaunchRequest) router.List {
	all := m.GetTasks()
	return router.List{
		N: len(all), Task: func(i int) []byte { return all[i].GetId() },
		Some: func(idx []int) gproto.Message {
			some := &nornv1.LaunchRequest{Tasks: router.Pick(all, idx), Begun: router.Pick(m.GetBegun(), idx), Durability: m.GetDurability()}
			if len(m.GetUntil()) > 0 {
				some.Until = router.Pick(m.GetUntil(), idx)
			}
			return some
		},
		Join: router.EnqueueResults(len(all)),
	}
}

// cancel ends the tasks that others take the place of.
func (k *crons) cancel(now clock.Time, l *cron.Cancels) {
	m := &nornv1.CancelRequest{Reason: "replaced by the next launch of its schedule"}
	for _, task := range l.Tasks {
		m.Ids = append(m.Ids, task.Bytes())
	}
	list, _ := writesOf(k.c, now, m)
	k.c.routes.Do(now, k.origin(nornv1.Method_METHOD_CANCEL), list, m, func(now clock.Time, m gproto.Message, bad *proto.Error) {
		if reply, ok := m.(*nornv1.WriteReply); ok && bad == nil {
			for _, res := range reply.GetResults() {
				if e := res.GetError(); e != nil && bad == nil {
					bad = proto.FromProto(e)
				}
			}
		}
		k.m.Cancelled(k.time(now), l.Tag, bad)
	})
}

// ask has the end of a task told to the master, by itself or by who keeps it.
func (k *crons) ask(now clock.Time, task id.ID) {
	c := k.c
	if !c.dependency.Holds(task) {
		c.dependency.Watches.Ask(task)
		return
	}
	outcome, err := c.dependency.Outcome(task)
	if c.round.Check(err) && outcome != crdt.StateUnknown {
		k.m.Finished(k.time(now), task, outcome)
	}
}

// seek looks for a task that may be forgotten.
func (k *crons) seek(now clock.Time, task id.ID) {
	k.find(now, task, nornv1.ReadLevel_READ_LEVEL_QUORUM, func(now clock.Time, err *proto.Error) {
		if err != nil && err.Kind == nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			k.m.Forgotten(k.time(now), task)
		}
	})
}

// find asks a majority of a task's replicas for it, where each enqueued task is found that
// is not forgotten.
func (k *crons) find(now clock.Time, task id.ID, level nornv1.ReadLevel, then func(clock.Time, *proto.Error)) {
	m := &nornv1.GetRequest{Id: task.Bytes(), Consistency: &nornv1.Consistency{Level: level}}
	one := router.List{N: 1, Task: func(int) []byte { return m.GetId() }, Join: &router.Whole{}}
	k.c.routes.Do(now, k.origin(nornv1.Method_METHOD_GET), one, m, func(now clock.Time, _ gproto.Message, err *proto.Error) { then(now, err) })
}

// ended hears from a vnode, or from another node, that a task is finished.
func (k *crons) ended(task id.ID) {
	if !k.m.Watches(task) {
		return
	}
	outcome, err := k.c.dependency.Outcome(task)
	if k.c.round.Check(err) && outcome != crdt.StateUnknown {
		k.m.Finished(k.time(k.c.round.Now), task, outcome)
	}
}
