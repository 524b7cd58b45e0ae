package client

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// WorkRequest is what [Client.Work] ends and asks for: at least one task is ended.
type WorkRequest struct {
	Completions []*nornv1.Completion
	Failures    []*nornv1.Failure
	Releases    []Ref
	// Claim asks for the next tasks; nil: for none. Its Wait and Number must be 0: the answer
	// comes as soon as what is ended is durable.
	Claim *ClaimRequest
}

// WorkResult has a result for each item, in their order, and what was granted.
type WorkResult struct {
	Completions, Failures, Releases []Result
	Claims                          []*Claim
	// ClaimErr is why nothing was granted, an [*Error]; nil also where nothing was ready. As
	// with [Client.Claim] claims may have been granted when the outcome is unknown: the next
	// Claim or Work frees them.
	ClaimErr error
}

// Work ends tasks and asks for the next ones in one request: what a worker does each time
// that it has finished something. It is Complete, Fail, Release and Claim together; items
// that no server could take in it are sent again by themselves. The error is set only when
// no server answered, or the request breaks a rule.
func (c *Client) Work(ctx context.Context, r WorkRequest, opts ...WriteOption) (*WorkResult, error) {
	const op = "work"
	ended := len(r.Completions) + len(r.Failures) + len(r.Releases)
	switch {
	case ended == 0:
		return nil, &Error{Op: op, Err: proto.Invalid("it ends no task; ask for tasks alone with Claim")}
	case r.Claim != nil && (r.Claim.Wait != 0 || r.Claim.Number != 0):
		return nil, &Error{Op: op, Err: proto.Invalid("Claim.Wait and Claim.Number are for Claim alone")}
	}
	ctx, cancel := c.bounded(ctx, 0)
	defer cancel()
	m := &nornv1.WorkRequest{Completions: r.Completions, Durability: written(opts).durability.proto(), Failures: r.Failures}
	for _, ref := range r.Releases {
		m.Releases = append(m.Releases, &nornv1.ClaimRef{Id: ref.ID.Bytes(), Token: ref.Token})
	}
	var reply nornv1.WorkReply
	b := &stamped{message: message{m: m}}
	q := &request{op: op, method: uint16(nornv1.Method_METHOD_WORK), write: true, body: b,
		decode: func(flags uint16, body []byte) error { return decodeInto(flags, body, &reply) }}
	if r.Claim != nil {
		m.Claim = r.Claim.proto(c)
		claim := &claimBody{m: m.Claim}
		m.Claim.RequestNo, m.Claim.Unanswered = c.NextClaim(), c.lost.take()
		q.unanswered = func() { claim.renumber(c.NextClaim()) }
	}
	if err := c.do(ctx, q); err != nil {
		if r.Claim != nil {
			c.lost.keep(m.Claim, errors.Is(err, ErrUnknown) || errors.Is(err, ErrNoQuorum))
		}
		return nil, err
	}
	return worked(ctx, c, r, m, &reply, b.stamp, opts)
}

// worked reads an answer, and sends again what no server could take.
func worked(ctx context.Context, c *Client, r WorkRequest, m *nornv1.WorkRequest, reply *nornv1.WorkReply, stamp time.Time, opts []WriteOption) (*WorkResult, error) {
	out := &WorkResult{}
	completions := itemsOf(m.Completions, (*nornv1.Completion).GetId)
	failures := itemsOf(m.Failures, (*nornv1.Failure).GetId)
	releases := itemsOf(m.Releases, (*nornv1.ClaimRef).GetId)
	for _, part := range []struct {
		to    *[]Result
		tasks []id.ID
		got   []*nornv1.WriteResult
		again func(items []int) ([]Result, error)
	}{
		{&out.Completions, completions, reply.GetCompletions(), func(items []int) ([]Result, error) {
			return c.CompleteMany(ctx, some(r.Completions, items), opts...)
		}},
		{&out.Failures, failures, reply.GetFailures(), func(items []int) ([]Result, error) {
			return failMany(ctx, c, some(r.Failures, items), some(failures, items))
		}},
		{&out.Releases, releases, reply.GetReleases(), func(items []int) ([]Result, error) {
			return c.Release(ctx, some(r.Releases, items)...)
		}},
	} {
		if len(part.got) != len(part.tasks) {
			return nil, &Error{Op: "work", Unknown: true, Err: badAnswer(errResults)}
		}
		*part.to = judgedOnce(part.tasks, part.got, part.again)
	}
	if e := reply.GetClaimError(); e != nil {
		err := proto.FromProto(e)
		out.ClaimErr = &Error{Op: "work", Attempts: 1, Unknown: err.Effect != nornv1.Effect_EFFECT_NONE, Err: err}
		c.lost.keep(m.Claim, errors.Is(out.ClaimErr, ErrUnknown) || errors.Is(out.ClaimErr, ErrNoQuorum))
		return out, nil
	}
	var err error
	if out.Claims, err = claimsOf(reply.GetClaim(), stamp); err != nil {
		return nil, &Error{Op: "work", Attempts: 1, Unknown: true, Err: err}
	}
	return out, nil
}

// errResults is wrapped when an answer has not one result for each item.
var errResults = errors.New("not one result for each item")

// judgedOnce reads the results of items. Those of which the server says that another attempt
// may help are sent again, once and for all, by again.
func judgedOnce(tasks []id.ID, got []*nornv1.WriteResult, resend func(items []int) ([]Result, error)) []Result {
	if len(tasks) == 0 {
		return nil
	}
	out, left := make([]Result, len(tasks)), []int(nil)
	for i, g := range got {
		out[i] = Result{ID: tasks[i], Receipt: g.GetReceipt(), State: g.GetState()}
		if g.GetError() == nil {
			continue
		}
		e := proto.FromProto(g.GetError())
		out[i].Err = &Error{Op: "work", Attempts: 1, Unknown: e.Effect != nornv1.Effect_EFFECT_NONE, Err: e}
		if again(e) {
			left = append(left, i)
		}
	}
	if len(left) == 0 {
		return out
	}
	results, err := resend(left)
	for k, i := range left {
		if err != nil {
			out[i].Err = err
			continue
		}
		out[i] = results[k]
	}
	return out
}

// itemsOf gives the tasks that items are about; the zero ID for what is none, which is for the
// server to refuse.
func itemsOf[T any](items []T, of func(T) []byte) []id.ID {
	out := make([]id.ID, len(items))
	for i := range items {
		out[i], _ = id.FromBytes(of(items[i]))
	}
	return out
}

func some[T any](all []T, items []int) []T {
	out := make([]T, len(items))
	for k, i := range items {
		out[k] = all[i]
	}
	return out
}

// proto is the request without what each attempt has of its own.
func (r *ClaimRequest) proto(c *Client) *nornv1.ClaimRequest {
	return &nornv1.ClaimRequest{
		Queues: r.Queues, MaxTasks: uint32(min(max(r.Max, 0), math.MaxInt32)), LeaseSeconds: r.Lease.Seconds(), Worker: r.Worker,
		Session: c.session[:], RequestNo: r.Number,
	}
}

// claimsOf reads what was granted in answer to a frame sent at stamp.
func claimsOf(reply *nornv1.ClaimReply, stamp time.Time) ([]*Claim, error) {
	claims := make([]*Claim, 0, len(reply.GetGrants()))
	for _, g := range reply.GetGrants() {
		proto.FillKind(g.GetTask())
		task, err := id.Parse(g.GetTask().GetId())
		if err != nil {
			return nil, badAnswer(err)
		}
		claims = append(claims, &Claim{
			Grant: g, ID: task, Token: g.GetToken(),
			Deadline: believe(stamp, proto.Seconds(reply.GetWaitedSeconds()), proto.Seconds(g.GetLeaseSeconds())),
		})
	}
	return claims, nil
}
