package client

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestShortCallsLeaveASilentNode: a program that calls now and then, with less patience than
// it takes to find out that a node is silent, must not begin with that node for ever.
func TestShortCallsLeaveASilentNode(t *testing.T) {
	for name, from := range map[string]int{"from the beginning": 0, "later": 3} { // calls that are answered before
		want := min(from, 1) // that one which found the silent node, on a connection that was there
		synctest.Test(t, func(t *testing.T) {
			var frozen atomic.Bool
			frozen.Store(from == 0)
			a := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
				switch {
				case frozen.Load():
					return fakenode.Answer{Lose: true}
				case r.Method == nornv1.Method_METHOD_ENQUEUE:
					return accept(r)
				}
				return fakenode.Answer{}
			})
			b := fakenode.New(t, only(enqueueMethod, accept))
			c := openAll(t, map[string]*fakenode.Node{"a:1": a, "b:1": b}, []string{"a:1", "b:1"})
			call := func() error {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := c.Enqueue(ctx, Task{Queue: "q"})
				return err
			}
			failed := 0
			for i := range 10 {
				if i == from {
					frozen.Store(true)
				}
				if err := call(); err != nil {
					wantIs(t, err, ErrDeadline)
					failed++
				}
				time.Sleep(time.Minute)
			}
			if failed != want {
				t.Errorf("frozen %s: %d calls of 10 failed, want %d", name, failed, want)
			}
		})
	}
}
