package objects

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrNoAnswer is returned when a file system has not answered in time, as one over a
// network may not for ever. What was asked of it may still happen.
var ErrNoAnswer = errors.New("the file system does not answer")

// grace is for how long a call may go on after its context has ended: what is under
// way on a disk that answers is brought to its end.
const grace = time.Second

// Calls are those on one file system. The zero value has none.
type Calls struct{ left atomic.Int32 } // given up, and not ended yet

// Until makes a call, and gives it up when its context has ended and it has not. Nobody
// can take such a call back: it keeps its goroutine until it is answered, and as long no
// other one is made, so that they do not become more and more.
func (c *Calls) Until(ctx context.Context, call func() error) error {
	if c.left.Load() > 0 {
		return fmt.Errorf("%w, to a call of before", ErrNoAnswer)
	}
	const (
		under = iota // way
		ended
		left
	)
	var state atomic.Int32
	answer := make(chan error, 1)
	go func() {
		answer <- call()
		if !state.CompareAndSwap(under, ended) {
			c.left.Add(-1)
		}
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
	}
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case err := <-answer:
		return err
	case <-late.C:
	}
	c.left.Add(1)
	if state.CompareAndSwap(under, left) {
		return fmt.Errorf("%w: %w", ErrNoAnswer, context.Cause(ctx))
	}
	c.left.Add(-1)
	return <-answer
}
