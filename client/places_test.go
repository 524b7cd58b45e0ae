package client

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// fewPlaces is a node that takes so many requests of a connection at a time. Those for a
// log or tasks wait there, enqueues are never answered, all others at once.
func fewPlaces(t *testing.T, most uint32) *fakenode.Node {
	return fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
		switch m := r.Message.(type) {
		case *nornv1.Hello:
			return fakenode.Answer{Message: &nornv1.HelloReply{
				Version: proto.MaxVersion, Limits: &nornv1.Limits{MaxInFlight: most}, Placement: fakenode.Placement(),
			}}
		case *nornv1.LogRequest:
			time.Sleep(proto.Seconds(m.GetWaitSeconds()))
			return fakenode.Answer{Message: &nornv1.LogReply{State: nornv1.State_STATE_READY}}
		case *nornv1.ClaimRequest:
			time.Sleep(proto.Seconds(m.GetWaitSeconds()))
			return fakenode.Answer{Message: &nornv1.ClaimReply{}}
		case *nornv1.RenewRequest:
			return fakenode.Answer{Message: &nornv1.RenewReply{Results: []*nornv1.RenewResult{{LeaseSeconds: 30}}}}
		case *nornv1.CompleteRequest:
			return fakenode.Answer{Message: &nornv1.WriteReply{Results: []*nornv1.WriteResult{{Receipt: &nornv1.Receipt{}}}}}
		case *nornv1.EnqueueRequest:
			return fakenode.Answer{Lose: true}
		}
		return fakenode.Answer{}
	})
}

// TestWaitsLeaveRoom: as many waits as there are places, or more, keep no renewal, report
// or heartbeat of a worker that shares the client waiting.
func TestWaitsLeaveRoom(t *testing.T) {
	for _, most := range []uint32{3, 4, 16, 256} {
		for name, wait := range map[string]func(ctx context.Context, c *Client, task id.ID){
			"Wait": func(ctx context.Context, c *Client, task id.ID) { _, _ = c.Wait(ctx, task) },
			"Follow": func(ctx context.Context, c *Client, task id.ID) {
				for range c.Follow(ctx, task) {
				}
			},
			"Claim": func(ctx context.Context, c *Client, _ id.ID) {
				for ctx.Err() == nil {
					_, _ = c.Claim(ctx, ClaimRequest{Queues: []string{"q"}, Wait: 20 * time.Second})
				}
			},
		} {
			t.Run(fmt.Sprint(name, " ", most), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := open(t, fewPlaces(t, most))
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					for range 4 * most {
						go wait(ctx, c, id.ID{1})
					}
					for range 30 {
						time.Sleep(time.Second)
						quick(t, c)
					}
				})
			})
		}
	}
}

// quick makes calls of each kind that a worker needs, which have to be answered at once.
func quick(t *testing.T, c *Client) {
	t.Helper()
	began := time.Now()
	if results, err := c.Renew(t.Context(), []Ref{{id.ID{1}, 1}}, 0); err != nil || results[0].Err != nil {
		t.Fatal(results, err)
	}
	if _, err := c.Complete(t.Context(), id.ID{1}, 1, CompleteOptions{}); err != nil {
		t.Fatal(err)
	}
	s, errs := c.Workers().Stream(t.Context(), 0)
	if s == nil {
		t.Fatal(errs)
	}
	_, err := s.Session(t.Context(), &nornv1.SessionRequest{})
	wantIs(t, err, ErrUnimplemented)
	if took := time.Since(began); took > 0 {
		t.Fatalf("it took %v", took)
	}
}

// TestCallsThatHangLeaveRoom for renewals and heartbeats: enqueues whose copies are out
// of reach, for example.
func TestCallsThatHangLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, fewPlaces(t, 16))
		var failed atomic.Int32
		for range 100 {
			go func() {
				_, err := c.Enqueue(t.Context(), Task{Queue: "q"})
				wantIs(t, err, ErrDeadline)
				failed.Add(1)
			}()
		}
		time.Sleep(time.Second)
		began := time.Now()
		if _, err := c.Renew(t.Context(), []Ref{{id.ID{1}, 1}}, 0); err != nil || time.Since(began) > 0 {
			t.Errorf("%v, after %v", err, time.Since(began))
		}
		time.Sleep(time.Minute)
		if n := failed.Load(); n != 100 {
			t.Errorf("%d of 100 calls have ended", n)
		}
	})
}
