package client

import (
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	protobuf "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// keyNode knows keys: the ID of each is its hash by the protocol, here simply
// its first byte. "bad" is refused.
func keyNode(enqueue fakenode.Script) fakenode.Script {
	return func(r fakenode.Request) fakenode.Answer {
		switch m := r.Message.(type) {
		case *nornv1.KeyRequest:
			if m.GetKey() == "bad" {
				return fakenode.Answer{Err: proto.Invalid("bad key")}
			}
			return fakenode.Answer{Message: &nornv1.KeyReply{Id: id.ID{m.GetKey()[0]}.Bytes(), State: ready}}
		case *nornv1.EnqueueRequest:
			return enqueue(r)
		}
		return fakenode.Answer{}
	}
}

// The key is looked up once, and a repetition is of the same ID.
func TestUniqueKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, keyNode(steps(hangUp, accept)))
		c := open(t, n)
		r, err := c.Enqueue(t.Context(), Task{Queue: "q", Key: "k", KeyWindow: time.Hour})
		if err != nil || r.GetId() != (id.ID{'k'}).String() {
			t.Fatalf("got %v, %v", r, err)
		}
		keys := n.Seen(nornv1.Method_METHOD_KEY)
		if want := (&nornv1.KeyRequest{Queue: "q", Key: "k", WindowSeconds: 3600}); len(keys) != 1 || !protobuf.Equal(keys[0].Message, want) {
			t.Errorf("asked %v", keys)
		}
		for _, r := range n.Seen(enqueueMethod) {
			s := r.Message.(*nornv1.EnqueueRequest).GetTasks()[0]
			if id.ID(s.GetId()) != (id.ID{'k'}) || s.GetKey() != "k" || s.GetKeyWindowSeconds() != 3600 {
				t.Errorf("sent %v", s)
			}
		}
		if _, err = c.Enqueue(t.Context(), Task{Queue: "q", Key: "k", ID: id.ID{'x'}}); err != nil || len(n.Seen(nornv1.Method_METHOD_KEY)) != 1 {
			t.Errorf("a task with an ID is looked up, %v", err)
		}
		_, err = c.Enqueue(t.Context(), Task{Queue: "q", Key: "bad"})
		wantIs(t, err, ErrInvalid)
		if got, state, err := c.LookupKey(t.Context(), "q", "k", 0); got != (id.ID{'k'}) || state != ready || err != nil {
			t.Errorf("looked up: %v, %v, %v", got, state, err)
		}
	})
}

// A key that cannot be looked up is its own task's affair.
func TestManyUniqueKeys(t *testing.T) {
	n := fakenode.New(t, keyNode(accept))
	c := open(t, n)
	var tasks []Task
	for i := range 300 {
		task := Task{Queue: "q"}
		switch i % 3 {
		case 0:
			task.Key = fmt.Sprintf("%c%d", 'a'+i%26, i)
		case 1:
			task.Key = "bad"
		}
		tasks = append(tasks, task)
	}
	results, err := c.EnqueueMany(t.Context(), tasks)
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range results {
		switch i % 3 {
		case 0:
			if want := (id.ID{tasks[i].Key[0]}); r.Err != nil || r.ID != want || r.Receipt.GetId() != want.String() {
				t.Errorf("task %d: %+v", i, r)
			}
		case 1:
			wantIs(t, r.Err, ErrInvalid)
		case 2:
			if r.Err != nil || r.ID.IsZero() || r.Receipt.GetId() != r.ID.String() {
				t.Errorf("task %d: %+v", i, r)
			}
		}
	}
	if got := len(n.Seen(nornv1.Method_METHOD_KEY)); got != 200 {
		t.Errorf("%d lookups", got)
	}
	if tasks[0].ID != (id.ID{}) {
		t.Error("the caller's tasks were changed")
	}
}

func TestKeysWithoutAServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, keyNode(accept))
		c := open(t, n)
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.Stop()
		began := time.Now()
		results, err := c.EnqueueMany(t.Context(), slices.Repeat([]Task{{Queue: "q", Key: "k"}}, 200))
		wantIs(t, err, ErrUnavailable)
		wantIsNot(t, err, ErrUnknown)
		if results != nil || time.Since(began) > DefaultTimeout+time.Second {
			t.Errorf("%d results after %v", len(results), time.Since(began))
		}
		results, err = c.EnqueueMany(t.Context(), []Task{{Queue: "q", Key: "k"}, {Queue: "q"}})
		if err == nil && (results[0].Err == nil || results[1].Err == nil) {
			t.Errorf("got %+v", results)
		}
	})
}
