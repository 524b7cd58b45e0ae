package core

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/intake"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/node/core/router"
	"github.com/norn-dev/norn/node/core/settle"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// lists finds the parts of requests that are lists.
type lists struct {
	intake *intake.Machine
	settle *settle.Machine
	reads  *replication.Reads
}

// of tells whether a request is a list. An enqueue that brings no ID is
// given one.
func (c lists) of(now clock.Time, m gproto.Message) (router.List, bool) {
	switch m := m.(type) {
	case *nornv1.EnqueueRequest:
		all := m.GetTasks()
		return router.List{
			N: len(all), Hint: one(m), Task: func(i int) []byte { return c.intake.Place(now, all[i]) },
			Best: func(i int) bool { return all[i].GetKey() != "" },
			Some: func(idx []int) gproto.Message {
				return &nornv1.EnqueueRequest{Tasks: router.Pick(all, idx), Durability: m.GetDurability()}
			},
			Join: router.EnqueueResults(len(all)),
		}, true
	case *nornv1.RenewRequest:
		all := m.GetClaims()
		return router.List{
			N: len(all), Led: true, Task: func(i int) []byte { return all[i].GetId() },
			Some: func(idx []int) gproto.Message {
				return &nornv1.RenewRequest{Claims: router.Pick(all, idx), LeaseSeconds: m.GetLeaseSeconds()}
			},
			Join: &router.Results[*nornv1.RenewReply, *nornv1.RenewResult]{
				All:    make([]*nornv1.RenewResult, len(all)),
				Of:     (*nornv1.RenewReply).GetResults,
				Failed: func(e *nornv1.Error) *nornv1.RenewResult { return &nornv1.RenewResult{Error: e} },
				Reply:  func(r []*nornv1.RenewResult) *nornv1.RenewReply { return &nornv1.RenewReply{Results: r} },
			},
		}, true
	}
	return c.writes(now, m)
}

// writes are the lists that are answered by a WriteReply.
func (c lists) writes(now clock.Time, m gproto.Message) (l router.List, ok bool) {
	strange := func(task []byte, token uint64) bool {
		return len(task) == id.Size && c.settle.UnheardOf(now, id.ID(task), token)
	}
	switch m := m.(type) {
	case *nornv1.UpdateRequest:
		// All are about one task, and go where it is.
		l = router.List{N: 1 + len(m.GetMore()), Best: func(int) bool { return strange(m.GetId(), m.GetToken()) }, Hint: one(m), Task: func(int) []byte { return m.GetId() }, Some: func([]int) gproto.Message { return m }}
	case *nornv1.CompleteRequest:
		all := m.GetCompletions()
		l = router.List{N: len(all), Hint: one(m), Best: func(i int) bool { return strange(all[i].GetId(), all[i].GetToken()) }, Task: func(i int) []byte { return all[i].GetId() }, Some: func(idx []int) gproto.Message {
			return &nornv1.CompleteRequest{Completions: router.Pick(all, idx), Durability: m.GetDurability()}
		}}
	case *nornv1.FailRequest:
		all := m.GetFailures()
		l = router.List{N: len(all), Led: true, Task: func(i int) []byte { return all[i].GetId() }, Some: func(idx []int) gproto.Message {
			return &nornv1.FailRequest{Failures: router.Pick(all, idx)}
		}}
	case *nornv1.ReleaseRequest:
		all := m.GetClaims()
		l = router.List{N: len(all), Led: true, Task: func(i int) []byte { return all[i].GetId() }, Some: func(idx []int) gproto.Message {
			return &nornv1.ReleaseRequest{Claims: router.Pick(all, idx)}
		}}
	case *nornv1.CancelRequest:
		all := m.GetIds()
		// The state of a task is best known to its leader, who knows the claims.
		l = router.List{N: len(all), Best: func(i int) bool { return len(m.GetOnlyStates()) > 0 || c.reads.Misses(all[i]) }, Task: func(i int) []byte { return all[i] }, Some: func(idx []int) gproto.Message {
			part := &nornv1.CancelRequest{Ids: router.Pick(all, idx), Reason: m.GetReason(), OnlyStates: m.GetOnlyStates(), Durability: m.GetDurability()}
			part.ProtoReflect().SetUnknown(m.ProtoReflect().GetUnknown())
			return part
		}}
	case *nornv1.RetryRequest:
		all := m.GetIds()
		l = router.List{N: len(all), Led: true, Task: func(i int) []byte { return all[i] }, Some: func(idx []int) gproto.Message {
			part := &nornv1.RetryRequest{Ids: router.Pick(all, idx), OnlyStates: m.GetOnlyStates()}
			part.ProtoReflect().SetUnknown(m.ProtoReflect().GetUnknown())
			return part
		}}
	default:
		return router.List{}, false
	}
	l.Join = &router.Results[*nornv1.WriteReply, *nornv1.WriteResult]{
		All:    make([]*nornv1.WriteResult, l.N),
		Of:     (*nornv1.WriteReply).GetResults,
		Failed: func(e *nornv1.Error) *nornv1.WriteResult { return &nornv1.WriteResult{Error: e} },
		Reply:  func(r []*nornv1.WriteResult) *nornv1.WriteReply { return &nornv1.WriteReply{Results: r} },
	}
	return l, true
}

// one tells whether a write asks for one copy, a hint included.
func one(m interface{ GetDurability() *nornv1.Durability }) bool {
	return m.GetDurability().GetLevel() == nornv1.WriteLevel_WRITE_LEVEL_ONE
}
