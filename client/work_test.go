package client

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// doneWork answers a WorkRequest with a receipt for each item and one grant.
func doneWork(r fakenode.Request) fakenode.Answer {
	m, reply := r.Message.(*nornv1.WorkRequest), &nornv1.WorkReply{}
	fine := func(n int) (all []*nornv1.WriteResult) {
		for range n {
			all = append(all, &nornv1.WriteResult{Receipt: &nornv1.Receipt{Copies: 2}})
		}
		return all
	}
	reply.Completions, reply.Failures, reply.Releases = fine(len(m.GetCompletions())), fine(len(m.GetFailures())), fine(len(m.GetReleases()))
	if m.GetClaim() != nil {
		reply.Claim = &nornv1.ClaimReply{Grants: []*nornv1.Grant{{Task: &nornv1.Task{Id: id.ID{7}.String()}, Token: 5, LeaseSeconds: 30}}}
	}
	return fakenode.Answer{Message: reply}
}

func workOf(claim *ClaimRequest) WorkRequest {
	return WorkRequest{
		Completions: []*nornv1.Completion{{Id: id.ID{1}.Bytes(), Token: 1}}, Failures: []*nornv1.Failure{{Id: id.ID{2}.Bytes(), Token: 2}},
		Releases: []Ref{{id.ID{3}, 3}}, Claim: claim,
	}
}

// TestWork: a result for each item, and what was granted with a deadline that counts from the
// sending of the request.
func TestWork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(nornv1.Method_METHOD_WORK, doneWork))
		c := open(t, n)
		r, err := c.Work(t.Context(), workOf(&ClaimRequest{Queues: []string{"q"}, Max: 3}))
		if err != nil || r.ClaimErr != nil || len(r.Claims) != 1 || r.Claims[0].ID != (id.ID{7}) || r.Claims[0].Deadline.IsZero() {
			t.Fatalf("%+v, %v", r, err)
		}
		for i, got := range [][]Result{r.Completions, r.Failures, r.Releases} {
			if len(got) != 1 || got[0].Err != nil || got[0].ID != (id.ID{byte(i + 1)}) || got[0].Receipt.GetCopies() != 2 {
				t.Errorf("part %d: %+v", i, got)
			}
		}
		if r, err = c.Work(t.Context(), workOf(nil)); err != nil || len(r.Claims) != 0 || n.Seen(nornv1.Method_METHOD_WORK)[1].Message.(*nornv1.WorkRequest).Claim != nil {
			t.Errorf("without a claim: %+v, %v", r, err)
		}
		_, err = c.Work(t.Context(), WorkRequest{Claim: &ClaimRequest{Queues: []string{"q"}}})
		wantIs(t, err, ErrInvalid)
		_, err = c.Work(t.Context(), workOf(&ClaimRequest{Queues: []string{"q"}, Wait: 1}))
		wantIs(t, err, ErrInvalid)
	})
}

// TestWorkAfterALostAnswer: what is ended is said again, and the claim is a new one that
// names the one without an answer.
func TestWorkAfterALostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(nornv1.Method_METHOD_WORK, steps(hangUp, doneWork)))
		if _, err := open(t, n).Work(t.Context(), workOf(&ClaimRequest{Queues: []string{"q"}})); err != nil {
			t.Fatal(err)
		}
		sent := n.Seen(nornv1.Method_METHOD_WORK)
		first, second := sent[0].Message.(*nornv1.WorkRequest), sent[1].Message.(*nornv1.WorkRequest)
		if len(second.Completions) != 1 || second.Claim.RequestNo == first.Claim.RequestNo || !slices.Equal(second.Claim.Unanswered, []uint64{first.Claim.RequestNo}) {
			t.Errorf("first %v\nsecond %v", first, second)
		}
	})
}

// TestWorkOfWhichSomeCannotBeTaken: these are sent again by themselves, without a second
// claim; what is refused for good is not.
func TestWorkOfWhichSomeCannotBeTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "no leader")
		lost := proto.Refused(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, "over")
		full := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "too many")
		n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
			switch r.Method {
			case nornv1.Method_METHOD_WORK:
				a := doneWork(r)
				m := a.Message.(*nornv1.WorkReply)
				m.Completions[0], m.Failures[0] = &nornv1.WriteResult{Error: busy.Proto()}, &nornv1.WriteResult{Error: lost.Proto()}
				m.Claim, m.ClaimError = nil, full.Proto()
				return a
			case nornv1.Method_METHOD_COMPLETE:
				return fakenode.Answer{Message: &nornv1.WriteReply{Results: []*nornv1.WriteResult{{Receipt: &nornv1.Receipt{Copies: 3}}}}}
			}
			return fakenode.Answer{}
		})
		r, err := open(t, n).Work(t.Context(), workOf(&ClaimRequest{Queues: []string{"q"}}))
		if err != nil || r.Completions[0].Receipt.GetCopies() != 3 || r.Releases[0].Err != nil {
			t.Fatalf("%+v, %v", r, err)
		}
		wantIs(t, r.Failures[0].Err, ErrClaimLost)
		wantIs(t, r.ClaimErr, ErrOverloaded)
		if len(n.Seen(nornv1.Method_METHOD_WORK)) != 1 || len(n.Seen(nornv1.Method_METHOD_FAIL)) != 0 {
			t.Error("something was sent again that must not be")
		}
	})
}
