package client

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// Result is the outcome of one item of a batch: Receipt, or Err.
type Result struct {
	// ID is the task's. It is there with an Err too, so that a call whose outcome
	// is unknown can be repeated.
	ID id.ID
	// Receipt says what the accepted write has bought.
	Receipt *nornv1.Receipt
	// State is that of the task after it has failed, or was cancelled or retried;
	// with an ErrConflict the one that stands against it.
	State nornv1.State
	// Err is an [*Error], or nil.
	Err error
}

// judged is one item's result on the wire.
type judged interface{ GetError() *nornv1.Error }

// batch is a call that is answered item by item. Items that a server could not
// take now are sent again, the others not.
type batch[R judged] struct {
	op     string
	method nornv1.Method
	// first says how many of the items go into the next request; nil: as many
	// as a request may have.
	first func(items []int) int
	// body makes a request of items. It may be asked again for the same.
	body func(items []int) transport.Body
	// decode reads an answer.
	decode func(b []byte) ([]R, error)
	// take keeps the result of an item that has no error.
	take func(item int, r R)
	// refused keeps what comes with an error, the last one of an item; may be nil.
	refused func(item int, r R)

	index  int      // the node that has answered last
	step   int      // from one address to the next
	errs   []*Error // by item; nil: no item ever had one
	judged bool     // some item got an answer
	rounds attempts
}

// run sends n items. The errors are by item, nil where take was called, and
// nil altogether when there are none. The other error is set only when no item
// was judged at all: it is that of the first.
func (b *batch[R]) run(ctx context.Context, c *caller, n int) ([]*Error, error) {
	ctx, cancel := c.bounded(ctx, 0)
	defer cancel()
	b.step = c.stride()
	pending := make([]int, n)
	for i := range pending {
		pending[i] = i
	}
	for {
		later, pause, err := b.round(ctx, c, n, pending)
		switch {
		case err != nil && !b.judged:
			return b.errs, err
		case len(later) == 0:
			c.stay(&b.rounds, b.index)
			return b.errs, nil
		}
		b.rounds.made++
		c.goesOn(b.op, &b.rounds, b.errs[later[0]].Err)
		if !c.pause(ctx, max(pause, b.rounds.nextBackoff())) {
			for _, item := range later {
				b.errs[item].Ended = c.ended(ctx)
			}
			return b.errs, nil
		}
		pending = later
	}
}

// round sends each of the items once. later are those to send again, pause how
// long a server wants to be left alone.
func (b *batch[R]) round(ctx context.Context, c *caller, n int, pending []int) (later []int, pause time.Duration, err error) {
	for len(pending) > 0 {
		k := min(len(pending), c.maxItems())
		if b.first != nil {
			k = b.first(pending[:k])
		}
		results, maybe, err := b.send(ctx, c, pending[:k])
		if errors.Is(err, ErrInvalid) && k < n {
			// What is wrong with these is their own affair.
			b.abandon(c, n, pending[:k], err, false)
			b.judged = true
			pending = pending[k:]
			continue
		}
		if err != nil {
			b.abandon(c, n, pending[:k], err, false)
			b.abandon(c, n, pending[k:], err, true)
			for _, item := range later {
				b.errs[item].Ended = c.ended(ctx)
			}
			return nil, 0, err
		}
		b.judged = true
		for i, r := range results {
			item := pending[i]
			if r.GetError() == nil {
				if b.errs != nil {
					b.errs[item] = nil
				}
				b.take(item, r)
				continue
			}
			e := proto.FromProto(r.GetError())
			b.fail(n, item, e, maybe)
			if b.refused != nil {
				b.refused(item, r)
			}
			if again(e) {
				later, pause = append(later, item), max(pause, e.RetryAfter)
				b.rounds.lonely = b.rounds.lonely || noQuorum(e)
			}
		}
		pending = pending[k:]
	}
	return later, pause, nil
}

// fail notes what a server said of an item. maybe: an attempt before, in the
// same request, may have had its effect.
func (b *batch[R]) fail(n, item int, e *proto.Error, maybe bool) {
	if b.errs == nil {
		b.errs = make([]*Error, n)
	}
	before := b.errs[item]
	maybe = maybe || before != nil && before.Unknown
	unknown := maybe && !settles(e.Kind) || e.Effect != nornv1.Effect_EFFECT_NONE
	b.errs[item] = &Error{Op: b.op, Attempts: b.rounds.made + 1, Unknown: unknown, Err: e}
}

// abandon notes that no server said anything of items this time. unsent ones
// keep what was known of them, and where time has run out the reason is what a
// server said before, unless all addresses have been tried in vain since.
func (b *batch[R]) abandon(c *caller, n int, items []int, err error, unsent bool) {
	if b.errs == nil {
		b.errs = make([]*Error, n)
	}
	for _, item := range items {
		e := Error{Op: b.op, Err: err}
		var whole *Error
		if errors.As(err, &whole) {
			e = *whole
		}
		before := b.errs[item]
		e.Unknown = e.Unknown && !unsent || before != nil && before.Unknown
		if before != nil && (e.Err == nil || e.Ended != nil && e.Attempts <= len(c.nodes) && !isAnswer(e.Err)) {
			e.Err = before.Err
		}
		b.errs[item] = &e
	}
}

// send makes one request of items.
func (b *batch[R]) send(ctx context.Context, c *caller, items []int) (results []R, maybe bool, err error) {
	r := request{
		op: b.op, method: uint16(b.method), write: true, skip: b.rounds.made, step: b.step, body: b.body(items),
		decode: func(flags uint16, body []byte) (err error) {
			if flags&transport.FlagError != 0 {
				return remote(body)
			}
			if results, err = b.decode(body); err != nil {
				return badAnswer(err)
			}
			if len(results) != len(items) {
				return badAnswer(fmt.Errorf("%d results for %d items", len(results), len(items)))
			}
			return nil
		},
	}
	err = c.do(ctx, &r)
	b.index = r.index
	return results, r.maybe, err
}

// maxItems is how many items one request may have.
func (c *caller) maxItems() int {
	if i := c.info.Load(); i != nil && i.Limits.GetMaxBatchTasks() > 0 {
		return int(i.Limits.GetMaxBatchTasks())
	}
	return proto.MaxBatchTasks
}

// pause waits and tells whether to go on. It is false at once when a server
// wants a pause that is longer than what is left.
func (c *caller) pause(ctx context.Context, d time.Duration) bool {
	if end, ok := ctx.Deadline(); ok && d > maxBackoff && time.Until(end) < d {
		return false
	}
	c.sleep(ctx, d)
	return ctx.Err() == nil && c.base.Err() == nil
}

// ended is why there is no further attempt; nil: the pause a server wants is
// longer than what is left.
func (c *caller) ended(ctx context.Context) error {
	if c.base.Err() != nil {
		return ErrClosed
	}
	return endOf(ctx)
}

// asError avoids an error interface that holds a nil pointer.
func asError(e *Error) error {
	if e == nil {
		return nil
	}
	return e
}
