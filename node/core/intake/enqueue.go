package intake

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/bootstrap"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/uniquekeys"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// Enqueue judges every task of the request for itself.
func (c *Machine) Enqueue(now clock.Time, r *message.Request, m *nornv1.EnqueueRequest) (gproto.Message, *proto.Error) {
	if err := convert.CheckTasks(m.GetTasks()); err != nil {
		return nil, err
	}
	if c.Shut(r.From) {
		return nil, c.Full()
	}
	if err := c.Replication.Writes.Check(m.GetDurability()); err != nil {
		return nil, err
	}
	return c.all(now, r.Scope, m.GetTasks(), nil)
}

// Launch enqueues what a cron master has launched.
func (c *Machine) Launch(now clock.Time, r *message.Request, m *nornv1.LaunchRequest) (gproto.Message, *proto.Error) {
	n := len(m.GetTasks())
	switch err := c.Replication.Writes.Check(m.GetDurability()); {
	case !r.Routed: // a client
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "this server cannot do that")
	case n == 0 || n > proto.MaxBatchTasks || n != len(m.GetBegun()):
		return nil, proto.Invalid("%d launches with %d times", n, len(m.GetBegun()))
	case len(m.GetUntil()) != 0 && len(m.GetUntil()) != n:
		return nil, proto.Invalid("%d launches with %d bounds", n, len(m.GetUntil()))
	case c.Shut(r.From), m.GetSenderFull() && c.Disk.Low():
		return nil, c.Full()
	case err != nil:
		return nil, err
	}
	return c.all(now, nil, m.GetTasks(), m)
}

// Shut tells whether this node takes no new tasks from who asks, because its
// disk is nearly full. The parts that other nodes send are taken: those have room,
// and what they take is copied here anyway, as long as there is any. A cron master
// without room says that it has none, see [schedules.Machine.away].
func (c *Machine) Shut(from message.Origin) bool {
	return (c.Disk.Low() || c.View.Young > 0) && from.Conn < message.PeerConns
}

// Full says that the disk has no room for new tasks.
func (c *Machine) Full() *proto.Error {
	if c.View.Young > 0 && !c.Disk.Low() {
		return bootstrap.TooYoung(c.View)
	}
	return c.Disk.Full(c.Self.Node)
}

// all enqueues tasks; launches is the request of a cron master, nil of others.
func (c *Machine) all(now clock.Time, scope *guard.Scope, tasks []*nornv1.TaskSpec, launches *nornv1.LaunchRequest) (gproto.Message, *proto.Error) {
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
			name = func(now clock.Time, t *nornv1.TaskSpec) (uniquekeys.Holder, *proto.Error) {
				return c.launched(now, t, launches.GetBegun()[i], until)
			}
		}
		if err := c.enqueueOne(now, scope, t, name, &results[i], &receipts[i]); err != nil {
			c.Round.Refused++
			results[i].Error = err.Proto()
		}
	}
	return reply, nil
}

// enqueueOne judges one task and stores it. name finds its ID. What is wrong with the task
// itself is said first, whether it is known or not; limits and dependencies do not apply to a
// task that is known ([Machine.admit]). res and receipt are filled in where it returns nil.
func (c *Machine) enqueueOne(now clock.Time, scope *guard.Scope, t *nornv1.TaskSpec, name func(clock.Time, *nornv1.TaskSpec) (uniquekeys.Holder, *proto.Error), res *nornv1.EnqueueResult, receipt *nornv1.Receipt) *proto.Error {
	if err := proto.CheckSpec(t, c.MaxPayload); err != nil {
		return err
	}
	if err := c.closing(now, t); err != nil {
		return err
	}
	h, err := name(now, t)
	if err != nil {
		return err
	}
	task := h.Task
	p := ring.Of(task, len(c.View.Cells))
	v := c.Partitions.Use(p)
	if slices.ContainsFunc(t.GetDependencies(), func(b []byte) bool { return id.ID(b) == task }) {
		return proto.Invalid("task %s depends on itself", task)
	}
	spec, err := convert.Enqueued(t, c.Queues.Retries(t.GetQueue()))
	if err != nil {
		return err
	}
	switch task.Kind() {
	case id.KindKey:
		spec.Admission = c.Standing.Clocks.Stamp(now, task)
	case id.KindLaunch:
		spec.Admission = h.Begun
	}
	if d := t.GetDelaySeconds(); d > 0 {
		spec.NotBefore = cmp.Or(spec.Admission, task.Nanos()) + int64(proto.Seconds(d))
	}
	if bad := c.admit(now, &spec, p, task); bad != nil {
		return bad
	}
	c.Keys.Bar(now, h.Past, task)
	got, problem := c.put(now, v, task, &spec, t)
	switch {
	case errors.Is(problem, vnode.ErrConflict) && c.hides(scope, p, task):
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS, "ID %s cannot be used; use a new ID", task)
	case errors.Is(problem, vnode.ErrConflict):
		res.StoredDigest = got.Digest[:]
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS,
			"ID %s is taken by a task with another spec (digest %x); %s", task, got.Digest, takenAdvice(t))
	case !c.Round.Check(problem):
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "%v", problem)
	case got.Existed:
		c.Duplicates++
	default:
		c.Enqueued++
		decided.Tell(c.Round, message.DecidedEnqueued, message.Decided{Queue: t.GetQueue(), Kind: t.GetKind()})
		c.Queues.Use(t.GetQueue(), now)
		c.Keys.Taken(now, &h)
		if len(spec.Dependencies) > 0 {
			c.Dependency.Link(now, task, &spec)
		}
	}
	res.Receipt = receipt
	c.Replication.Writes.Bought(res, receipt, task, got.Existed, crdt.Key{Kind: crdt.KindEnqueued})
	if task.Kind() == id.KindKey && spec.KeyWindow == 0 {
		c.Replication.Writes.Led(v.Leading(), receipt) // or the next leader gives the key to another one before it hears of this
	}
	return nil
}

// hides tells whether what is stored under an ID is nothing that who enqueues may see. That the
// ID is taken cannot be kept from who has it, and nothing else is told (docs/contributors/adr/0011).
func (c *Machine) hides(scope *guard.Scope, p ring.Partition, task id.ID) bool {
	if scope == nil {
		return false
	}
	f, stored := vnode.FactOf(c.Round.Tx, p, task, crdt.Key{Kind: crdt.KindEnqueued})
	old, err := crdt.DecodeEnqueued(f.Body)
	return !stored || err != nil || !scope.May(guard.See, old.Queue)
}

// put stores a task, or finds it. What a client leaves open of a retry policy is filled in by
// the settings of the moment, which may have changed since it was stored: of a repetition only
// what was asked for is compared.
func (c *Machine) put(now clock.Time, v *vnode.Vnode, task id.ID, spec *crdt.Enqueued, t *nornv1.TaskSpec) (vnode.Enqueued, error) {
	got, err := v.Enqueue(c.Round.Tx, task, spec, now)
	if !errors.Is(err, vnode.ErrConflict) || t.GetRetry() == nil {
		return got, err
	}
	f, stored := vnode.FactOf(c.Round.Tx, v.Partition, task, crdt.Key{Kind: crdt.KindEnqueued})
	if !stored {
		return got, err
	}
	old, bad := crdt.DecodeEnqueued(f.Body)
	if bad != nil || old.Retry.FromQueue {
		return got, err
	}
	again := *spec
	again.Retry = convert.Retry(old.Retry, t.GetRetry())
	return v.Enqueue(c.Round.Tx, task, &again, now)
}

// name gives a task its ID: the client's, that of its unique key, or a new one.
func (c *Machine) name(now clock.Time, t *nornv1.TaskSpec) (uniquekeys.Holder, *proto.Error) {
	if t.GetKey() != "" {
		h, err := c.Keys.Resolve(now, t)
		if err == nil {
			err = c.Keys.Sure(now, &h)
		}
		return h, err
	}
	if len(t.GetId()) == 0 {
		return uniquekeys.Holder{Task: c.Routes.Draw(now)}, nil // for clients that make none
	}
	wall := c.Standing.Clocks.Wall(now)
	task, err := convert.CheckID(wall, t.GetId(), c.Eta)
	if err == nil && wall-task.Nanos() > int64(c.GCGrace) && !vnode.Known(c.Round.Tx, ring.Of(task, len(c.View.Cells)), task) {
		err = proto.Refused(nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW,
			"ID %s is older than gc-grace (%v) and not known here: it may have been finished and forgotten; enqueue under a new ID", task, c.GCGrace)
	}
	return uniquekeys.Holder{Task: task}, err
}

// launched is the ID of a launch, which was begun at a wall ns. What is known is so for ever;
// what is not is not made after a wall ns, until (0: none), or when it may have been forgotten.
func (c *Machine) launched(now clock.Time, t *nornv1.TaskSpec, begun, until int64) (uniquekeys.Holder, *proto.Error) {
	if len(t.GetId()) != id.Size || id.ID(t.GetId()).Kind() != id.KindLaunch || begun <= 0 {
		return uniquekeys.Holder{}, proto.Invalid("this is no launch")
	}
	task := id.ID(t.GetId())
	wall, bad := c.Standing.Clocks.Wall(now), ""
	switch {
	case wall-begun > int64(c.GCGrace):
		bad = fmt.Sprintf("launch %s was begun more than gc-grace (%v) ago and is not known here: it may have been finished and forgotten; look at the schedule's history, and trigger it if it is to run", task, c.GCGrace)
	case until != 0 && wall > until:
		bad = fmt.Sprintf("launch %s was not enqueued within its window or deadline, up to %s", task, time.Unix(0, until).UTC().Format(time.RFC3339))
	}
	if bad != "" && !vnode.Known(c.Round.Tx, ring.Of(task, len(c.View.Cells)), task) {
		return uniquekeys.Holder{}, proto.Refused(nornv1.ErrorKind_ERROR_KIND_OUT_OF_WINDOW, "%s", bad)
	}
	return uniquekeys.Holder{Task: task, Begun: begun}, nil
}

// admit judges a task by its queue and by what it depends on. What is there
// already is let through: the answer to a repeated send does not change, and a name
// that was given up since its only task was collected takes no room.
func (c *Machine) admit(now clock.Time, spec *crdt.Enqueued, p ring.Partition, task id.ID) *proto.Error {
	err := c.Queues.Room(now, spec.Queue)
	if err == nil {
		err = c.Queues.Admit(spec.Queue, spec.Size())
	}
	if err == nil {
		err = c.Dependency.Admit(now, spec.Dependencies)
	}
	if err != nil && vnode.Known(c.Round.Tx, p, task) {
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

// closing refuses a task whose partition is being deleted, before anything is
// looked up there: an ID or a key could be taken for one that was never used.
func (c *Machine) closing(now clock.Time, t *nornv1.TaskSpec) *proto.Error {
	if len(c.View.Dropping) == 0 {
		return nil // as nearly always
	}
	p, ok := c.Routes.Partition(c.Place(now, t))
	if !ok {
		return nil // refused for that
	}
	return c.Transfer.Refuses(p)
}

// Place names the partition of a task that is to be enqueued, by an ID in it.
// What comes without an ID is given one that can be taken now. So is what comes with a key
// that has a window: who judges it may have another clock, and the ID of another window may be
// in another partition, which is not kept there.
func (c *Machine) Place(now clock.Time, t *nornv1.TaskSpec) []byte {
	switch {
	case t.GetKey() != "" && t.GetKeyWindowSeconds() > 0 && len(t.GetId()) == id.Size:
		return t.GetId() // its window may be over
	case t.GetKey() != "":
		home := c.Keys.Home(now, t.GetQueue(), t.GetKey(), t.GetKeyWindowSeconds())
		if proto.Seconds(t.GetKeyWindowSeconds()) > 0 && len(t.GetId()) == 0 {
			t.Id = home
		}
		return home
	case len(t.GetId()) == 0:
		t.Id = c.Routes.Draw(now).Bytes()
	}
	return t.GetId()
}
