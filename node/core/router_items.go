package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// items is a request that is a list, each item judged for itself.
type items struct {
	n    int
	hint bool                           // one copy is enough, and it may be a hint
	led  bool                           // only leaders decide it
	best func(i int) bool               // better decided by the leader, where one is in reach; nil: none is
	task func(i int) []byte             // names what an item is about
	some func(idx []int) gproto.Message // the same request for some of the items
	join joiner                         // makes one answer of those to the parts

	find func(ring.Partition) (register.Member, bool) // who is to write the items, of what this node asks for itself; nil: see [routes.keeper]
}

// itemsOf tells whether a request is a list. An enqueue that brings no ID is
// given one.
func itemsOf(c *Core, now clock.Time, m gproto.Message) (items, bool) {
	switch m := m.(type) {
	case *nornv1.EnqueueRequest:
		all := m.GetTasks()
		return items{
			n: len(all), hint: one(m), task: func(i int) []byte { return c.routes.place(now, all[i]) },
			best: func(i int) bool { return all[i].GetKey() != "" },
			some: func(idx []int) gproto.Message {
				return &nornv1.EnqueueRequest{Tasks: pick(all, idx), Durability: m.GetDurability()}
			},
			join: enqueueResults(len(all)),
		}, true
	case *nornv1.RenewRequest:
		all := m.GetClaims()
		return items{
			n: len(all), led: true, task: func(i int) []byte { return all[i].GetId() },
			some: func(idx []int) gproto.Message {
				return &nornv1.RenewRequest{Claims: pick(all, idx), LeaseSeconds: m.GetLeaseSeconds()}
			},
			join: &results[*nornv1.RenewReply, *nornv1.RenewResult]{
				all:    make([]*nornv1.RenewResult, len(all)),
				of:     (*nornv1.RenewReply).GetResults,
				failed: func(e *nornv1.Error) *nornv1.RenewResult { return &nornv1.RenewResult{Error: e} },
				reply:  func(r []*nornv1.RenewResult) *nornv1.RenewReply { return &nornv1.RenewReply{Results: r} },
			},
		}, true
	}
	return writesOf(c, now, m)
}

// enqueueResults are the answers to so many tasks that are enqueued.
func enqueueResults(n int) *results[*nornv1.EnqueueReply, *nornv1.EnqueueResult] {
	return &results[*nornv1.EnqueueReply, *nornv1.EnqueueResult]{
		all:    make([]*nornv1.EnqueueResult, n),
		of:     (*nornv1.EnqueueReply).GetResults,
		failed: func(e *nornv1.Error) *nornv1.EnqueueResult { return &nornv1.EnqueueResult{Error: e} },
		reply:  func(r []*nornv1.EnqueueResult) *nornv1.EnqueueReply { return &nornv1.EnqueueReply{Results: r} },
	}
}

// writesOf are the lists that are answered by a WriteReply.
func writesOf(c *Core, now clock.Time, m gproto.Message) (l items, ok bool) {
	strange := func(task []byte, token uint64) bool {
		return len(task) == id.Size && settling{c}.unheardOf(now, id.ID(task), token)
	}
	switch m := m.(type) {
	case *nornv1.UpdateRequest:
		// All are about one task, and go where it is.
		l = items{n: 1 + len(m.GetMore()), best: func(int) bool { return strange(m.GetId(), m.GetToken()) }, hint: one(m), task: func(int) []byte { return m.GetId() }, some: func([]int) gproto.Message { return m }}
	case *nornv1.CompleteRequest:
		all := m.GetCompletions()
		l = items{n: len(all), hint: one(m), best: func(i int) bool { return strange(all[i].GetId(), all[i].GetToken()) }, task: func(i int) []byte { return all[i].GetId() }, some: func(idx []int) gproto.Message {
			return &nornv1.CompleteRequest{Completions: pick(all, idx), Durability: m.GetDurability()}
		}}
	case *nornv1.FailRequest:
		all := m.GetFailures()
		l = items{n: len(all), led: true, task: func(i int) []byte { return all[i].GetId() }, some: func(idx []int) gproto.Message {
			return &nornv1.FailRequest{Failures: pick(all, idx)}
		}}
	case *nornv1.ReleaseRequest:
		all := m.GetClaims()
		l = items{n: len(all), led: true, task: func(i int) []byte { return all[i].GetId() }, some: func(idx []int) gproto.Message {
			return &nornv1.ReleaseRequest{Claims: pick(all, idx)}
		}}
	case *nornv1.CancelRequest:
		all := m.GetIds()
		// The state of a task is best known to its leader, who knows the claims.
		l = items{n: len(all), best: func(i int) bool { return len(m.GetOnlyStates()) > 0 || c.fetches.misses(all[i]) }, task: func(i int) []byte { return all[i] }, some: func(idx []int) gproto.Message {
			part := &nornv1.CancelRequest{Ids: pick(all, idx), Reason: m.GetReason(), OnlyStates: m.GetOnlyStates(), Durability: m.GetDurability()}
			part.ProtoReflect().SetUnknown(m.ProtoReflect().GetUnknown())
			return part
		}}
	case *nornv1.RetryRequest:
		all := m.GetIds()
		l = items{n: len(all), led: true, task: func(i int) []byte { return all[i] }, some: func(idx []int) gproto.Message {
			part := &nornv1.RetryRequest{Ids: pick(all, idx), OnlyStates: m.GetOnlyStates()}
			part.ProtoReflect().SetUnknown(m.ProtoReflect().GetUnknown())
			return part
		}}
	default:
		return items{}, false
	}
	l.join = &results[*nornv1.WriteReply, *nornv1.WriteResult]{
		all:    make([]*nornv1.WriteResult, l.n),
		of:     (*nornv1.WriteReply).GetResults,
		failed: func(e *nornv1.Error) *nornv1.WriteResult { return &nornv1.WriteResult{Error: e} },
		reply:  func(r []*nornv1.WriteResult) *nornv1.WriteReply { return &nornv1.WriteReply{Results: r} },
	}
	return l, true
}

// one tells whether a write asks for one copy, a hint included.
func one(m interface{ GetDurability() *nornv1.Durability }) bool {
	return m.GetDurability().GetLevel() == nornv1.WriteLevel_WRITE_LEVEL_ONE
}

func pick[T any](all []T, idx []int) []T {
	out := make([]T, len(idx))
	for k, i := range idx {
		out[k] = all[i]
	}
	return out
}

// place names the partition of a task that is to be enqueued, by an ID in it.
// What comes without an ID is given one that can be taken now. So is what comes with a key
// that has a window: who judges it may have another clock, and the ID of another window may be
// in another partition, which is not kept there.
func (r *routes) place(now clock.Time, t *nornv1.TaskSpec) []byte {
	c := r.c
	switch {
	case t.GetKey() != "" && t.GetKeyWindowSeconds() > 0 && len(t.GetId()) == id.Size:
		return t.GetId() // its window may be over
	case t.GetKey() != "":
		home := keyHome(c, now, t.GetQueue(), t.GetKey(), t.GetKeyWindowSeconds())
		if proto.Seconds(t.GetKeyWindowSeconds()) > 0 && len(t.GetId()) == 0 {
			t.Id = home
		}
		return home
	case len(t.GetId()) == 0:
		t.Id = r.draw(now).Bytes()
	}
	return t.GetId()
}

// maxDraws bounds the IDs drawn for one task: with one partition in eight left
// this fails once in 10^4, and then the enqueue waits for its partition.
const maxDraws = 64

// draw makes an ID whose partition takes enqueues now, here if that is possible
// (design 3).
func (r *routes) draw(now clock.Time) id.ID {
	c := r.c
	wall := c.standing.Clocks.Wall(now)
	task := c.ids.Next(wall)
	if r.c.view.Alone {
		return task
	}
	for range maxDraws {
		if r.takes(ring.Of(task, len(c.view.Cells))) {
			break
		}
		task = c.ids.Next(wall)
	}
	return task
}

// keyHome names the partition that remembers a unique key: with a window it is
// the one of the task itself.
func keyHome(c *Core, now clock.Time, queue, key string, seconds float64) []byte {
	window, start := int64(proto.Seconds(seconds)), int64(0)
	if window > 0 {
		start = convert.WindowStart(c.standing.Clocks.Wall(now), window)
	}
	return id.UniqueKey([16]byte(c.cfg.Cluster.ID), queue, key, start, 0).Bytes()
}

// results are the answers to the items of one list.
type results[M gproto.Message, R any] struct {
	all    []R
	of     func(M) []R
	failed func(*nornv1.Error) R
	reply  func([]R) M
	whole  *proto.Error // of a request that was refused as a whole
	broken int          // items of parts that break a rule of the whole request
}

func (r *results[M, R]) Take(idx []int, m gproto.Message) {
	var some []R
	if reply, ok := m.(M); ok {
		some = r.of(reply)
	}
	if len(some) != len(idx) {
		r.Fail(idx, proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "a node answered %d items of %d", len(some), len(idx)))
		return
	}
	for k, i := range idx {
		r.all[i] = some[k]
	}
}

func (r *results[M, R]) Fail(idx []int, err *proto.Error) {
	if err.Kind == nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		r.broken += len(idx)
	}
	if len(idx) == len(r.all) || r.broken == len(r.all) { // each part of it breaks the same rule
		r.whole = err
	}
	for _, i := range idx {
		r.all[i] = r.failed(err.Proto())
	}
}

func (r *results[M, R]) Answer() (gproto.Message, *proto.Error) {
	if r.whole != nil {
		return nil, r.whole
	}
	return r.reply(r.all), nil
}

// whole is the answer to a request that one node answers.
type whole struct {
	m   gproto.Message
	err *proto.Error
}

func (w *whole) Take(_ []int, m gproto.Message)         { w.m = m }
func (w *whole) Fail(_ []int, err *proto.Error)         { w.err = err }
func (w *whole) Answer() (gproto.Message, *proto.Error) { return w.m, w.err }
