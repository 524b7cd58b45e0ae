package client

import (
	"errors"
	"testing"

	"github.com/norn-dev/norn/client/internal/fakenode"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// TestEnqueueJSON: the payload is the value, and what is none is sent to nobody.
func TestEnqueueJSON(t *testing.T) {
	n := fakenode.New(t, only(enqueueMethod, accept))
	c := open(t, n)
	type welcome struct {
		To string `json:"to"`
	}
	if _, err := EnqueueJSON(t.Context(), c, Task{Queue: "mail", Kind: "welcome", Tags: []string{"vip"}, Payload: []byte("not this")}, welcome{"Ada"}); err != nil {
		t.Fatal(err)
	}
	if _, err := EnqueueJSON(t.Context(), c, Task{Queue: "mail"}, make(chan int)); !errors.Is(err, ErrInvalid) {
		t.Errorf("a channel: %v", err)
	}
	seen := n.Seen(enqueueMethod)
	if len(seen) != 1 {
		t.Fatalf("%d requests", len(seen))
	}
	s := seen[0].Message.(*nornv1.EnqueueRequest).GetTasks()[0]
	if string(s.GetPayload()) != `{"to":"Ada"}` || s.GetKind() != "welcome" || len(s.GetTags()) != 1 {
		t.Errorf("sent %v", s)
	}
}
