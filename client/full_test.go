package client

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestASilentNodeIsFoundThoughItIsFull: as many calls as it takes wait for a node that is
// frozen, and keep their places when they are given up. It is asked all the same whether it
// lives.
func TestASilentNodeIsFoundThoughItIsFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const most = 4
		var frozen atomic.Bool
		var open atomic.Int32 // requests that a node has not answered
		a := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
			if n := open.Add(1); n > most {
				t.Errorf("%d requests at a node that takes %d", n, most)
			}
			if frozen.Load() {
				return fakenode.Answer{Lose: true}
			}
			open.Add(-1)
			switch r.Method {
			case nornv1.Method_METHOD_HELLO:
				return fakenode.Answer{Message: &nornv1.HelloReply{
					Version: proto.MaxVersion, Limits: &nornv1.Limits{MaxInFlight: most}, Placement: fakenode.Placement(),
				}}
			case enqueueMethod:
				return accept(r)
			}
			return fakenode.Answer{}
		})
		b := fakenode.New(t, only(enqueueMethod, accept))
		c := openAll(t, map[string]*fakenode.Node{"a:1": a, "b:1": b}, []string{"a:1", "b:1"})
		if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
		frozen.Store(true)
		ended := make(chan error, 10*most)
		for range 10 * most {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				_, err := c.Enqueue(ctx, Task{Queue: "q"})
				ended <- err
			}()
		}
		for range 10 * most {
			wantIs(t, <-ended, ErrDeadline)
		}
		time.Sleep(10 * time.Second)
		if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
			t.Errorf("after the node was found to be silent: %v", err)
		}
	})
}
