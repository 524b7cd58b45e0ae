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

// A repeated claim is a request of its own, which names the one that got no answer,
// and its deadline counts from the request that was answered. With a number of the
// caller's it is the same request.
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
		if len(asked) != 3 || asked[0].GetRequestNo() == asked[1].GetRequestNo() || string(asked[0].GetSession()) != string(asked[1].GetSession()) {
			t.Fatalf("asked %v", asked)
		}
		if len(asked[0].GetUnanswered()) != 0 || !slices.Equal(asked[1].GetUnanswered(), []uint64{asked[0].GetRequestNo()}) || len(asked[2].GetUnanswered()) != 0 {
			t.Errorf("unanswered: %v, %v, %v", asked[0].GetUnanswered(), asked[1].GetUnanswered(), asked[2].GetUnanswered())
		}
		if asked[2].GetRequestNo() == asked[1].GetRequestNo() || asked[0].GetRequestNo() == 0 {
			t.Errorf("request numbers %d, %d", asked[1].GetRequestNo(), asked[2].GetRequestNo())
		}
	})
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(nornv1.Method_METHOD_CLAIM, steps(hangUp, grantAfter(0, 10))))
		c := open(t, n)
		if _, err := c.Claim(t.Context(), ClaimRequest{Queues: []string{"q"}, Number: 77}); err != nil {
			t.Fatal(err)
		}
		for _, r := range n.Seen(nornv1.Method_METHOD_CLAIM) {
			if m := r.Message.(*nornv1.ClaimRequest); m.GetRequestNo() != 77 || len(m.GetUnanswered()) != 0 {
				t.Errorf("asked %v", m)
			}
		}
	})
}

// What a call was granted that nobody waited for is freed by the next one, or by
// FreeUnanswered, and named until a server has answered; not more than a request
// may name.
func TestFreeUnanswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(nornv1.Method_METHOD_CLAIM, func(r fakenode.Request) fakenode.Answer {
			if m := r.Message.(*nornv1.ClaimRequest); m.GetWorker() == "lost" {
				return fakenode.Answer{Lose: true}
			}
			return fakenode.Answer{Message: &nornv1.ClaimReply{}}
		}))
		c := open(t, n)
		last := func() *nornv1.ClaimRequest {
			all := n.Seen(nornv1.Method_METHOD_CLAIM)
			return all[len(all)-1].Message.(*nornv1.ClaimRequest)
		}
		if err := c.FreeUnanswered(t.Context()); err != nil || len(n.Seen(nornv1.Method_METHOD_CLAIM)) != 0 {
			t.Errorf("nothing is unanswered: %v, and it asked", err)
		}
		lose := func() uint64 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := c.Claim(ctx, ClaimRequest{Queues: []string{"q"}, Worker: "lost"}); !errors.Is(err, ErrUnknown) {
				t.Fatalf("an answer that nobody waits for: %v", err)
			}
			return last().GetRequestNo()
		}
		first := lose()
		second := lose()
		if got := last().GetUnanswered(); !slices.Contains(got, first) {
			t.Errorf("the next call names %v, not %d", got, first)
		}
		if _, err := c.Claim(t.Context(), ClaimRequest{Queues: []string{"q"}}); err != nil {
			t.Fatal(err)
		}
		if got := last().GetUnanswered(); !slices.Contains(got, first) || !slices.Contains(got, second) || slices.Contains(got, last().GetRequestNo()) {
			t.Errorf("request %d names %v, not %d and %d", last().GetRequestNo(), got, first, second)
		}
		if _, err := c.Claim(t.Context(), ClaimRequest{Queues: []string{"q"}}); err != nil || len(last().GetUnanswered()) != 0 {
			t.Errorf("told already, and named again: %v, %v", last().GetUnanswered(), err)
		}
		third := lose()
		if err := c.FreeUnanswered(t.Context()); err != nil || !slices.Contains(last().GetUnanswered(), third) || len(last().GetQueues()) != 0 {
			t.Errorf("%v: %v", err, last())
		}
		for range proto.MaxUnanswered {
			lose()
		}
		if n := len(last().GetUnanswered()); n != proto.MaxUnanswered {
			t.Errorf("%d are named", n)
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

// TestClaimAtANodeThatIsCutOff: what such a node has taken back for itself, others may hold
// still: the next attempt, or the next call, says that nobody will believe in it.
func TestClaimAtANodeThatIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refuse := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "no leader is in reach")
		refuse.Guarantee = "exclusive claims"
		n := fakenode.New(t, only(nornv1.Method_METHOD_CLAIM, func(r fakenode.Request) fakenode.Answer {
			if m := r.Message.(*nornv1.ClaimRequest); len(m.GetUnanswered()) == 0 || m.GetWorker() == "cut" {
				return fakenode.Answer{Err: refuse}
			}
			return fakenode.Answer{Message: &nornv1.ClaimReply{}}
		}))
		c := open(t, n)
		if _, err := c.Claim(t.Context(), ClaimRequest{Queues: []string{"q"}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := c.Claim(ctx, ClaimRequest{Queues: []string{"q"}, Worker: "cut"}); !errors.Is(err, ErrNoQuorum) {
			t.Fatal(err)
		}
		all := n.Seen(nornv1.Method_METHOD_CLAIM)
		last := all[len(all)-1].Message.(*nornv1.ClaimRequest).GetRequestNo()
		if err := c.FreeUnanswered(t.Context()); err != nil {
			t.Fatal(err)
		}
		all = n.Seen(nornv1.Method_METHOD_CLAIM)
		if m := all[len(all)-1].Message.(*nornv1.ClaimRequest); !slices.Contains(m.GetUnanswered(), last) {
			t.Errorf("request %d names %v, not %d", m.GetRequestNo(), m.GetUnanswered(), last)
		}
	})
}
