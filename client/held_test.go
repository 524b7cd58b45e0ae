package client

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/transport"
)

// TestLostClaimsAreNamedUntilSomebodyHears: also when the call that names them fails, or
// when a node says for good that it has too few others in reach.
func TestLostClaimsAreNamedUntilSomebodyHears(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "cut off")
		cut.Guarantee, cut.Lasting = "exclusive claims", true
		n := fakenode.New(t, only(nornv1.Method_METHOD_CLAIM, steps(refuse(cut), refuse(cut), func(fakenode.Request) fakenode.Answer {
			return fakenode.Answer{Message: &nornv1.ClaimReply{}}
		})))
		c := open(t, n)
		_, err := c.Claim(t.Context(), ClaimRequest{Queues: []string{"q"}})
		wantIs(t, err, ErrNoQuorum)
		wantIs(t, c.FreeUnanswered(t.Context()), ErrNoQuorum)
		if err := c.FreeUnanswered(t.Context()); err != nil {
			t.Fatal(err)
		}
		var asked []*nornv1.ClaimRequest
		for _, r := range n.Seen(nornv1.Method_METHOD_CLAIM) {
			asked = append(asked, r.Message.(*nornv1.ClaimRequest))
		}
		if len(asked) != 3 || !slices.Contains(asked[1].GetUnanswered(), asked[0].GetRequestNo()) || !slices.Contains(asked[2].GetUnanswered(), asked[0].GetRequestNo()) {
			t.Errorf("asked %v", asked)
		}
	})
}

// TestTheNewestLostClaimsAreNamed: of more than a request may name, and those of several
// calls at a time.
func TestTheNewestLostClaimsAreNamed(t *testing.T) {
	var l lostClaims
	l.keep(&nornv1.ClaimRequest{RequestNo: 1}, true)
	l.keep(&nornv1.ClaimRequest{RequestNo: 3, Unanswered: []uint64{2}}, false)
	if got := l.take(); !slices.Equal(got, []uint64{1, 2}) {
		t.Errorf("of two calls are kept %v", got)
	}
	b := &claimBody{m: &nornv1.ClaimRequest{RequestNo: 1}}
	for n := range uint64(proto.MaxUnanswered + 5) {
		b.renumber(n + 2)
	}
	if got := b.m.GetUnanswered(); len(got) != proto.MaxUnanswered || got[0] != 6 || got[len(got)-1] != proto.MaxUnanswered+5 {
		t.Errorf("%d are named, from %d to %d", len(got), got[0], got[len(got)-1])
	}
}

// TestAGrantThatMakesNoSense may be one all the same.
func TestAGrantThatMakesNoSense(t *testing.T) {
	n := fakenode.New(t, only(nornv1.Method_METHOD_CLAIM, func(fakenode.Request) fakenode.Answer {
		return fakenode.Answer{Message: &nornv1.ClaimReply{Grants: []*nornv1.Grant{{Task: &nornv1.Task{Id: "?"}, Token: 1}}}}
	}))
	_, err := open(t, n).Claim(t.Context(), ClaimRequest{Queues: []string{"q"}})
	wantIs(t, err, ErrInternal, ErrUnknown)
}

// TestRenewalsCountFromTheRequestThatWasAnswered, and for as long as the server says.
func TestRenewalsCountFromTheRequestThatWasAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(nornv1.Method_METHOD_RENEW, steps(func(fakenode.Request) fakenode.Answer {
			time.Sleep(3 * time.Second)
			return fakenode.Answer{Close: true}
		}, func(fakenode.Request) fakenode.Answer {
			time.Sleep(time.Second)
			return fakenode.Answer{Message: &nornv1.RenewReply{Results: []*nornv1.RenewResult{{LeaseSeconds: 10}}}}
		})))
		c := open(t, n)
		began := time.Now()
		results, err := c.Renew(t.Context(), []Ref{{id.ID{1}, 1}}, 20*time.Second)
		if err != nil || results[0].Err != nil {
			t.Fatal(results, err)
		}
		if got := results[0].Deadline.Sub(began); got < 12*time.Second || got > 13500*time.Millisecond || results[0].Lease != 10*time.Second {
			t.Errorf("a lease of %v, until %v after the beginning", results[0].Lease, got)
		}
	})
}

// TestTheSharedDeadlineIsOfToday: calls without one of their own never get one that is about
// to end.
func TestTheSharedDeadlineIsOfToday(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(enqueueMethod, accept))
		c := open(t, n)
		for range 3 {
			if _, err := c.Enqueue(context.Background(), Task{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(DefaultTimeout / 2)
		}
		for _, r := range n.Seen(enqueueMethod) {
			if r.Deadline < DefaultTimeout {
				t.Errorf("the server heard of a deadline in %v", r.Deadline)
			}
		}
	})
}

// TestRetryAtGoesBeforeRetryIn, as is said of it.
func TestRetryAtGoesBeforeRetryIn(t *testing.T) {
	n := fakenode.New(t, ok)
	at := time.Now().Add(time.Hour)
	if _, err := open(t, n).Fail(t.Context(), id.ID{1}, 1, FailOptions{RetryAt: at, RetryIn: time.Second}); err != nil {
		t.Fatal(err)
	}
	if got := n.Seen(nornv1.Method_METHOD_FAIL)[0].Message.(*nornv1.FailRequest).GetFailures()[0].GetRetryAt().AsTime(); !got.Equal(at) {
		t.Errorf("retry at %v, want %v", got, at)
	}
}

// greeted answers a hello as said, and all else as usual.
func greeted(hello *nornv1.HelloReply, rest fakenode.Script) fakenode.Script {
	return func(r fakenode.Request) fakenode.Answer {
		if r.Method == nornv1.Method_METHOD_HELLO {
			return fakenode.Answer{Message: hello}
		}
		return rest(r)
	}
}

// TestAProtocolOfTheFutureIsRefused, whatever a node takes itself for able to.
func TestAProtocolOfTheFutureIsRefused(t *testing.T) {
	n := fakenode.New(t, greeted(&nornv1.HelloReply{Version: proto.MaxVersion + 1, Placement: fakenode.Placement()}, only(enqueueMethod, accept)))
	_, err := open(t, n).Enqueue(t.Context(), Task{Queue: "q"})
	wantIs(t, err, ErrIncompatible)
}

// TestNoMoreIsInFlightThanTheServerTakes: what is beyond waits here, with room for a ping.
func TestNoMoreIsInFlightThanTheServerTakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		n := fakenode.New(t, greeted(&nornv1.HelloReply{Version: proto.MaxVersion, Placement: fakenode.Placement(), Limits: &nornv1.Limits{MaxInFlight: 3}},
			only(enqueueMethod, func(r fakenode.Request) fakenode.Answer {
				<-gate
				return accept(r)
			})))
		c := open(t, n)
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			go func() { _, _ = c.Enqueue(context.Background(), Task{Queue: "q"}) }()
		}
		synctest.Wait()
		if got := len(n.Seen(enqueueMethod)); got != 2 {
			t.Errorf("%d requests are open", got)
		}
		close(gate)
		synctest.Wait()
		if got := len(n.Seen(enqueueMethod)); got != 3 {
			t.Errorf("%d requests were made", got)
		}
	})
}

// TestPings: an error is an answer too, and one that is none brings where tasks can go now.
func TestPings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var pings atomic.Pointer[fakenode.Script]
		ping := func(s fakenode.Script) { pings.Store(&s) }
		ping(func(fakenode.Request) fakenode.Answer { return fakenode.Answer{} })
		n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
			switch r.Method {
			case nornv1.Method_METHOD_PING:
				return (*pings.Load())(r)
			case enqueueMethod:
				return accept(r)
			}
			return fakenode.Answer{}
		})
		c := open(t, n)
		for range 2 {
			if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			ping(refuse(proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "full")))
			time.Sleep(2 * pingEvery)
		}
		if sent := n.Seen(enqueueMethod); sent[0].Conn != sent[1].Conn {
			t.Error("a ping that was refused has ended the connection")
		}
		synctest.Wait()
		ping(func(fakenode.Request) fakenode.Answer {
			return fakenode.Answer{Message: &nornv1.PingReply{Placement: &nornv1.Placement{Partitions: 64, Enqueueable: []byte{8}}}}
		})
		time.Sleep(2 * pingEvery)
		for range 20 {
			if got := ring.Of(c.NewID(), 64); got != 3 {
				t.Errorf("an ID in partition %d", got)
			}
		}
	})
}

// TestIDsDoNotRunAhead: after the clock was set back by more than nodes tolerate, IDs go by
// the clock again; they would be refused.
func TestIDsDoNotRunAhead(t *testing.T) {
	c := open(t, fakenode.New(t, only(enqueueMethod, accept))) // its eta is 5 s
	if err := c.Connect(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, ahead := range []time.Duration{4 * time.Second, time.Hour} {
		c.ids.gen.Next(time.Now().Add(ahead).UnixNano())
		if got := time.Until(c.NewID().Time()); got > 5*time.Second/2 {
			t.Errorf("an ID is %v ahead", got)
		}
	}
}

// TestBulkNeverReachesIntoTheFuture, whatever the filter says.
func TestBulkNeverReachesIntoTheFuture(t *testing.T) {
	n := fakenode.New(t, many(func(fakenode.Request) fakenode.Answer { return fakenode.Answer{} }, 0))
	c := open(t, n)
	if _, err := c.CancelWhere(t.Context(), Filter{Queue: "q", CreatedBefore: serverTime.Add(time.Hour)}, BulkOptions{}); err != nil {
		t.Fatal(err)
	}
	got := n.Seen(nornv1.Method_METHOD_LIST)[0].Message.(*nornv1.ListRequest).GetFilter().GetCreatedBefore()
	if want := timestamppb.New(serverTime.Add(2*5*time.Second + time.Millisecond)); !got.AsTime().Equal(want.AsTime()) {
		t.Errorf("lists what was created before %v, want %v", got.AsTime(), want.AsTime())
	}
}

// TestWhatMayHaveCome: what was sent and not answered, or answered with a doubt.
func TestWhatMayHaveCome(t *testing.T) {
	doubt := *proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "?")
	doubt.Effect = nornv1.Effect_EFFECT_UNKNOWN
	for _, tt := range []struct {
		err  error
		want bool
	}{
		{&transport.CallError{Sent: true, Err: transport.ErrConnClosed}, true},
		{&transport.CallError{Err: transport.ErrConnClosed}, false},
		{proto.Invalid("no"), false},
		{&doubt, true},
		{errors.New("nonsense"), true},
	} {
		if got := mayHaveCome(tt.err); got != tt.want {
			t.Errorf("%v: %v", tt.err, got)
		}
	}
}
