package operator

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/dump"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// BackupFrom says whom of the cohort a page is asked of, and what; nil: the request is refused
// where it is handled.
//
// Invariant: a page is given only when a majority of the newest cohort that any of those who
// answer know of is in it, so that nothing is missing that a majority has acknowledged.
func (c *Machine) BackupFrom(m *nornv1.BackupRequest) (*call.Groups, *pages, gproto.Message) {
	if dump.Check(m, len(c.View.Cells)) != nil {
		return nil, nil, nil
	}
	cell := &c.View.Cells[m.GetPartition()]
	asks, need := dump.Whom(m, cell.Cohort, c.Self, c.View.Up)
	ask, who := gproto.CloneOf(m), call.NewGroups()
	ask.Epoch = cell.Epoch
	for _, at := range asks {
		who.Add(at, int(m.GetPartition()))
	}
	return who, &pages{dump.Pages{Epoch: cell.Epoch, Cohort: len(cell.Cohort), Need: need}}, ask
}

// Page reads what is here of a partition for a backup, where it counts.
func (c *Machine) Page(r *message.Request, m *nornv1.BackupRequest) (gproto.Message, *proto.Error) {
	if bad := dump.Check(m, len(c.View.Cells)); bad != nil {
		return nil, bad
	}
	p, epoch := ring.Partition(m.GetPartition()), m.GetEpoch()
	if !r.Routed { // nobody else keeps it
		epoch = c.View.Cells[p].Epoch
	}
	_, fenced := c.Acceptors.Fence(p, epoch)
	switch {
	case fenced || c.Acceptors.Blind(p, epoch):
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the cohort of partition %d is changing", p).Again(replication.WriteTimeout / 10)
	case c.View.Deleting(p) || !c.Standing.Disk.Counts(p, epoch):
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "what node %s holds of partition %d does not count now", c.Self.Node, p).Again(replication.WriteTimeout / 10)
	}
	if len(m.GetBounds()) > 0 || m.GetDivide() > 0 {
		vnode.Settled(c.Partitions.Use(p), c.Round.Tx) // else what the tree has not written yet is counted from the facts
	}
	return c.Round.Read(message.Read{From: r.From, AsOf: dump.Session(m), Func: func(view store.View, _ clock.Time) (gproto.Message, *proto.Error, error) {
		reply, err := dump.Read(view, p, m)
		if err == nil {
			reply.Epoch, reply.Cohort, reply.Replicas, reply.Nodes = epoch, 1, 1, []string{dump.Name(c.Self)}
		}
		return reply, nil, err
	}}, nil)
}

// Joined gives the client what the pages come to, beside the loop: there is much to compare.
func (c *Machine) Joined(r *message.Request, join *pages) func(*router.Scatter) {
	return func(*router.Scatter) {
		c.Round.Read(message.Read{From: r.From, Func: func(store.View, clock.Time) (gproto.Message, *proto.Error, error) {
			m, err := join.Answer()
			return m, err, nil
		}}, nil)
	}
}

// pages is a [router.Joiner].
type pages struct{ dump.Pages }

// Take keeps the page of one member.
func (j *pages) Take(_ []int, m gproto.Message) {
	if page, ok := m.(*nornv1.BackupReply); ok {
		j.Pages.Take(page)
	}
}

// Fail notes a member that has none to give.
func (j *pages) Fail(_ []int, err *proto.Error) { j.Pages.Fail(err) }

// Answer joins them if they are enough, and refuses with UNAVAILABLE otherwise: the client asks
// again.
func (j *pages) Answer() (gproto.Message, *proto.Error) {
	page, err := j.Pages.Answer()
	if err != nil {
		return nil, err.Again(replication.WriteTimeout / 10)
	}
	return page, nil
}

// Restore joins what a backup has of some tasks with what is here, and sends all of it to
// the others of the cohort, new here or not: so the answer says what is on their disks.
//
// It is idempotent: facts are joined by key, and a page that is restored twice changes nothing.
// Tasks below the horizon are left out and named: they would be collected at once.
func (c *Machine) Restore(now clock.Time, r *message.Request, m *nornv1.RestoreRequest) (gproto.Message, *proto.Error) {
	tasks, bad := dump.Restored(m, len(c.View.Cells))
	p := ring.Partition(m.GetPartition())
	switch {
	case bad != nil:
	case c.Node.Full() != nil:
		bad = c.Node.Full()
	case c.View.Deleting(p):
		bad = refusal.Unreachable(p)
	default:
		bad = c.Replication.Writes.Check(m.GetDurability())
	}
	if bad != nil {
		return nil, bad
	}
	if len(m.GetTasks()) >= dump.Bulk {
		c.Round.Tx.Bulk(2*len(tasks), 2*len(m.GetTasks())) // a fact, and an entry of an index
	}
	v := c.Partitions.Use(p)
	there := vnode.Expect(v, c.Round.Tx, len(tasks), func(i int) []crdt.Fact { return tasks[i].Facts }, true)
	defer there.Done()
	reply := &nornv1.RestoreReply{Tasks: uint32(len(tasks)), Result: &nornv1.WriteResult{Receipt: &nornv1.Receipt{}}}
	for i := range tasks {
		t := &tasks[i]
		if there.Same(i) { // the request is repeated
			c.Replication.Writes.Restored(p, t.Facts)
			continue
		}
		if c.Retention.Tombstones.Below(now, p, t.Facts) {
			reply.LeftOut = append(reply.LeftOut, t.ID.Bytes())
			continue
		}
		if vnode.Unknown(v, c.Round.Tx, t.ID) {
			reply.Fresh++
		}
		if !c.Node.Merge(now, v, t.Facts) {
			return nil, proto.Invalid("task %s cannot be joined with what is here: %v", t.ID, t.Check())
		}
		c.Replication.Writes.Restored(p, t.Facts)
	}
	c.Replication.Writes.Receipt(p, reply.Result.Receipt, reply.Result)
	return reply, nil
}
