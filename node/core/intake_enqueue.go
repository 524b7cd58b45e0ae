package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// enqueuing answers enqueues.
type enqueuing struct {
	*Core
	scope *guard.Scope // of who enqueues, see [message.Request]
}

// enqueue judges every task of the request for itself.
func (c enqueuing) enqueue(now clock.Time, from message.Origin, m *nornv1.EnqueueRequest) (gproto.Message, *proto.Error) {
	if err := convert.CheckTasks(m.GetTasks()); err != nil {
		return nil, err
	}
	if c.shut(from) {
		return nil, c.full()
	}
	if err := c.replication.Writes.Check(m.GetDurability()); err != nil {
		return nil, err
	}
	return c.all(now, m.GetTasks(), nil)
}

// launch enqueues what a cron master has launched.
func (c enqueuing) launch(now clock.Time, r *message.Request, m *nornv1.LaunchRequest) (gproto.Message, *proto.Error) {
	n := len(m.GetTasks())
	switch err := c.replication.Writes.Check(m.GetDurability()); {
	case !r.Routed: // a client
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "this server cannot do that")
	case n == 0 || n > proto.MaxBatchTasks || n != len(m.GetBegun()):
		return nil, proto.Invalid("%d launches with %d times", n, len(m.GetBegun()))
	case len(m.GetUntil()) != 0 && len(m.GetUntil()) != n:
		return nil, proto.Invalid("%d launches with %d bounds", n, len(m.GetUntil()))
	case c.shut(r.From), m.GetSenderFull() && diskLow(c.Core):
		return nil, c.full()
	case err != nil:
		return nil, err
	}
	return c.all(now, m.GetTasks(), m)
}

// shut tells whether this node takes no new tasks from who asks, because its
// disk is nearly full. The parts that other nodes send are taken: those have room,
// and what they take is copied here anyway, as long as there is any. A cron master
// without room says that it has none, see [schedules.Machine.away].
func (c enqueuing) shut(from message.Origin) bool {
	return (diskLow(c.Core) || c.view.Young > 0) && from.Conn < message.PeerConns
}

// writtenTwice is how often what is stored is written before the free space is looked at
// again: to the log, and to a table.
const writtenTwice = 2

// diskLow tells whether the data disk is nearly full.
func diskLow(c *Core) bool { return c.disk < cmp.Or(c.reserve, c.cfg.DiskReserve) }

// full says that the disk has no room for new tasks.
func (c enqueuing) full() *proto.Error {
	if c.view.Young > 0 && !diskLow(c.Core) {
		return c.tooYoung()
	}
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_DISK_FULL, "the disk of node %s is nearly full, %.1f MiB are free, less than disk-reserve (%.1f MiB here): enqueues are refused, completions are taken; free space, ask another node, add one or lower disk-reserve",
		c.cfg.Self.Node, mebibytes(c.disk), mebibytes(cmp.Or(c.reserve, c.cfg.DiskReserve))).Again(convert.DiskRetry)
}

func mebibytes(n uint64) float64 { return float64(n) / (1 << 20) }

// all enqueues tasks; launches is the request of a cron master, nil of others.
func (c enqueuing) all(now clock.Time, tasks []*nornv1.TaskSpec, launches *nornv1.LaunchRequest) (gproto.Message, *proto.Error) {
	n := len(tasks)
	results := make([]nornv1.EnqueueResult, n)
	receipts := make([]nornv1.Receipt, n)
	reply := &nornv1.EnqueueReply{Results: make([]*nornv1.EnqueueResult, n)}
	for i, t := range tasks {
		reply.Results[i] = &results[i]
		name := c.name
		if launches != nil {
			until := int64(0)
			if all := launches.GetUntil(); len(all) > 0 {
				until = all[i]
			}
			name = func(now clock.Time, t *nornv1.TaskSpec) (holder, *proto.Error) {
				return c.launched(now, t, launches.GetBegun()[i], until)
			}
		}
		if err := c.enqueueOne(now, t, name, &results[i], &receipts[i]); err != nil {
			c.round.Refused++
			results[i].Error = err.Proto()
		}
	}
	return reply, nil
}

func (c enqueuing) enqueueOne(now clock.Time, t *nornv1.TaskSpec, name func(clock.Time, *nornv1.TaskSpec) (holder, *proto.Error), res *nornv1.EnqueueResult, receipt *nornv1.Receipt) *proto.Error {
	if err := proto.CheckSpec(t, c.cfg.MaxPayload); err != nil {
		return err
	}
	if err := c.closing(now, t); err != nil {
		return err
	}
	h, err := name(now, t)
	if err != nil {
		return err
	}
	task := h.task
	p := ring.Of(task, len(c.view.Cells))
	v := c.vnodes.Use(p)
	if err := c.queues.room(now, t.GetQueue()); err != nil {
		return err
	}
	if slices.ContainsFunc(t.GetDependencies(), func(b []byte) bool { return id.ID(b) == task }) {
		return proto.Invalid("task %s depends on itself", task)
	}
	spec, err := convert.Enqueued(t, c.queues.retry(t.GetQueue()))
	if err != nil {
		return err
	}
	switch task.Kind() {
	case id.KindKey:
		spec.Admission = c.standing.Clocks.Stamp(now, task)
	case id.KindLaunch:
		spec.Admission = h.begun
	}
	if d := t.GetDelaySeconds(); d > 0 {
		spec.NotBefore = cmp.Or(spec.Admission, task.Nanos()) + int64(proto.Seconds(d))
	}
	if bad := c.admit(now, &spec, p, task); bad != nil {
		return bad
	}
	keys{c.Core}.bar(now, h.past, task)
	got, problem := c.put(now, v, task, &spec, t)
	switch {
	case errors.Is(problem, vnode.ErrConflict) && c.hides(p, task):
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS, "ID %s cannot be used; use a new ID", task)
	case errors.Is(problem, vnode.ErrConflict):
		res.StoredDigest = got.Digest[:]
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS,
			"ID %s is taken by a task with another spec (digest %x); %s", task, got.Digest, takenAdvice(t))
	case !c.round.Check(problem):
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "%v", problem)
	case got.Existed:
		c.stats.Duplicates++
	default:
		c.stats.Enqueued++
		decided.Tell(c.round, message.DecidedEnqueued, message.Decided{Queue: t.GetQueue(), Kind: t.GetKind()})
		c.queues.use(t.GetQueue(), now)
		keys{c.Core}.taken(now, &h)
		if len(spec.Dependencies) > 0 {
			c.dependency.Link(now, task, &spec)
		}
	}
	res.Receipt = receipt
	c.replication.Writes.Bought(res, receipt, task, got.Existed, crdt.Key{Kind: crdt.KindEnqueued})
	if task.Kind() == id.KindKey && spec.KeyWindow == 0 {
		c.replication.Writes.Led(v.Leading(), receipt) // or the next leader gives the key to another one before it hears of this
	}
	return nil
}

// hides tells whether what is stored under an ID is nothing that who enqueues may see. That the
// ID is taken cannot be kept from who has it, and nothing else is told (docs/contributors/adr/0011).
func (c enqueuing) hides(p ring.Partition, task id.ID) bool {
	if c.scope == nil {
		return false
	}
	f, stored := vnode.FactOf(c.round.Tx, p, task, crdt.Key{Kind: crdt.KindEnqueued})
	old, err := crdt.DecodeEnqueued(f.Body)
	return !stored || err != nil || !c.scope.May(guard.See, old.Queue)
}

// put stores a task, or finds it. What a client leaves open of a retry policy is filled in by
// the settings of the moment, which may have changed since it was stored: of a repetition only
// what was asked for is compared.
func (c enqueuing) put(now clock.Time, v *vnode.Vnode, task id.ID, spec *crdt.Enqueued, t *nornv1.TaskSpec) (vnode.Enqueued, error) {
	got, err := v.Enqueue(c.round.Tx, task, spec, now)
	if !errors.Is(err, vnode.ErrConflict) || t.GetRetry() == nil {
		return got, err
	}
	f, stored := vnode.FactOf(c.round.Tx, v.Partition, task, crdt.Key{Kind: crdt.KindEnqueued})
	if !stored {
		return got, err
	}
	old, bad := crdt.DecodeEnqueued(f.Body)
	if bad != nil || old.Retry.FromQueue {
		return got, err
	}
	again := *spec
	again.Retry = convert.Retry(old.Retry, t.GetRetry())
	return v.Enqueue(c.round.Tx, task, &again, now)
}

// name gives a task its ID: the client's, that of its unique key, or a new one.
func (c enqueuing) name(now clock.Time, t *nornv1.TaskSpec) (holder, *proto.Error) {
	if t.GetKey() != "" {
		h, err := keys{c.Core}.resolve(now, t)
		if err == nil {
			err = keys{c.Core}.sure(now, &h)
		}
		return h, err
	}
	if len(t.GetId()) == 0 {
		return holder{task: c.routes.Draw(now)}, nil // for clients that make none
	}
	wall := c.standing.Clocks.Wall(now)
	task, err := convert.CheckID(wall, t.GetId(), c.cfg.Eta)
	if err == nil && wall-task.Nanos() > int64(c.cfg.GCGrace) && !vnode.Known(c.round.Tx, ring.Of(task, len(c.view.Cells)), task) {
		err = proto.Refused(nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW,
			"ID %s is older than gc-grace (%v) and not known here: it may have been finished and forgotten; enqueue under a new ID", task, c.cfg.GCGrace)
	}
	return holder{task: task}, err
}

// launched is the ID of a launch, which was begun at a wall ns. What is known is so for ever;
// what is not is not made after a wall ns, until (0: none), or when it may have been forgotten.
func (c enqueuing) launched(now clock.Time, t *nornv1.TaskSpec, begun, until int64) (holder, *proto.Error) {
	if len(t.GetId()) != id.Size || id.ID(t.GetId()).Kind() != id.KindLaunch || begun <= 0 {
		return holder{}, proto.Invalid("this is no launch")
	}
	task := id.ID(t.GetId())
	wall, bad := c.standing.Clocks.Wall(now), ""
	switch {
	case wall-begun > int64(c.cfg.GCGrace):
		bad = fmt.Sprintf("launch %s was begun more than gc-grace (%v) ago and is not known here: it may have been finished and forgotten; look at the schedule's history, and trigger it if it is to run", task, c.cfg.GCGrace)
	case until != 0 && wall > until:
		bad = fmt.Sprintf("launch %s was not enqueued within its window or deadline, up to %s", task, time.Unix(0, until).UTC().Format(time.RFC3339))
	}
	if bad != "" && !vnode.Known(c.round.Tx, ring.Of(task, len(c.view.Cells)), task) {
		return holder{}, proto.Refused(nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW, "%s", bad)
	}
	return holder{task: task, begun: begun}, nil
}

// admit judges a task by its queue and by what it depends on. What is there
// already is let through: the answer to a repeated send does not change.
func (c enqueuing) admit(now clock.Time, spec *crdt.Enqueued, p ring.Partition, task id.ID) *proto.Error {
	err := c.queues.admit(spec.Queue, spec.Size())
	if err == nil {
		err = c.dependency.Admit(now, spec.Dependencies)
	}
	if err != nil && vnode.Known(c.round.Tx, p, task) {
		return nil
	}
	return err
}

// takenAdvice says what to do when an ID is taken.
func takenAdvice(t *nornv1.TaskSpec) string {
	if t.GetKey() != "" {
		return "its unique key is taken until that task is finished, or its window is over"
	}
	return "use a new ID"
}
