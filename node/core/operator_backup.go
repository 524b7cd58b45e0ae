package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/dump"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// backups reads and writes whole partitions (package dump).
type backups struct{ *Core }

// asked says whom of the cohort a page is asked of, and what; nil: the request is refused
// where it is handled.
//
// Invariant: a page is given only when a majority of the newest cohort that any of those who
// answer know of is in it, so that nothing is missing that a majority has acknowledged.
func (c backups) asked(m *nornv1.BackupRequest) (*call.Groups, *pages, gproto.Message) {
	if dump.Check(m, len(c.view.Cells)) != nil {
		return nil, nil, nil
	}
	cell := &c.view.Cells[m.GetPartition()]
	asks, need := dump.Whom(m, cell.Cohort, c.cfg.Self, c.view.Up)
	ask, who := gproto.CloneOf(m), call.NewGroups()
	ask.Epoch = cell.Epoch
	for _, at := range asks {
		who.Add(at, int(m.GetPartition()))
	}
	return who, &pages{dump.Pages{Epoch: cell.Epoch, Cohort: len(cell.Cohort), Need: need}}, ask
}

// page reads what is here, where it counts.
func (c backups) page(r *message.Request, m *nornv1.BackupRequest) (gproto.Message, *proto.Error) {
	if bad := dump.Check(m, len(c.view.Cells)); bad != nil {
		return nil, bad
	}
	p, epoch := ring.Partition(m.GetPartition()), m.GetEpoch()
	if !r.Routed { // nobody else keeps it
		epoch = c.view.Cells[p].Epoch
	}
	_, fenced := c.acceptors.Fence(p, epoch)
	switch {
	case fenced || c.acceptors.Blind(p, epoch):
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "the cohort of partition %d is changing", p).Again(writeTimeout / 10)
	case c.view.Deleting(p) || !c.standing.Disk.Counts(p, epoch):
		return nil, proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "what node %s holds of partition %d does not count now", c.cfg.Self.Node, p).Again(writeTimeout / 10)
	}
	return c.round.Read(message.Read{From: r.From, AsOf: dump.Session(m), Func: func(view store.View, _ clock.Time) (gproto.Message, *proto.Error, error) {
		reply, err := dump.Read(view, p, m)
		if err == nil {
			reply.Epoch, reply.Cohort, reply.Replicas, reply.Nodes = epoch, 1, 1, []string{dump.Name(c.cfg.Self)}
		}
		return reply, nil, err
	}}, nil)
}

// joined gives the client what the pages come to, beside the loop: there is much to compare.
func (c backups) joined(r *message.Request, join *pages) func(*router.Scatter) {
	return func(*router.Scatter) {
		c.round.Read(message.Read{From: r.From, Func: func(store.View, clock.Time) (gproto.Message, *proto.Error, error) {
			m, err := join.Answer()
			return m, err, nil
		}}, nil)
	}
}

// pages is a [router.Joiner].
type pages struct{ dump.Pages }

func (j *pages) Take(_ []int, m gproto.Message) {
	if page, ok := m.(*nornv1.BackupReply); ok {
		j.Pages.Take(page)
	}
}

func (j *pages) Fail(_ []int, err *proto.Error) { j.Pages.Fail(err) }

func (j *pages) Answer() (gproto.Message, *proto.Error) {
	page, err := j.Pages.Answer()
	if err != nil {
		return nil, err.Again(writeTimeout / 10)
	}
	return page, nil
}

// restore joins what a backup has of some tasks with what is here, and sends all of it to
// the others of the cohort, new here or not: so the answer says what is on their disks.
func (c backups) restore(now clock.Time, r *message.Request, m *nornv1.RestoreRequest) (gproto.Message, *proto.Error) {
	tasks, bad := dump.Restored(m, len(c.view.Cells))
	p := ring.Partition(m.GetPartition())
	switch {
	case bad != nil:
	case diskLow(c.Core):
		bad = enqueuing{Core: c.Core}.full()
	case c.view.Deleting(p):
		bad = refusal.Unreachable(p)
	default:
		bad = c.quorumWrites.check(m.GetDurability())
	}
	if bad != nil {
		return nil, bad
	}
	v, alone := c.vnodes.Use(p), c.quorumWrites.alone(p)
	reply := &nornv1.RestoreReply{Tasks: uint32(len(tasks)), Result: &nornv1.WriteResult{Receipt: &nornv1.Receipt{}}}
	for i := range tasks {
		t := &tasks[i]
		if c.retention.Tombstones.Below(now, p, t.Facts) {
			reply.LeftOut = append(reply.LeftOut, t.ID.Bytes())
			continue
		}
		if vnode.Unknown(v, c.round.Tx, t.ID) {
			reply.Fresh++
		}
		if _, ok := peers(c).merge(now, v, t.Facts); !ok {
			return nil, proto.Invalid("task %s cannot be joined with what is here", t.ID)
		}
		for _, f := range t.Facts {
			if !alone {
				c.quorumWrites.add(p, f)
			}
		}
	}
	if !alone {
		c.quorumWrites.items = append(c.quorumWrites.items, item{partition: p, receipt: reply.Result.Receipt, result: reply.Result})
	}
	return reply, nil
}
