package router

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// List is a request that is a list, each item judged for itself.
//
// All functions are pure: they are called several times for an item, in any order.
type List struct {
	N    int
	Hint bool                           // one copy is enough, and it may be a hint
	Led  bool                           // only leaders decide it
	Best func(i int) bool               // better decided by the leader, where one is in reach; nil: none is
	Task func(i int) []byte             // names what an item is about
	Some func(idx []int) gproto.Message // the same request for some of the items
	Join Joiner                         // makes one answer of those to the parts

	Find func(ring.Partition) (register.Member, bool) // who is to write the items, of what this node asks for itself; nil: see [Machine.Keeper]
}

// EnqueueResults are the answers to so many tasks that are enqueued.
func EnqueueResults(n int) *Results[*nornv1.EnqueueReply, *nornv1.EnqueueResult] {
	return &Results[*nornv1.EnqueueReply, *nornv1.EnqueueResult]{
		All:    make([]*nornv1.EnqueueResult, n),
		Of:     (*nornv1.EnqueueReply).GetResults,
		Failed: func(e *nornv1.Error) *nornv1.EnqueueResult { return &nornv1.EnqueueResult{Error: e} },
		Reply:  func(r []*nornv1.EnqueueResult) *nornv1.EnqueueReply { return &nornv1.EnqueueReply{Results: r} },
	}
}

// Pick gives some of all items.
func Pick[T any](all []T, idx []int) []T {
	out := make([]T, len(idx))
	for k, i := range idx {
		out[k] = all[i]
	}
	return out
}

// Results are the answers to the items of one list.
//
// An item has either an answer or an error in All. The client gets one error for the whole
// where every item broke the same rule, and the list otherwise.
type Results[M gproto.Message, R any] struct {
	All    []R
	Of     func(M) []R
	Failed func(*nornv1.Error) R
	Reply  func([]R) M
	whole  *proto.Error // of a request that was refused as a whole
	broken int          // items of parts that break a rule of the whole request
}

// Take adds the answers to some items.
func (r *Results[M, R]) Take(idx []int, m gproto.Message) {
	var some []R
	if reply, ok := m.(M); ok {
		some = r.Of(reply)
	}
	if len(some) != len(idx) {
		r.Fail(idx, proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "a node answered %d items of %d", len(some), len(idx)))
		return
	}
	for k, i := range idx {
		r.All[i] = some[k]
	}
}

// Fail has some items bear an error, or the whole where each item breaks the same rule.
func (r *Results[M, R]) Fail(idx []int, err *proto.Error) {
	if err.Kind == nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		r.broken += len(idx)
	}
	if len(idx) == len(r.All) || r.broken == len(r.All) { // each part of it breaks the same rule
		r.whole = err
	}
	for _, i := range idx {
		r.All[i] = r.Failed(err.Proto())
	}
}

// Answer gives all of them.
func (r *Results[M, R]) Answer() (gproto.Message, *proto.Error) {
	if r.whole != nil {
		return nil, r.whole
	}
	return r.Reply(r.All), nil
}

// Deny takes the answer to one item by itself.
func (r *Results[M, R]) Deny(i int, err *proto.Error) { r.All[i] = r.Failed(err.Proto()) }

// Whole is the answer to a request that one node answers.
type Whole struct {
	m   gproto.Message
	err *proto.Error
}

// Take keeps the answer.
func (w *Whole) Take(_ []int, m gproto.Message) { w.m = m }

// Fail keeps the error.
func (w *Whole) Fail(_ []int, err *proto.Error) { w.err = err }

// Answer gives what was kept.
func (w *Whole) Answer() (gproto.Message, *proto.Error) { return w.m, w.err }

// maxDraws bounds the IDs drawn for one task: with one partition in eight left
// this fails once in 10^4, and then the enqueue waits for its partition.
const maxDraws = 64

// Draw makes an ID whose partition takes enqueues now, one of those of the present second
// if that is possible (design 3).
func (r *Machine) Draw(now clock.Time) id.ID {
	wall, partitions := r.Standing.Clocks.Wall(now), len(r.View.Cells)
	task := r.IDs.Next(wall)
	if r.View.Alone {
		return task
	}
	size := id.WindowSize(len(r.View.State.Nodes), partitions)
	if task, ok := r.drawIn(wall, size); ok {
		return task
	}
	for range maxDraws {
		if r.Takes(ring.Of(task, partitions)) {
			break
		}
		task = r.IDs.Next(wall)
	}
	return task
}

// drawIn makes an ID in the window of a second, of so many partitions. ok is false where there
// is no window (size 0), or none of the partitions tried takes enqueues.
func (r *Machine) drawIn(wall int64, size int) (task id.ID, ok bool) {
	partitions := len(r.View.Cells)
	for range min(size, maxDraws) {
		some := r.IDs.Next(wall)
		p := ring.Partition(id.Window(wall, partitions, int(ring.Of(some, partitions))%size))
		if r.Takes(p) {
			return r.IDs.Hashed(wall, ring.HashIn(some, p, partitions)), true
		}
	}
	return id.ID{}, false
}
