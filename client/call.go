package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

const (
	firstBackoff = 25 * time.Millisecond
	maxBackoff   = time.Second
	// patience is after how long a call that is tried again and again says so, once.
	patience = 2 * time.Second
)

// request is one call of the API, sent as often as needed.
type request struct {
	op     string
	method uint16
	body   transport.Body
	decode func(flags uint16, b []byte) error
	wait   time.Duration // the server may take so much longer
	write  bool          // it has an effect, so its outcome can be unknown
	skip   int           // begin so many addresses further
	step   int           // from one address to the next, see [caller.stride]; 0: any

	// index is the node that has answered.
	index int
	// maybe is set when the answer was not to the first attempt, and an earlier
	// one may have had its effect.
	maybe bool
	// unanswered hears after each attempt that may have had an effect nobody knows
	// of, or was made at a node that had too few others in reach, before the next one;
	// nil: nobody does.
	unanswered func()
}

// class is which of the places of a connection it may take.
func (r *request) class() transport.Class {
	switch {
	case r.wait > 0:
		return transport.Long
	case r.method == uint16(nornv1.Method_METHOD_RENEW):
		return transport.Urgent
	}
	return transport.Short
}

// attempts is what is known of a request so far.
type attempts struct {
	made     int
	maybe    bool // one of them may have had its effect
	hopeless int  // addresses in a row that will never do
	refusing int  // connections in a row that were refused; the first one at refusedFrom
	full     int  // number of the first attempt that met a full disk; 0: none
	lonely   bool // a node had too few others in reach
	backoff  time.Duration
	addr     string
	last     error
	tell     time.Time // when to log that it is still tried; zero: nothing has failed yet
	told     bool

	// said is what a node has last answered to the request, refused what one has said
	// to a hello; both with the number of the attempt.
	refusedFrom       time.Time
	said, refused     error
	saidAt, refusedAt int
}

// telling is the error that says most of the last round of addresses: that a node has
// too few others in reach, and not that nobody is at the address that came after it.
func (a *attempts) telling(nodes int) error {
	recent := func(at int) bool { return at > 0 && a.made-at <= nodes }
	switch {
	case a.last == nil || isAnswer(a.last):
		return a.last
	case recent(a.saidAt):
		return a.said
	case recent(a.refusedAt):
		return fmt.Errorf("%w; another node: %w", a.last, errors.New(a.refused.Error())) // it is no more than a hint
	}
	return a.last
}

func isAnswer(err error) bool {
	var answer *proto.Error
	return errors.As(err, &answer)
}

// do sends a request until it is answered, ctx ends, or trying again is of no
// use. The error is nil or an [*Error].
func (c *caller) do(ctx context.Context, r *request) error {
	ctx, cancel := c.bounded(ctx, r.wait)
	defer cancel()
	var a attempts
	if r.step == 0 {
		r.step = c.stride()
	}
	way := race{at: int(c.preferred.Load()) + r.skip*r.step, step: r.step, left: -1}
	defer way.end()
	turn := c.turn.Add(1)
	for {
		if err := ctx.Err(); err != nil || c.base.Err() != nil {
			return c.giveUp(r, &a, c.ended(ctx))
		}
		cn, index, err := c.reach(ctx, &way, turn)
		a.made++
		a.addr = c.nodes[index].addr
		if err != nil {
			err = &transport.CallError{Err: err}
		} else {
			err = c.attempt(ctx, cn, r)
		}
		if err == nil {
			r.maybe, r.index = a.maybe, index
			c.stay(&a, index)
			return nil
		}
		maybe, lonely := a.maybe, a.lonely
		a.maybe, a.lonely = false, false
		final, pause := c.judge(ctx, r, &a, index, err, len(way.runs))
		doubt := a.maybe || a.lonely
		a.maybe, a.lonely = a.maybe || maybe, a.lonely || lonely
		if final {
			return c.giveUp(r, &a, nil)
		}
		if doubt && r.unanswered != nil {
			r.unanswered()
		}
		c.goesOn(r.op, &a, a.last)
		switch {
		case pause == 0:
		case len(way.runs) > 0:
			way.next = time.Now().Add(pause) // one of the others may be there before
		case !c.pause(ctx, pause):
			return c.giveUp(r, &a, c.ended(ctx))
		}
	}
}

// goesOn logs, once and not at once, that a call has failed with err and is tried again.
func (c *caller) goesOn(op string, a *attempts, err error) {
	now := time.Now()
	if a.tell.IsZero() {
		a.tell = now.Add(patience)
	}
	if err != nil && !a.told && now.After(a.tell) {
		a.told = true
		c.log().Warn("trying again", "op", op, "node", a.addr, "attempts", a.made, "error", err)
	}
}

// stride draws the order in which addresses are tried: with this step each comes once
// before any comes again. Were it the same for all, everybody who was at a node that
// dies would be at the next one, and at the one after that in the end.
func (c *caller) stride() int {
	n := len(c.nodes)
	for {
		if step := 1 + rand.N(max(n-1, 1)); coprime(step, n) {
			return step
		}
	}
}

func coprime(a, b int) bool {
	for b != 0 {
		a, b = b, a%b
	}
	return a == 1
}

// stay has the next calls begin with a node that could do what another one, which may be
// cut off from the rest and take a while to say so, could not.
func (c *caller) stay(a *attempts, index int) {
	if a.lonely {
		c.preferred.Store(uint32(index))
	}
}

// attempt sends the request once.
func (c *caller) attempt(ctx context.Context, cn *conn, r *request) error {
	cn.calls.Add(1)
	err := cn.CallAs(ctx, r.class(), r.method, r.body, r.decode)
	cn.calls.Add(-1)
	if errors.Is(err, transport.ErrConnClosed) {
		cn.drop()
	}
	return err
}

// judge says whether an error is final, and otherwise how long to wait. Nothing about where
// nobody answers is final while others are under way.
func (c *caller) judge(ctx context.Context, r *request, a *attempts, index int, err error, others int) (final bool, pause time.Duration) {
	var broken *transport.CallError
	var answer *proto.Error
	answered := errors.As(err, &answer)
	round := a.made%max(1, len(c.nodes)-others) == 0
	if !errors.As(err, &broken) {
		// Something came back: an error of the server, or nonsense.
		a.last, a.said, a.saidAt = err, err, a.made
		a.maybe = a.maybe || r.write && (!answered || answer.Effect != nornv1.Effect_EFFECT_NONE)
		if answered && answer.Kind == nornv1.ErrorKind_ERROR_KIND_DISK_FULL && a.elsewhere(len(c.nodes)) {
			c.preferred.CompareAndSwap(uint32(index), uint32((index+r.step)%len(c.nodes)))
			return false, 0
		}
		if !answered || !again(answer) {
			return true, 0
		}
		a.lonely = a.lonely || noQuorum(answer)
		if round || answer.Kind == nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
			pause = max(answer.RetryAfter, a.nextBackoff())
		}
		return false, pause
	}
	a.maybe = a.maybe || r.write && broken.Sent
	if ctx.Err() != nil && errors.Is(broken.Err, ctx.Err()) {
		return false, 0
	}
	a.last = broken.Err
	if c.nobodyThere(a, broken.Err) && others == 0 {
		return true, 0
	}
	tooLarge := errors.Is(err, transport.ErrFrameTooLarge) && !errors.Is(err, transport.ErrConnClosed) // else it is why the connection has ended
	switch {
	case errors.Is(err, transport.ErrEncode), tooLarge && !broken.Sent:
		a.last = proto.Invalid("the request cannot be sent: %v", broken.Err)
		return true, 0
	case tooLarge:
		a.last = badAnswer(broken.Err)
		return true, 0
	case answered && refusesUs(answer.Kind), wrongPeer(err):
		a.refused, a.refusedAt = broken.Err, a.made
		a.hopeless++
	default:
		a.hopeless = 0
	}
	// Whoever comes next need not run into the same node first.
	c.preferred.CompareAndSwap(uint32(index), uint32((index+r.step)%len(c.nodes)))
	if a.hopeless >= len(c.nodes) && others == 0 {
		return true, 0
	}
	lost := a.made == 1 && broken.Sent // a connection that lived until now: try again at once
	if round && !lost {
		pause = a.nextBackoff()
		if answered {
			pause = max(pause, answer.RetryAfter)
		}
	}
	return false, pause
}

// nobodyThere counts connections that were refused, and tells whether that is the end of
// the call: see [WithRefusedTimeout].
func (c *caller) nobodyThere(a *attempts, err error) bool {
	if !errors.Is(err, syscall.ECONNREFUSED) {
		a.refusing = 0
		return false
	}
	if a.refusing == 0 {
		a.refusedFrom = time.Now()
	}
	a.refusing++
	return c.opts.refused > 0 && a.refusing >= len(c.nodes) && c.info.Load() == nil && time.Since(a.refusedFrom) >= c.opts.refused
}

// wrongPeer tells whether whoever answers at an address will never do, as far as one
// call is concerned: another protocol, or TLS in which one side does not take the other.
func wrongPeer(err error) bool {
	for _, e := range []error{transport.ErrPeerOther, transport.ErrPeerHTTP, transport.ErrPeerTLS, transport.ErrPeerNoTLS, transport.ErrUntrusted, transport.ErrTLSRefused} {
		if errors.Is(err, e) {
			return true
		}
	}
	var answer *proto.Error // to a hello: so answers the port of nodes
	return errors.As(err, &answer) && answer.Kind == nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT
}

// elsewhere tells whether, after a node without room, there is one that was not
// asked since the first of them: another one may have some.
func (a *attempts) elsewhere(nodes int) bool {
	if a.full == 0 {
		a.full = a.made
	}
	return a.made-a.full < nodes-1
}

// refusesUs lists the kinds of a refused connection that no retry changes, at this
// address.
func refusesUs(k nornv1.ErrorKind) bool {
	return k == nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED || k == nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED ||
		k == nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE || k == nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED
}

// nextBackoff doubles, with jitter down to a half.
func (a *attempts) nextBackoff() time.Duration {
	a.backoff = min(max(2*a.backoff, firstBackoff), maxBackoff)
	return a.backoff/2 + rand.N(a.backoff/2)
}

// giveUp makes the error of a call.
func (c *caller) giveUp(r *request, a *attempts, ended error) error {
	var answer *proto.Error
	answered := errors.As(a.last, &answer)
	if c.base.Err() != nil && !answered {
		ended = ErrClosed
	}
	reason := a.last
	if ended != nil {
		reason = a.telling(len(c.nodes))
	}
	e := &Error{Op: r.op, Addr: a.addr, Attempts: a.made, Unknown: a.maybe, Err: reason, Ended: ended}
	if ended == nil && answered && settles(answer.Kind) {
		e.Unknown = false
	}
	return e
}

// endOf is why ctx has ended, with the cause that it was given; nil: it has not.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if err == nil || cause == nil || errors.Is(err, cause) {
		return err
	}
	return fmt.Errorf("%w: %w", err, cause)
}

// sleep waits for d, or the end of ctx or of the client.
func (c *caller) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	case <-c.base.Done():
	}
}

// sharedDeadline is a context for all calls that begin within a second and
// have none of their own: a timer per call would cost as much as the call.
type sharedDeadline struct {
	ctx  context.Context
	born time.Time
}

const sharedFor = time.Second

// bounded gives ctx a deadline if it has none.
func (c *caller) bounded(ctx context.Context, wait time.Duration) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	if ctx.Done() != nil || wait > 0 {
		return context.WithTimeout(ctx, c.opts.timeout+min(wait, maxTimeout))
	}
	now := time.Now()
	s := c.shared.Load()
	if s == nil || now.Sub(s.born) >= sharedFor {
		// It is never cancelled: calls hold it until it ends by itself.
		fresh, cancel := context.WithTimeout(c.base, c.opts.timeout+sharedFor)
		context.AfterFunc(fresh, cancel)
		s = &sharedDeadline{ctx: fresh, born: now}
		c.shared.Store(s)
	}
	return s.ctx, func() {}
}
