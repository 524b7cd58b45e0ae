package client

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestCloseEndsWhatIsTriedAgain: also a call that has been answered, and waits to be sent
// again; what the answer said is told besides.
func TestCloseEndsWhatIsTriedAgain(t *testing.T) {
	unavailable := refuse(&proto.Error{Kind: nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, Message: "no leader", Effect: nornv1.Effect_EFFECT_NONE})
	item := func(r fakenode.Request) fakenode.Answer {
		no := &proto.Error{Kind: nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, Message: "no leader", Effect: nornv1.Effect_EFFECT_NONE}
		return fakenode.Answer{Message: &nornv1.WriteReply{Results: []*nornv1.WriteResult{{Error: no.Proto()}}}}
	}
	for name, tt := range map[string]struct {
		method nornv1.Method
		answer fakenode.Script
		call   func(t *testing.T, c *Client) error
	}{
		"read": {nornv1.Method_METHOD_GET, unavailable, func(t *testing.T, c *Client) error {
			_, err := c.Get(t.Context(), id.ID{1})
			return err
		}},
		"write": {enqueueMethod, unavailable, func(t *testing.T, c *Client) error {
			_, err := c.Enqueue(t.Context(), Task{Queue: "q"})
			return err
		}},
		"item": {nornv1.Method_METHOD_COMPLETE, item, func(t *testing.T, c *Client) error {
			_, err := c.Complete(t.Context(), id.ID{1}, 1, CompleteOptions{})
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := open(t, fakenode.New(t, only(tt.method, tt.answer)))
				time.AfterFunc(5*time.Second, func() { c.Close() })
				err := tt.call(t, c)
				wantIs(t, err, ErrClosed, ErrUnavailable)
				wantIsNot(t, err, ErrCancelled, ErrUnknown, ErrDeadline)
			})
		})
	}
}
