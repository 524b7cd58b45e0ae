package client

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestATimeoutIsOfTheWholeCall: also of one that has to ask something else first.
func TestATimeoutIsOfTheWholeCall(t *testing.T) {
	named := &nornv1.SchedulesReply{Schedules: []*nornv1.Schedule{{Name: "s", Uuid: "u"}}}
	for name, tt := range map[string]struct {
		first nornv1.Method // is answered after most of the time, whatever comes after it never
		reply fakenode.Answer
		call  func(t *testing.T, c *Client) error
	}{
		"enqueue": {nornv1.Method_METHOD_HELLO, fakenode.Answer{}, func(t *testing.T, c *Client) error {
			_, err := c.Enqueue(t.Context(), Task{Queue: "q"})
			return err
		}},
		"enqueue many": {nornv1.Method_METHOD_HELLO, fakenode.Answer{}, func(t *testing.T, c *Client) error {
			_, err := c.EnqueueMany(t.Context(), []Task{{Queue: "q"}, {Queue: "q"}})
			return err
		}},
		"cancel": {nornv1.Method_METHOD_HELLO, fakenode.Answer{}, func(t *testing.T, c *Client) error {
			_, err := c.Cancel(t.Context(), []id.ID{{1}, {2}}, CancelOptions{})
			return err
		}},
		"trigger": {nornv1.Method_METHOD_HELLO, fakenode.Answer{}, func(t *testing.T, c *Client) error {
			_, err := c.Schedules().Trigger(t.Context(), "s")
			return err
		}},
		"delete": {nornv1.Method_METHOD_SCHEDULES, fakenode.Answer{Message: named}, func(t *testing.T, c *Client) error {
			return c.Schedules().Delete(t.Context(), "s")
		}},
		"drain": {nornv1.Method_METHOD_WORKERS, fakenode.Answer{Message: &nornv1.WorkersReply{}}, func(t *testing.T, c *Client) error {
			_, err := c.Workers().Drain(t.Context(), "w")
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
					switch r.Method {
					case tt.first:
						time.Sleep(4 * time.Second)
						return tt.reply
					case nornv1.Method_METHOD_HELLO, nornv1.Method_METHOD_PING:
						return fakenode.Answer{}
					}
					return fakenode.Answer{Lose: true}
				})
				c := open(t, n, WithTimeout(5*time.Second))
				began := time.Now()
				wantIs(t, tt.call(t, c), ErrDeadline)
				if took := time.Since(began); took > 6*time.Second {
					t.Errorf("it took %v, with a timeout of 5 s", took)
				}
			})
		})
	}
}

// TestTasksOfUnknownOutcomeHaveIDs: those that the client has made, so that they can be asked
// for, or enqueued again under the same ones. What was never sent is no unknown outcome.
func TestTasksOfUnknownOutcomeHaveIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(enqueueMethod, lose))
		c := open(t, n)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		results, err := c.EnqueueMany(ctx, slices.Repeat([]Task{{Queue: "q"}}, 150))
		wantIs(t, err, ErrUnknown, ErrDeadline)
		sent := n.Seen(enqueueMethod)[0].Message.(*nornv1.EnqueueRequest).GetTasks()
		if len(results) != 150 || len(sent) != 100 {
			t.Fatalf("%d results, %d tasks were sent", len(results), len(sent))
		}
		for i, r := range results {
			if r.ID.IsZero() || i < len(sent) && r.ID != id.ID(sent[i].GetId()) {
				t.Errorf("task %d has the ID %s", i, r.ID)
			}
			wantIs(t, r.Err, ErrDeadline)
			if errors.Is(r.Err, ErrUnknown) != (i < len(sent)) {
				t.Errorf("task %d: %v", i, r.Err)
			}
		}
	})
}
