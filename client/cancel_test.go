package client

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const (
	waiting   = nornv1.State_STATE_WAITING
	scheduled = nornv1.State_STATE_SCHEDULED
	ready     = nornv1.State_STATE_READY
	claimed   = nornv1.State_STATE_CLAIMED
	completed = nornv1.State_STATE_COMPLETED
	dead      = nornv1.State_STATE_DEAD
	cancelled = nornv1.State_STATE_CANCELLED
)

func conflict(s nornv1.State) *nornv1.WriteResult {
	return &nornv1.WriteResult{Error: proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "not in this state").Proto(), State: s}
}

// ends answers a cancellation or retry by the first byte of each ID.
func ends(by map[byte]*nornv1.WriteResult, other *nornv1.WriteResult) fakenode.Script {
	return func(r fakenode.Request) fakenode.Answer {
		m := &nornv1.WriteReply{}
		for _, i := range r.Message.(interface{ GetIds() [][]byte }).GetIds() {
			result := other
			if known := by[i[0]]; known != nil {
				result = known
			}
			m.Results = append(m.Results, result)
		}
		return fakenode.Answer{Message: m}
	}
}

func numbered(n int) []id.ID {
	out := make([]id.ID, n)
	for i := range out {
		out[i] = id.ID{byte(i), byte(i >> 8)}
	}
	return out
}

func TestCancelOnTheWire(t *testing.T) {
	missing := &nornv1.WriteResult{Error: proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "not known").Proto()}
	n := fakenode.New(t, only(nornv1.Method_METHOD_CANCEL, ends(
		map[byte]*nornv1.WriteResult{1: conflict(completed), 2: missing},
		&nornv1.WriteResult{Receipt: &nornv1.Receipt{Existed: true}, State: cancelled})))
	tasks := numbered(250) // the fake's limit is 100
	results, err := open(t, n).Cancel(t.Context(), tasks,
		CancelOptions{Reason: strings.Repeat("y", maxReasonBytes) + "z", Only: []nornv1.State{ready}}, WithDurability(All))
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		switch {
		case r.ID != tasks[i]:
			t.Errorf("result %d is of %v", i, r.ID)
		case tasks[i][0] == 1:
			wantIs(t, r.Err, ErrConflict)
			wantIsNot(t, r.Err, ErrUnknown, ErrNotFound)
			if r.State != completed {
				t.Errorf("what stands against it is %v", r.State)
			}
		case tasks[i][0] == 2:
			wantIs(t, r.Err, ErrNotFound)
		case r.Err != nil || r.State != cancelled || !r.Receipt.GetExisted():
			t.Errorf("result %d is %+v", i, r)
		}
	}
	var sent [][]byte
	for _, r := range n.Seen(nornv1.Method_METHOD_CANCEL) {
		m := r.Message.(*nornv1.CancelRequest)
		if len(m.GetIds()) > 100 || len(m.GetReason()) != maxReasonBytes || m.GetReason()[maxReasonBytes-1] != 'z' ||
			!slices.Equal(m.GetOnlyStates(), []nornv1.State{ready}) || m.GetDurability().GetLevel() != nornv1.WriteLevel_WRITE_LEVEL_ALL {
			t.Errorf("sent %d IDs, states %v, %v", len(m.GetIds()), m.GetOnlyStates(), m.GetDurability())
		}
		sent = append(sent, m.GetIds()...)
	}
	if len(sent) != len(tasks) || len(n.Seen(nornv1.Method_METHOD_CANCEL)) != 3 {
		t.Errorf("%d IDs in %d requests", len(sent), len(n.Seen(nornv1.Method_METHOD_CANCEL)))
	}
	if r, err := open(t, n).Cancel(t.Context(), nil, CancelOptions{}); r != nil || err != nil {
		t.Errorf("no tasks: %v, %v", r, err)
	}
}

func TestRetryOnTheWire(t *testing.T) {
	n := fakenode.New(t, only(nornv1.Method_METHOD_RETRY, ends(
		map[byte]*nornv1.WriteResult{1: conflict(cancelled)}, &nornv1.WriteResult{Receipt: &nornv1.Receipt{}, State: ready})))
	results, err := open(t, n).Retry(t.Context(), numbered(2), dead, scheduled)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Err != nil || results[0].State != ready || results[1].State != cancelled {
		t.Errorf("got %+v", results)
	}
	wantIs(t, results[1].Err, ErrConflict)
	want := &nornv1.RetryRequest{Ids: [][]byte{numbered(2)[0].Bytes(), numbered(2)[1].Bytes()}, OnlyStates: []nornv1.State{dead, scheduled}}
	if got := n.Seen(nornv1.Method_METHOD_RETRY)[0].Message; !protobuf.Equal(got, want) {
		t.Errorf("sent %v", got)
	}
}

// A cancellation whose answer is lost is repeated, and what stands against the
// second may be the first.
func TestCancelAgainAfterLostAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(nornv1.Method_METHOD_CANCEL, steps(hangUp, ends(nil, conflict(cancelled)))))
		results, err := open(t, n).Cancel(t.Context(), numbered(1), CancelOptions{Only: []nornv1.State{ready}})
		if err != nil {
			t.Fatal(err)
		}
		wantIs(t, results[0].Err, ErrConflict, ErrUnknown)
		if results[0].State != cancelled {
			t.Errorf("state %v", results[0].State)
		}
	})
}

func TestExplain(t *testing.T) {
	want := &nornv1.ExplainReply{Id: "x", State: waiting, Reasons: []*nornv1.Reason{{Kind: nornv1.ReasonKind_REASON_KIND_DEPENDENCY, Text: "why"}}}
	n := fakenode.New(t, only(nornv1.Method_METHOD_EXPLAIN, steps(
		func(fakenode.Request) fakenode.Answer { return fakenode.Answer{Message: want} },
		refuse(proto.Refused(nornv1.ErrorKind_ERROR_KIND_NOT_FOUND, "not known")))))
	c := open(t, n)
	got, err := c.Explain(t.Context(), id.ID{7})
	if err != nil || !protobuf.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if asked := n.Seen(nornv1.Method_METHOD_EXPLAIN)[0].Message.(*nornv1.ExplainRequest); !slices.Equal(asked.GetId(), id.ID{7}.Bytes()) {
		t.Errorf("asked %v", asked)
	}
	got, err = c.Explain(t.Context(), id.ID{7})
	wantIs(t, err, ErrNotFound)
	if got != nil {
		t.Errorf("got %v with an error", got)
	}
}

// A worker learns from the state why its claim is lost.
func TestRenewTellsTheState(t *testing.T) {
	lost := &nornv1.RenewResult{Error: proto.Refused(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, "cancelled").Proto(), State: cancelled}
	n := fakenode.New(t, only(nornv1.Method_METHOD_RENEW, func(fakenode.Request) fakenode.Answer {
		return fakenode.Answer{Message: &nornv1.RenewReply{Results: []*nornv1.RenewResult{lost}}}
	}))
	results, err := open(t, n).Renew(t.Context(), []Ref{{id.ID{1}, 1}}, 0)
	if err != nil || results[0].State != cancelled || !errors.Is(results[0].Err, ErrClaimLost) {
		t.Errorf("got %+v, %v", results, err)
	}
}
