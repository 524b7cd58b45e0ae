package client

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestATimeoutWithoutEnd: who wants to wait for as long as can be said does not want to be
// told at once that the time is over.
func TestATimeoutWithoutEnd(t *testing.T) {
	answer := func(r fakenode.Request) fakenode.Answer {
		switch r.Method {
		case enqueueMethod:
			return accept(r)
		case nornv1.Method_METHOD_CLAIM:
			return fakenode.Answer{Message: &nornv1.ClaimReply{}}
		}
		return fakenode.Answer{}
	}
	for _, d := range []time.Duration{math.MaxInt64, math.MaxInt64 - time.Second} {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, fakenode.New(t, answer), WithTimeout(d))
			defer c.Close() // here, and not with the test: of the bubble's goroutines one waits for the time-out
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			_, background := c.Enqueue(context.Background(), Task{Queue: "q"})
			_, cancellable := c.Enqueue(ctx, Task{Queue: "q"})
			_, claim := c.Claim(ctx, ClaimRequest{Queues: []string{"q"}, Wait: d})
			if err := errors.Join(background, cancellable, claim); err != nil {
				t.Errorf("%v: %v", d, err)
			}
		})
	}
}
