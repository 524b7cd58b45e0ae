package replication

import (
	"math"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/waiting"
	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/quorum"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// maxUnheard is of how many tasks of one request the others are asked at once: an answer
// may bring a large one.
const maxUnheard = 64

// unheard is a request about tasks that are not known here, or not as far as its sender has
// seen them. One replica may have missed what a majority has acknowledged, so that it cannot
// say by itself that there is no such task: a majority is asked first, as by a read, and what
// they know is kept here.
type unheard struct {
	f    *Reads
	r    *message.Request
	left []id.ID // that the others are to be asked about still
	// Invariant: open is the number of reads in Reads.Open about this request, at most
	// [maxUnheard]: the request goes on exactly when the last of them has ended (Audit).
	open   int  // that they are being asked about
	asking bool // [unheard.ask] is running
	waits  *waiting.Wait
}

// ReadBeforeDecide has the others asked about what a request is about and is not known here, and
// tells whether it has to wait for that. They are asked, too, about tasks for which it is refused
// (nil: there are none): or the time that the answer takes would tell what is hidden from what is not there.
func (f *Reads) ReadBeforeDecide(now clock.Time, r *message.Request, refused []*proto.Error) bool {
	if r.Heard {
		return false
	}
	r.Heard = true
	ids := tasksOf(r.Body)
	if refused != nil {
		ids = guard.Tasks(r.Body)
	}
	var left []id.ID
	for i, b := range ids {
		// Of what a scope allows the queue is known here, so it is not missed.
		if f.hides(b, refused, i) || r.Scope == nil && f.Misses(b) || f.lags(r.Body) || f.retries(r.Body, b) {
			left = append(left, id.ID(b))
		}
	}
	if len(left) == 0 {
		return false // as nearly always: nothing is made for it
	}
	u := &unheard{f: f, r: r, left: left}
	if u.ask(now); u.open == 0 {
		return false
	}
	u.waits = f.m.Pending.Open(waiting.Reads, r.From, func(why *proto.Error) {
		f.m.refuse(r.From, why)
	})
	return true
}

// tasksOf are the tasks whose absence would be the answer to a request, or hidden in it.
// Requests that name no task, and those of which every answer is right (an enqueue), are not
// among them.
func tasksOf(m gproto.Message) [][]byte {
	switch m := m.(type) {
	case *nornv1.CancelRequest:
		return m.GetIds()
	case *nornv1.RetryRequest:
		return m.GetIds()
	case *nornv1.LogRequest:
		return [][]byte{m.GetId()}
	case *nornv1.ExplainRequest:
		return [][]byte{m.GetId()}
	}
	return nil
}

// hides tells whether a request is refused for a task that others keep, too.
func (f *Reads) hides(b []byte, refused []*proto.Error, i int) bool {
	if refused == nil || refused[i] == nil || len(b) != id.Size {
		return false
	}
	p := ring.Of(id.ID(b), len(f.m.View.Cells))
	return !f.m.Writes.Alone(p) && !f.m.View.Elsewhere(p)
}

// Misses tells whether a task is not known here that others, who keep it too, may know.
func (f *Reads) Misses(b []byte) bool {
	if len(b) != id.Size {
		return false // refused for that
	}
	task := id.ID(b)
	p := ring.Of(task, len(f.m.View.Cells))
	if f.m.Writes.Alone(p) || f.m.View.Elsewhere(p) {
		return false
	}
	heard, err := vnode.Heard(f.m.Round.Tx, p, task)
	return f.m.Round.Check(err) && !heard
}

// lags tells whether a log is to be read on from an update that is not shown here, and that
// others, who keep it too, may show. Who has seen it would be given what comes after its
// claim, and never the rest of that. Or the task has ended here, and nothing is shown after
// what its reader has: the last lines may be with the others only, and nobody who is told of
// the end asks for them again.
func (f *Reads) lags(m gproto.Message) bool {
	log, is := m.(*nornv1.LogRequest)
	after := vnode.LogAfter{Is: log.GetAfter(), Token: log.GetAfterToken(), Seq: log.GetAfterSeq()}
	if !is || after.Is && after.Seq == math.MaxUint64 || len(log.GetId()) != id.Size {
		return false // no update has that number: who names it waits for the end
	}
	task := id.ID(log.GetId())
	p := ring.Of(task, len(f.m.View.Cells))
	if f.m.Writes.Alone(p) || f.m.View.Elsewhere(p) {
		return false
	}
	if after.Is && !vnode.Shows(f.m.Round.Tx, p, task, after.Token, after.Seq) {
		return true
	}
	state, err := vnode.Outcome(f.m.Round.Tx, p, task)
	if !f.m.Round.Check(err) || state == crdt.StateUnknown {
		return false
	}
	shown, _, err := vnode.Log(f.m.Round.Tx, p, task, after, 1, proto.MaxPageBytes)
	return f.m.Round.Check(err) && len(shown) == 0
}

// retries tells whether a task is to be retried that others keep, too, by this node, which
// leads it. It may have come to lead without having heard how the task has ended: then there
// would be nothing to do, or the run that the retry begins would be over already.
func (f *Reads) retries(m gproto.Message, b []byte) bool {
	if _, is := m.(*nornv1.RetryRequest); !is || len(b) != id.Size {
		return false
	}
	p := ring.Of(id.ID(b), len(f.m.View.Cells))
	return f.m.Partitions.See(p).Leading() != 0 && !f.m.Writes.Alone(p)
}

// ask asks about as many as may be.
func (u *unheard) ask(now clock.Time) {
	u.asking = true
	for len(u.left) > 0 && u.open < maxUnheard {
		if len(u.f.Open) >= MaxFetches {
			u.left, u.r.Unsure = nil, true
			break
		}
		task := u.left[0]
		u.left = u.left[1:]
		u.open++
		p := ring.Of(task, len(u.f.m.View.Cells))
		cell := &u.f.m.View.Cells[p]
		u.f.begin(now, u.r, p, &Fetch{
			Quorum: call.NewQuorum(cell, u.f.m.Self), from: u.r.From, task: task, need: quorum.Majority(len(cell.Cohort)),
			enough: func() bool { return true }, about: u, then: u.told,
		})
	}
	u.asking = false
}

// told hears that enough have answered about one task, or that too few have. Then the
// rest is not asked about: they would not answer either.
// The request is handled again from the start, marked as Heard. Where too few have answered it
// is marked Unsure, too: then its handler says UNAVAILABLE where it would have said "not
// found".
func (u *unheard) told(now clock.Time, enough bool) {
	u.open--
	if !enough {
		u.left, u.r.Unsure = nil, true
	}
	if u.asking {
		return
	}
	if u.ask(now); u.open == 0 && u.waits.Close() {
		u.f.m.Node.Request(now, u.r)
	}
}
