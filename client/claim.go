package client

import (
	"context"
	"errors"
	"sync"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/internal/mutant"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// ClaimRequest is what [Client.Claim] is asked for. Only Queues is required.
type ClaimRequest struct {
	// Queues to take tasks from, at least one.
	Queues []string
	// Max is the most tasks to be granted; 0: one.
	Max int
	// Lease is how long the claims last unless renewed; 0: 30 s.
	Lease time.Duration
	// Wait is how long to wait when nothing is ready; 0: not at all.
	Wait time.Duration
	// Worker is shown in the task's claims.
	Worker string
	// Number has the same call made twice get the same grants, as long as the
	// leaders that made them lead: from [Client.NextClaim]. 0, which is best, has
	// each attempt draw its own, and what an attempt was granted whose answer was
	// lost is freed by the next one.
	Number uint64
}

// Claim is the right to run a task until Deadline.
type Claim struct {
	// Grant is what the server sent: the task, the lease, the checkpoint.
	Grant *nornv1.Grant
	// ID is the task's.
	ID id.ID
	// Token strictly rises with every claim of the task: hand it to whatever the
	// work writes to, so that late writers can be fenced off.
	Token uint64
	// Deadline is what a worker may believe (design 7.3), in local time with a
	// monotonic reading: send time + waited + lease - a thousandth of the lease.
	// Leave room before it for the work to stop.
	Deadline time.Time
}

// Ref names one claim.
type Ref struct {
	ID    id.ID
	Token uint64
}

// Ref is the claim's name.
func (c *Claim) Ref() Ref { return Ref{c.ID, c.Token} }

// NextClaim draws a number for [ClaimRequest].
func (c *Client) NextClaim() uint64 { return c.requestNo.Add(1) }

// Claim asks for tasks; none and no error when nothing was ready in time. When
// the outcome is unknown, claims may have been granted: the next Claim frees them,
// else they block their tasks until the lease is over. (With a Number of the
// caller's they are not freed but asked for again, with the same Number.)
func (c *Client) Claim(ctx context.Context, r ClaimRequest) ([]*Claim, error) {
	b := &claimBody{wait: r.Wait, m: r.proto(c)}
	ctx, cancel := c.bounded(ctx, max(r.Wait, 0))
	defer cancel()
	b.deadline, b.bounded = ctx.Deadline()
	var reply nornv1.ClaimReply
	q := &request{
		op: "claim", method: uint16(nornv1.Method_METHOD_CLAIM), write: true, body: b, wait: max(r.Wait, 0),
		decode: func(flags uint16, body []byte) error { return decodeInto(flags, body, &reply) },
	}
	if r.Number == 0 {
		b.m.RequestNo, b.m.Unanswered = c.NextClaim(), c.lost.take()
		q.unanswered = func() { b.renumber(c.NextClaim()) }
	}
	if err := c.do(ctx, q); err != nil {
		if r.Number == 0 {
			c.lost.keep(b.m, errors.Is(err, ErrUnknown) || errors.Is(err, ErrNoQuorum))
		}
		return nil, err
	}
	claims, err := claimsOf(&reply, b.stamp)
	if err != nil {
		return nil, &Error{Op: "claim", Attempts: 1, Unknown: true, Err: err}
	}
	return claims, nil
}

// FreeUnanswered frees what calls of Claim were granted whose answers were lost.
// The next Claim does so too: this is for who will make none.
func (c *Client) FreeUnanswered(ctx context.Context) error {
	lost := c.lost.take()
	if len(lost) == 0 {
		return nil
	}
	m := &nornv1.ClaimRequest{Session: c.session[:], RequestNo: c.NextClaim(), Unanswered: lost}
	err := c.do(ctx, &request{op: "claim", method: uint16(nornv1.Method_METHOD_CLAIM), body: message{m: m}, decode: func(flags uint16, body []byte) error {
		return decodeInto(flags, body, &nornv1.ClaimReply{})
	}})
	if err != nil {
		c.lost.keep(m, false)
	}
	return err
}

// believe is the deadline of a lease that was granted or renewed in answer to a
// frame sent at stamp. Origin of the monotonic time is the stamp itself.
func believe(stamp time.Time, waited, lease time.Duration) time.Time {
	if mutant.DeadlineReceipt.On() {
		stamp, waited = time.Now(), 0
	}
	return stamp.Add(time.Duration(clock.WorkerDeadline(0, waited, lease, clock.Margin(lease, 0))))
}

// claimBody is a ClaimRequest that waits no longer than there is time, and knows
// when it was sent last.
type claimBody struct {
	m        *nornv1.ClaimRequest
	wait     time.Duration
	deadline time.Time
	bounded  bool
	stamp    time.Time // just before the frame was made
}

// renumber makes it a new request, which says that no answer came to the old one, or none
// with tasks: what a node that is cut off has taken back for itself others may still hold.
// So a copy of the old one that comes late, from a connection that died, can
// neither be granted anything nor have anything freed that is held by then.
func (b *claimBody) renumber(number uint64) {
	b.m.Unanswered = lastOf(append(b.m.Unanswered, b.m.RequestNo))
	b.m.RequestNo = number
}

// lastOf gives as many of the last numbers as a request may name.
func lastOf(all []uint64) []uint64 { return all[max(0, len(all)-proto.MaxUnanswered):] }

// lostClaims are the numbers of claim requests without an answer that no server has
// surely been told of: the next request names them.
type lostClaims struct {
	mu      sync.Mutex // guards numbers
	numbers []uint64
}

// take gives the numbers to a request.
func (l *lostClaims) take() []uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.numbers
	l.numbers = nil
	return all
}

// keep takes back those that a request named in vain, and its own when its
// outcome is unknown.
func (l *lostClaims) keep(m *nornv1.ClaimRequest, unknown bool) {
	all := m.GetUnanswered()
	if unknown {
		all = append(all, m.GetRequestNo())
	}
	if len(all) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.numbers = lastOf(append(l.numbers, all...))
}

// Size makes the message ready.
func (b *claimBody) Size() int {
	b.stamp = time.Now()
	wait := b.wait
	if left := b.deadline.Sub(b.stamp); b.bounded {
		// Room for the answer: an empty answer is better than none.
		wait = min(wait, left-min(left/10, time.Second))
	}
	b.m.WaitSeconds = max(wait, 0).Seconds()
	return message{m: b.m}.Size()
}

// AppendTo appends the request.
func (b *claimBody) AppendTo(dst []byte) ([]byte, error) { return message{m: b.m}.AppendTo(dst) }

// RenewResult is the claim as it stands, or why it is lost.
type RenewResult struct {
	// Deadline is as in [Claim].
	Deadline time.Time
	// Lease is the length of the lease from now on.
	Lease time.Duration
	// Claim is as the server sees it.
	Claim *nornv1.Claim
	// State is that of the task when the claim is lost: cancelled, for example.
	State nornv1.State
	// Err is an [*Error], or nil.
	Err error
}

// Renew renews claims, all in one request where the limits allow; lease 0 means
// the length of each claim's present lease. There is a result for each, in
// their order; the error is set only when no server answered.
func (c *Client) Renew(ctx context.Context, refs []Ref, lease time.Duration) ([]RenewResult, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	results := make([]RenewResult, len(refs))
	var sent *stamped
	b := &batch[*nornv1.RenewResult]{
		op: "renew", method: nornv1.Method_METHOD_RENEW,
		body: func(items []int) transport.Body {
			sent = &stamped{message: message{m: &nornv1.RenewRequest{Claims: claimRefs(refs, items), LeaseSeconds: lease.Seconds()}}}
			return sent
		},
		decode: func(b []byte) ([]*nornv1.RenewResult, error) {
			var m nornv1.RenewReply
			err := protobuf.Unmarshal(b, &m)
			return m.GetResults(), err
		},
		take: func(i int, r *nornv1.RenewResult) {
			lease := proto.Seconds(r.GetLeaseSeconds())
			results[i] = RenewResult{Claim: r.GetClaim(), Lease: lease, Deadline: believe(sent.stamp, 0, lease)}
		},
		refused: func(i int, r *nornv1.RenewResult) { results[i].State = r.GetState() },
	}
	errs, err := b.run(ctx, &c.caller, len(refs))
	if err != nil {
		return nil, err
	}
	for i, e := range errs {
		results[i].Err = asError(e)
	}
	return results, nil
}

// stamped is a message that knows when it was sent last.
type stamped struct {
	message
	stamp time.Time
}

// Size takes the stamp, before the frame is made.
func (b *stamped) Size() int {
	b.stamp = time.Now()
	return b.message.Size()
}

func claimRefs(refs []Ref, items []int) []*nornv1.ClaimRef {
	out := make([]*nornv1.ClaimRef, 0, len(items))
	for _, i := range items {
		out = append(out, &nornv1.ClaimRef{Id: refs[i].ID.Bytes(), Token: refs[i].Token})
	}
	return out
}
