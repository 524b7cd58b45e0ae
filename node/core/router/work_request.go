package router

import (
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// WorkRequest carries out the parts of a [nornv1.WorkRequest] as requests of their own, all of them
// begun in this round: what is ended and what is granted are on their way to the same disks
// together. The answer leaves when the last part has its own.
func (r *Machine) WorkRequest(now clock.Time, q *message.Request, m *nornv1.WorkRequest) (gproto.Message, *proto.Error) {
	if err := convert.CheckWork(m); err != nil {
		return nil, err
	}
	if r.Crowds(q.From) {
		return nil, refusal.Crowded(MaxWaiting)
	}
	g := r.Gather(now, q, &worked{reply: &nornv1.WorkReply{}, of: m}, 0)
	for _, part := range []struct {
		n      workPart
		method nornv1.Method
		body   gproto.Message
		is     bool
	}{
		{workCompletions, nornv1.Method_METHOD_COMPLETE, &nornv1.CompleteRequest{Completions: m.GetCompletions(), Durability: m.GetDurability()}, len(m.GetCompletions()) > 0},
		{workFailures, nornv1.Method_METHOD_FAIL, &nornv1.FailRequest{Failures: m.GetFailures()}, len(m.GetFailures()) > 0},
		{workReleases, nornv1.Method_METHOD_RELEASE, &nornv1.ReleaseRequest{Claims: m.GetReleases()}, len(m.GetReleases()) > 0},
		{workClaim, nornv1.Method_METHOD_CLAIM, m.GetClaim(), m.GetClaim() != nil},
	} {
		if part.is {
			r.OwnPart(now, g, int(part.n), uint16(part.method), part.body, q.Received)
		}
	}
	return nil, nil
}

// workPart is a part of a WorkRequest.
//
// It stands in the place of an item's index, by which the joiner tells the parts apart.
type workPart int

const (
	workCompletions workPart = iota
	workFailures
	workReleases
	workClaim
)

// worked makes one answer of those to the parts.
type worked struct {
	of    *nornv1.WorkRequest
	reply *nornv1.WorkReply
}

// Take puts the answer to a part in its place.
func (w *worked) Take(idx []int, m gproto.Message) {
	if claims, ok := m.(*nornv1.ClaimReply); ok {
		w.reply.Claim = claims
		return
	}
	results := m.(*nornv1.WriteReply).GetResults()
	switch workPart(idx[0]) {
	case workCompletions:
		w.reply.Completions = results
	case workFailures:
		w.reply.Failures = results
	case workReleases:
		w.reply.Releases = results
	}
}

// Fail has each item of a part bear the error of the part.
func (w *worked) Fail(idx []int, err *proto.Error) {
	all := func(n int) []*nornv1.WriteResult {
		out := make([]*nornv1.WriteResult, n)
		for i := range out {
			out[i] = &nornv1.WriteResult{Error: err.Proto()}
		}
		return out
	}
	switch workPart(idx[0]) {
	case workCompletions:
		w.reply.Completions = all(len(w.of.GetCompletions()))
	case workFailures:
		w.reply.Failures = all(len(w.of.GetFailures()))
	case workReleases:
		w.reply.Releases = all(len(w.of.GetReleases()))
	case workClaim:
		w.reply.ClaimError = err.Proto()
	}
}

// Answer gives all parts together. Parts that were not asked for stay empty.
func (w *worked) Answer() (gproto.Message, *proto.Error) { return w.reply, nil }
