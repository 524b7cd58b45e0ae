package schedules

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
const Conn = message.PartConn + 1

// Machine connects the cron master of this node with the register, which keeps
// what it decides, and with the tasks that it launches. It does what users ask about
// schedules, too, on any node. The register decides: each change is worked out from what it
// says now, and written if nobody was faster.
type Machine struct {
	Env
	Cron *cron.Machine
	// wall and mono are when it wants to be looked at.
	wall, mono int64
	number     uint64 // of the last request it has made
	// refused is the number of the last request when a node has last not enqueued what was
	// sent to it because the disk of this one is nearly full.
	refused map[register.Member]uint64
}

// New makes one that has launched nothing.
func New(env Env) *Machine {
	return &Machine{Env: env, wall: clock.Never, mono: clock.Never, refused: make(map[register.Member]uint64), Cron: cron.New(cron.Config{
		Policy: env.Policy, Self: env.Self, Cluster: env.Cluster, Grace: env.Grace,
		Nonce: func() uint64 { return max(1, env.Rand.Uint64()) }, Barred: rights.Barred,
	})}
}

// Due is when it wants to be looked at, wall and mono ns.
func (k *Machine) Due() (wall, mono int64) { return k.wall, k.mono }

// Stats are its counters.
func (k *Machine) Stats(now clock.Time) cron.Stats { return k.Cron.Stats(k.Time(now)) }

// Audit tells what of the master's books does not agree, see [cron.Audit]. It is for tests.
func (k *Machine) Audit() error { return cron.Audit(k.Cron) }

// Lead hears whether this node leads the register's group.
func (k *Machine) Lead(now clock.Time, leads bool) { k.Cron.Lead(k.Time(now), leads) }

// Observe takes over what the register says of schedules.
func (k *Machine) Observe(now clock.Time, s *register.State) { k.Cron.Observe(k.Time(now), s) }

// Heard hears how a task has ended that is kept elsewhere.
func (k *Machine) Heard(now clock.Time, task id.ID, outcome crdt.State) {
	k.Cron.Finished(k.Time(now), task, outcome)
}

// Time is what schedules go by, which may not be what this node's clock shows.
func (k *Machine) Time(now clock.Time) clock.Time { return k.Standing.Clocks.Agreed(now) }

// Work does what is due.
func (k *Machine) Work(real clock.Time) {
	now := k.Time(real)
	if k.Node.Closed() { // the successor goes on
		k.wall, k.mono = clock.Never, clock.Never
		return
	}
	out := k.Cron.Work(now)
	for i := range out.Commits {
		commit := &out.Commits[i]
		k.Node.Send(commit.Request, func(now clock.Time, r register.Result) { k.Cron.Committed(k.Time(now), commit, r) })
	}
	for i := range out.Launches {
		k.launch(real, &out.Launches[i])
	}
	for i := range out.Cancels {
		k.cancel(real, &out.Cancels[i])
	}
	for _, f := range out.Finds {
		k.Find(real, f.Task, nornv1.ReadLevel_READ_LEVEL_QUORUM, func(now clock.Time, err *proto.Error) { k.Cron.Found(k.Time(now), f.Tag, err) })
	}
	for _, task := range out.Ask {
		k.ask(real, task)
	}
	for _, task := range out.Seek {
		k.seek(real, task)
	}
	if k.wall, k.mono = k.Cron.Next(now); k.wall != clock.Never {
		k.wall += real.Wall - now.Wall // it wakes by its own clock
	}
}

// Origin names a request of the master.
func (k *Machine) Origin(m nornv1.Method) message.Origin {
	k.number++
	return message.Origin{Conn: Conn, Request: k.number, Method: uint16(m)}
}

// launch has tasks enqueued where they belong.
func (k *Machine) launch(now clock.Time, l *cron.Launches) {
	n, list := len(l.Request.GetTasks()), LaunchItems(l.Request)
	away := k.away(l.Request, &list)
	k.Routes.Do(now, k.Origin(nornv1.Method_METHOD_LAUNCH), list, l.Request, func(now clock.Time, m gproto.Message, err *proto.Error) {
		errs := enqueueErrors(n, m, err)
		for i, to := range away { // Any order: it is the same request.
			if errs[i] != nil {
				k.refused[to] = k.number
			}
		}
		for _, task := range k.Cron.Launched(k.Time(now), l.Tag, errs) {
			k.ask(now, task)
		}
	})
}

// away has others enqueue what this node keeps, where its disk is nearly full: clients are
// refused and go to another node then, and schedules are not to depend on the disk of whoever
// is their master. It gives who gets which.
func (k *Machine) away(m *nornv1.LaunchRequest, list *router.List) map[int]register.Member {
	r := k.Routes
	if !k.Node.DiskLow() {
		return nil
	}
	away := make(map[int]register.Member)
	of := make(map[ring.Partition]register.Member)
	for i := range list.N {
		p, ok := r.Partition(list.Task(i))
		if to, found := r.Keeper(p); !ok || !found || to != k.Self {
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
func (k *Machine) other(p ring.Partition) (to register.Member, found bool) {
	for _, m := range k.View.Cells[p].Cohort {
		if m == k.Self || !k.View.Serves(m) {
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

// LaunchItems are the tasks of a launch request, each for itself.
func LaunchItems(m *nornv1.LaunchRequest) router.List {
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
func (k *Machine) cancel(now clock.Time, l *cron.Cancels) {
	m := &nornv1.CancelRequest{Reason: "replaced by the next launch of its schedule"}
	for _, task := range l.Tasks {
		m.Ids = append(m.Ids, task.Bytes())
	}
	list := k.Node.Items(now, m)
	k.Routes.Do(now, k.Origin(nornv1.Method_METHOD_CANCEL), list, m, func(now clock.Time, m gproto.Message, bad *proto.Error) {
		if reply, ok := m.(*nornv1.WriteReply); ok && bad == nil {
			for _, res := range reply.GetResults() {
				if e := res.GetError(); e != nil && bad == nil {
					bad = proto.FromProto(e)
				}
			}
		}
		k.Cron.Cancelled(k.Time(now), l.Tag, bad)
	})
}

// ask has the end of a task told to the master, by itself or by who keeps it.
func (k *Machine) ask(now clock.Time, task id.ID) {
	if !k.Dependency.Holds(task) {
		k.Dependency.Watches.Ask(task)
		return
	}
	outcome, err := k.Dependency.Outcome(task)
	if k.Round.Check(err) && outcome != crdt.StateUnknown {
		k.Cron.Finished(k.Time(now), task, outcome)
	}
}

// seek looks for a task that may be forgotten.
func (k *Machine) seek(now clock.Time, task id.ID) {
	k.Find(now, task, nornv1.ReadLevel_READ_LEVEL_QUORUM, func(now clock.Time, err *proto.Error) {
		if err != nil && err.Kind == nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
			k.Cron.Forgotten(k.Time(now), task)
		}
	})
}

// Find asks a majority of a task's replicas for it, where each enqueued task is found that
// is not forgotten.
func (k *Machine) Find(now clock.Time, task id.ID, level nornv1.ReadLevel, then func(clock.Time, *proto.Error)) {
	m := &nornv1.GetRequest{Id: task.Bytes(), Consistency: &nornv1.Consistency{Level: level}}
	one := router.List{N: 1, Task: func(int) []byte { return m.GetId() }, Join: &router.Whole{}}
	k.Routes.Do(now, k.Origin(nornv1.Method_METHOD_GET), one, m, func(now clock.Time, _ gproto.Message, err *proto.Error) { then(now, err) })
}

// Ended hears from a vnode, or from another node, that a task is finished.
func (k *Machine) Ended(task id.ID) {
	if !k.Cron.Watches(task) {
		return
	}
	outcome, err := k.Dependency.Outcome(task)
	if k.Round.Check(err) && outcome != crdt.StateUnknown {
		k.Cron.Finished(k.Time(k.Round.Now), task, outcome)
	}
}
