package client

import (
	"testing"
	"testing/synctest"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// ok answers any write with a receipt per item.
func ok(r fakenode.Request) fakenode.Answer {
	n := 1
	switch m := r.Message.(type) {
	case *nornv1.CompleteRequest:
		n = len(m.GetCompletions())
	case *nornv1.ReleaseRequest:
		n = len(m.GetClaims())
	case *nornv1.UpdateRequest, *nornv1.FailRequest:
	default:
		return fakenode.Answer{}
	}
	m := &nornv1.WriteReply{}
	for range n {
		m.Results = append(m.Results, &nornv1.WriteResult{Receipt: &nornv1.Receipt{Copies: 1}, State: nornv1.State_STATE_READY})
	}
	return fakenode.Answer{Message: m}
}

func TestWritesOnTheWire(t *testing.T) {
	n := fakenode.New(t, ok)
	c := open(t, n)
	task, seq := id.ID{5}, uint64(3)
	at := time.Now().Add(time.Hour)
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, err := c.Update(t.Context(), task, 9, 1, []byte("u"), WithDurability(One))
	check(err)
	_, err = c.Output(t.Context(), task, 9, 2, []byte("o"))
	check(err)
	_, err = c.Complete(t.Context(), task, 9, CompleteOptions{Seq: &seq, Result: []byte("r")})
	check(err)
	_, err = c.Complete(t.Context(), task, 9, CompleteOptions{})
	check(err)
	state, err := c.Fail(t.Context(), task, 9, FailOptions{Error: "e", RetryAt: at, Uncounted: true})
	check(err)
	if state != nornv1.State_STATE_READY {
		t.Errorf("state %v", state)
	}
	results, err := c.Release(t.Context(), Ref{task, 9}, Ref{task, 10})
	check(err)
	if len(results) != 2 || results[1].Receipt.GetCopies() != 1 {
		t.Errorf("released %v", results)
	}
	want := map[nornv1.Method][]protobuf.Message{
		nornv1.Method_METHOD_UPDATE: {
			&nornv1.UpdateRequest{Id: task.Bytes(), Token: 9, Seq: 1, Data: []byte("u"), Durability: One.proto()},
			&nornv1.UpdateRequest{Id: task.Bytes(), Token: 9, Seq: 2, Data: []byte("o"), Output: true},
		},
		nornv1.Method_METHOD_COMPLETE: {
			&nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: 9, Seq: 3, Result: []byte("r")}}},
			&nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: 9, AutoSeq: true}}},
		},
		nornv1.Method_METHOD_FAIL: {
			&nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: 9, Error: "e", RetryAt: stampOf(at), Uncounted: true}}},
		},
		nornv1.Method_METHOD_RELEASE: {
			&nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: task.Bytes(), Token: 9}, {Id: task.Bytes(), Token: 10}}},
		},
	}
	for method, messages := range want {
		for i, r := range n.Seen(method) {
			if i >= len(messages) || !protobuf.Equal(r.Message, messages[i]) {
				t.Errorf("%v: sent %v", method, r.Message)
			}
		}
		if len(n.Seen(method)) != len(messages) {
			t.Errorf("%v: sent %d times", method, len(n.Seen(method)))
		}
	}
}

// RetryIn is an instant before the first send: a repetition must not move it.
func TestRetryInIsFixed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(nornv1.Method_METHOD_FAIL, steps(func(fakenode.Request) fakenode.Answer {
			time.Sleep(5 * time.Second)
			return fakenode.Answer{Close: true}
		}, ok)))
		want := time.Now().Add(time.Minute)
		if _, err := open(t, n).Fail(t.Context(), id.ID{1}, 1, FailOptions{RetryIn: time.Minute}); err != nil {
			t.Fatal(err)
		}
		sent := n.Seen(nornv1.Method_METHOD_FAIL)
		if len(sent) != 2 || !protobuf.Equal(sent[0].Message, sent[1].Message) {
			t.Errorf("sent %v", sent)
		}
		if got := sent[1].Message.(*nornv1.FailRequest).GetFailures()[0].GetRetryAt().AsTime(); !got.Equal(want) {
			t.Errorf("retry at %v, want %v", got, want)
		}
	})
}

// After an answer was lost, "claim lost" may be the work of our own first try.
func TestClaimLostAfterLostAnswerIsUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		lost := proto.Refused(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, "it was released")
		gone := func(fakenode.Request) fakenode.Answer {
			return fakenode.Answer{Message: &nornv1.WriteReply{Results: []*nornv1.WriteResult{{Error: lost.Proto()}}}}
		}
		for _, tt := range []struct {
			script  fakenode.Script
			unknown bool
		}{{gone, false}, {steps(hangUp, gone), true}} {
			results, err := open(t, fakenode.New(t, only(nornv1.Method_METHOD_RELEASE, tt.script))).Release(t.Context(), Ref{id.ID{1}, 1})
			if err != nil {
				t.Fatal(err)
			}
			wantIs(t, results[0].Err, ErrClaimLost)
			if got := results[0].Err.(*Error).Unknown; got != tt.unknown {
				t.Errorf("unknown is %v, want %v", got, tt.unknown)
			}
		}
	})
}
