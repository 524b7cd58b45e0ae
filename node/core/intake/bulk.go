package intake

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// Cancel cancels tasks one by one: each is judged for itself.
// Only what is completed, or was collected, stays as it is. A task that was cancelled because of
// its dependencies is cancelled by the user as well: a retry of theirs would else bring it back.
func (c *Machine) Cancel(now clock.Time, m *nornv1.CancelRequest) (gproto.Message, *proto.Error) {
	err := convert.CheckBatch(len(m.GetIds()))
	if err == nil {
		err = c.Replication.Writes.Check(m.GetDurability())
	}
	if err == nil && len(m.GetReason()) > proto.MaxNoteBytes { // it is stored once per task
		err = proto.Invalid("the reason has %d bytes, over the limit of %d", len(m.GetReason()), proto.MaxNoteBytes)
	}
	var extra []byte
	if err == nil {
		extra, err = convert.UnknownUpTo(m, proto.MaxNoteBytes-len(m.GetReason()), "reason")
	}
	done := func(d *vnode.Detail) bool { return d.Task.CancelledByUser() }
	return c.each(err, m.GetIds(), conditions{m.GetOnlyStates(), done}, func(d *vnode.Detail, res *nornv1.WriteResult) *proto.Error {
		t := d.Task
		switch {
		case d.State == crdt.StateCompleted || t.Collected():
			return refusal.Conflict("task %s is %s already", t.ID, d.State)
		case t.CancelledByUser(): // a dependency's doing could be undone
			c.Settle.Bought(res, t.ID, true)
			return nil
		}
		f := crdt.Cancelled{At: c.Standing.Clocks.Stamp(now, t.ID), Reason: m.GetReason(), Further: extra}
		was := c.Cancelled
		c.Settle.Add(now, t.ID, f.Fact(t.ID), &c.Cancelled, res)
		if c.Cancelled > was {
			decided.Tell(c.Round, message.DecidedCancelled, decided.WithoutClaim(now, t))
		}
		res.State = nornv1.State_STATE_CANCELLED
		return nil
	})
}

// Retry gives tasks a new run of attempts.
// It is for tasks that are dead, back off, or were cancelled because of a dependency: what has
// ended well, or by a user's will, stays. Each is decided by the leader of its partition.
func (c *Machine) Retry(now clock.Time, m *nornv1.RetryRequest) (gproto.Message, *proto.Error) {
	done := func(d *vnode.Detail) bool {
		return d.Task.Generation() > 0 && slices.Contains([]crdt.State{crdt.StateReady, crdt.StateClaimed, crdt.StateWaiting}, d.State)
	}
	err := convert.CheckBatch(len(m.GetIds()))
	var extra []byte
	if err == nil {
		extra, err = convert.UnknownUpTo(m, proto.MaxNoteBytes, "retry")
	}
	return c.each(err, m.GetIds(), conditions{m.GetOnlyStates(), done}, func(d *vnode.Detail, res *nornv1.WriteResult) *proto.Error {
		return c.retryOne(now, d, extra, res)
	})
}

// conditions are the states in which a task is acted upon; none: in all. Done
// tells that the action has happened already: a request that is repeated, because
// its answer was lost, gets the same answer.
type conditions struct {
	only []nornv1.State
	done func(*vnode.Detail) bool
}

// each runs an action over the tasks that are in one of the states asked for.
func (c *Machine) each(err *proto.Error, ids [][]byte, when conditions, act func(*vnode.Detail, *nornv1.WriteResult) *proto.Error) (gproto.Message, *proto.Error) {
	if err == nil {
		err = convert.CheckStates(when.only)
	}
	if err != nil {
		return nil, err
	}
	reply := &nornv1.WriteReply{}
	for _, b := range ids {
		res := &nornv1.WriteResult{Receipt: &nornv1.Receipt{}}
		reply.Results = append(reply.Results, res)
		if err := c.one(b, when, res, act); err != nil {
			res.Receipt, res.Error = nil, err.Proto()
		}
	}
	return reply, nil
}

// one acts on one task. It returns UNAVAILABLE where the partition is on its way out or too few
// replicas have answered, NOT_FOUND, CONFLICT where the task is in none of the states asked
// for, or what act says.
func (c *Machine) one(b []byte, when conditions, res *nornv1.WriteResult, act func(*vnode.Detail, *nornv1.WriteResult) *proto.Error) *proto.Error {
	task, bad := convert.ReadID(b)
	if bad != nil {
		return bad
	}
	if e := c.Transfer.Refuses(ring.Of(task, len(c.View.Cells))); e != nil {
		return e
	}
	d, err := vnode.ReadTask(c.Round.Tx, ring.Of(task, len(c.View.Cells)), task, vnode.ReadOptions{NoClaims: true, NoLog: true})
	if !c.Round.Check(err) {
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "%v", err)
	}
	if d.Task.Enqueued == nil && !d.Task.Collected() {
		return refusal.NoTaskUnless(task, c.Replication.Reads.TooFewAnswered)
	}
	res.State = nornv1.State(d.State)
	if len(when.only) > 0 && !slices.Contains(when.only, res.State) && !when.done(d) {
		return refusal.Conflict("task %s is %s now", task, d.State)
	}
	return act(d, res)
}

// retryOne begins a new generation of attempts. The order of its questions matters: who leads
// and knows the end (else the answer is to try again), what the end allows (conflict), what is
// being forgotten ([retention]), what it depends on, and last its unique key, which is taken
// again by [uniquekeys.Machine.Resume]: nothing may refuse after that.
//
// Invariant: the new run is after every token that this leader has given out for the task, but
// those of a retry that it does not know ([vnode.RetryAfter]): a failure or an expiry of an
// earlier attempt that comes late ends nothing of the new run.
func (c *Machine) retryOne(now clock.Time, d *vnode.Detail, extra []byte, res *nornv1.WriteResult) *proto.Error {
	t, v := d.Task, c.Partitions.Use(ring.Of(d.Task.ID, len(c.View.Cells)))
	if v.Leading() == 0 {
		return refusal.Leaderless(v)
	}
	if bad := c.Replication.Confirms.StillLeads(v.Partition, "exclusive claims"); bad != nil {
		return bad
	}
	if c.Replication.Reads.TooFewAnswered && !c.Replication.Writes.Alone(v.Partition) {
		return refusal.TooFewAnswered("how task %s has ended may not be known here, and too few of the others who keep its partition have answered; try again", t.ID)
	}
	switch {
	case t.Collected():
		return refusal.Conflict("task %s was %s and has been collected; enqueue it anew", t.ID, d.State)
	case d.State == crdt.StateCompleted:
		return refusal.Conflict("task %s is completed", t.ID)
	case d.State == crdt.StateCancelled && t.CancelledByUser():
		return refusal.Conflict("task %s was cancelled on purpose, which stays; enqueue it anew", t.ID)
	case d.State == crdt.StateScheduled && !t.BacksOff():
		return refusal.Conflict("task %s has not been tried: it starts at %s", t.ID, time.Unix(0, t.NotBefore()).UTC().Format(time.RFC3339))
	case d.State == crdt.StateReady || d.State == crdt.StateClaimed || d.State == crdt.StateWaiting:
		c.Settle.Bought(res, t.ID, true) // nothing to do
		c.keyed(v, t, res)
		return nil
	}
	if bad := c.Retention.Buried(now, v, d); bad != nil {
		return bad
	}
	if d.State == crdt.StateCancelled {
		if dependency, ok := c.Dependency.Obstacle(t); ok {
			return refusal.Conflict("task %s depends on %s, which is dead or cancelled; retry that one first", t.ID, dependency)
		}
	}
	if t.Waiting() || d.State == crdt.StateCancelled {
		if bad := c.Dependency.Admit(now, t.Enqueued.Dependencies); bad != nil {
			return refusal.Conflict("%s; enqueue the task anew", bad.Message)
		}
	}
	if bad := c.Keys.Resume(now, t); bad != nil {
		return bad
	}
	state, err := v.Decide(c.Round.Tx, t.ID, now, func(t *crdt.Task) (crdt.Fact, bool) {
		return crdt.Requeued{Generation: c.Keys.Run(v, t), AfterToken: vnode.RetryAfter(v, t.ID), At: c.Standing.Clocks.Stamp(now, t.ID), Further: extra}.Fact(t.ID), true
	})
	if !c.Round.Check(err) {
		return proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "%v", err)
	}
	if len(t.Enqueued.Dependencies) > 0 {
		c.Dependency.Link(now, t.ID, t.Enqueued)
		after, err := vnode.ReadTask(c.Round.Tx, v.Partition, t.ID, vnode.ReadOptions{NoClaims: true, NoLog: true})
		if c.Round.Check(err) {
			state = after.State
		}
	}
	c.Retried++
	decided.Tell(c.Round, message.DecidedRetried, message.Decided{Queue: t.Enqueued.Queue, Kind: proto.KindOf(t.Enqueued.Further)})
	res.State = nornv1.State(state)
	c.Settle.Bought(res, t.ID, false)
	c.keyed(v, t, res)
	return nil
}

// keyed has the retry of a task with a unique key acknowledged only if no other leader can
// have given the key away before it has heard of the retry, which is void then ([uniquekeys.Machine.Bar]).
func (c *Machine) keyed(v *vnode.Vnode, t *crdt.Task, res *nornv1.WriteResult) {
	if t.ID.Kind() == id.KindKey && t.Enqueued.KeyWindow == 0 {
		c.Replication.Writes.Led(v.Leading(), res.Receipt)
	}
}
