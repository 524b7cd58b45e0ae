package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// grantAfter answers a claim with one grant, after a long poll of some length.
func grantAfter(wait time.Duration, lease float64) fakenode.Script {
	return func(fakenode.Request) fakenode.Answer {
		time.Sleep(wait)
		return fakenode.Answer{Message: &nornv1.ClaimReply{WaitedSeconds: wait.Seconds(), Grants: []*nornv1.Grant{{
			Task: &nornv1.Task{Id: id.ID{1}.String(), Queue: "q"}, Token: 7, LeaseSeconds: lease,
		}}}}
	}
}

// deadline = send time of the frame that is answered + waited + lease - margin.
func TestClaimDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(nornv1.Method_METHOD_CLAIM, grantAfter(4*time.Second, 30)))
		c := open(t, n)
		sent := time.Now()
		claims, err := c.Claim(t.Context(), ClaimRequest{Queues: []string{"q"}, Lease: 30 * time.Second, Wait: 10 * time.Second, Worker: "w", Max: 3})
		if err != nil || len(claims) != 1 {
			t.Fatal(claims, err)
		}
		got := claims[0]
		if want := sent.Add(34*time.Second - 30*time.Millisecond - 1); !got.Deadline.Equal(want) {
			t.Errorf("deadline %v after the sending, want %v", got.Deadline.Sub(sent), want.Sub(sent))
		}
		if got.ID != (id.ID{1}) || got.Token != 7 || got.Ref() != (Ref{id.ID{1}, 7}) {
			t.Errorf("got %+v", got)
		}
		m := n.Seen(nornv1.Method_METHOD_CLAIM)[0].Message.(*nornv1.ClaimRequest)
		if m.GetLeaseSeconds() != 30 || m.GetWaitSeconds() != 10 || m.GetWorker() != "w" || m.GetMaxTasks() != 3 || len(m.GetSession()) != 16 {
			t.Errorf("asked %v", m)
		}
	})
}

// A repeated claim has the same name, and its deadline counts from the request
// that was answered.
func TestClaimAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slowHangUp := func(fakenode.Request) fakenode.Answer {
			time.Sleep(3 * time.Second)
			return fakenode.Answer{Close: true}
		}
		n := fakenode.New(t, only(nornv1.Method_METHOD_CLAIM, steps(slowHangUp, grantAfter(0, 10), grantAfter(0, 10))))
		c := open(t, n)
		began := time.Now()
		claims, err := c.Claim(t.Context(), ClaimRequest{Queues: []string{"q"}})
		if err != nil || len(claims) != 1 {
			t.Fatal(claims, err)
		}
		if got := claims[0].Deadline.Sub(began); got < 12*time.Second || got > 13*time.Second {
			t.Errorf("deadline after %v", got)
		}
		if _, err := c.Claim(t.Context(), ClaimRequest{Queues: []string{"q"}}); err != nil {
			t.Fatal(err)
		}
		var asked []*nornv1.ClaimRequest
		for _, r := range n.Seen(nornv1.Method_METHOD_CLAIM) {
			asked = append(asked, r.Message.(*nornv1.ClaimRequest))
		}
		if len(asked) != 3 || asked[0].GetRequestNo() != asked[1].GetRequestNo() || string(asked[0].GetSession()) != string(asked[1].GetSession()) {
			t.Errorf("asked %v", asked)
		}
		if asked[2].GetRequestNo() == asked[1].GetRequestNo() || asked[0].GetRequestNo() == 0 {
			t.Errorf("request numbers %d, %d", asked[1].GetRequestNo(), asked[2].GetRequestNo())
		}
	})
}

// A wait longer than the caller's deadline would end without any answer.
func TestClaimWaitFitsTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(nornv1.Method_METHOD_CLAIM, func(r fakenode.Request) fakenode.Answer {
			time.Sleep(proto.Seconds(r.Message.(*nornv1.ClaimRequest).GetWaitSeconds()))
			return fakenode.Answer{Message: &nornv1.ClaimReply{}}
		}))
		c := open(t, n)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if claims, err := c.Claim(ctx, ClaimRequest{Queues: []string{"q"}, Wait: time.Minute}); err != nil || len(claims) != 0 {
			t.Errorf("%v, %v", claims, err)
		}
		began := time.Now()
		if _, err := c.Claim(context.Background(), ClaimRequest{Queues: []string{"q"}, Wait: time.Minute}); err != nil {
			t.Error(err)
		}
		if time.Since(began) < time.Minute {
			t.Error("the wait was cut")
		}
	})
}

func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(nornv1.Method_METHOD_RENEW, func(r fakenode.Request) fakenode.Answer {
			time.Sleep(time.Second)
			m := &nornv1.RenewReply{}
			for _, ref := range r.Message.(*nornv1.RenewRequest).GetClaims() {
				if ref.GetToken() == 2 {
					m.Results = append(m.Results, &nornv1.RenewResult{Error: proto.Refused(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, "gone").Proto()})
					continue
				}
				m.Results = append(m.Results, &nornv1.RenewResult{LeaseSeconds: 20, Claim: &nornv1.Claim{Token: ref.GetToken()}})
			}
			return fakenode.Answer{Message: m}
		}))
		c := open(t, n)
		sent := time.Now()
		results, err := c.Renew(t.Context(), []Ref{{id.ID{1}, 1}, {id.ID{2}, 2}, {id.ID{3}, 3}}, 20*time.Second)
		if err != nil || len(results) != 3 {
			t.Fatal(results, err)
		}
		if got := results[0].Deadline.Sub(sent); got != 20*time.Second-20*time.Millisecond-1 || results[0].Err != nil {
			t.Errorf("deadline %v after the sending, error %v", got, results[0].Err)
		}
		wantIs(t, results[1].Err, ErrClaimLost)
		if results[2].Claim.GetToken() != 3 || results[2].Lease != 20*time.Second {
			t.Errorf("got %+v", results[2])
		}
	})
}
