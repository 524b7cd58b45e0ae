package client

import (
	"testing"
	"testing/synctest"
	"time"

	protobuf "google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// What is encoded by hand is what the generated code would read.
func TestHandEncodedEnqueue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		task := Task{
			ID:       id.ID(rapid.SliceOfN(rapid.Byte(), id.Size, id.Size).Draw(t, "id")),
			Queue:    rapid.StringMatching(`[a-z0-9:/.]{0,200}`).Draw(t, "queue"),
			Payload:  rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "payload"),
			Priority: rapid.Int32().Draw(t, "priority"),
			Kind:     rapid.StringMatching(`[a-z\\é ]{0,130}`).Draw(t, "kind"),
		}
		durability := rapid.SampledFrom([]Durability{Quorum, One, All, Copies(2), Copies(70000)}).Draw(t, "durability").proto()
		one := &enqueueOne{task: &task, durability: durability}
		got, err := one.AppendTo(nil)
		if err != nil {
			t.Fatal(err)
		}
		want := &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{task.spec()}, Durability: durability}
		var back nornv1.EnqueueRequest
		if err := protobuf.Unmarshal(got, &back); err != nil {
			t.Fatal(err)
		}
		if !protobuf.Equal(&back, want) {
			t.Fatalf("got %v, want %v", &back, want)
		}
		if len(got) > one.Size() || one.Size() > len(got)+80 {
			t.Fatalf("%d bytes, announced as %d", len(got), one.Size())
		}
	})
}

// Everything that can be set arrives.
func TestTaskOnTheWire(t *testing.T) {
	n := fakenode.New(t, only(enqueueMethod, accept))
	c := open(t, n)
	at := time.Now().Add(time.Hour)
	task := Task{
		ID: c.NewID(), Queue: "q", Payload: []byte{1}, Priority: -3, NotBefore: at, Dependencies: []id.ID{{9}},
		OnDependencyFailure: nornv1.DependencyFailure_DEPENDENCY_FAILURE_RUN, Retry: &nornv1.RetryPolicy{MaxAttempts: 4},
		Headers: map[string]string{"a": "b"}, Key: "k", KeyWindow: time.Minute, Kind: "send", Tags: []string{"z", "a"},
	}
	if _, err := c.Enqueue(t.Context(), task, WithDurability(All)); err != nil {
		t.Fatal(err)
	}
	delayed := Task{Queue: "q", NotBefore: at, Delay: 2 * time.Hour}
	if _, err := c.Enqueue(t.Context(), delayed); err != nil {
		t.Fatal(err)
	}
	m := n.Seen(enqueueMethod)[0].Message.(*nornv1.EnqueueRequest)
	want := &nornv1.EnqueueRequest{Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ALL}, Tasks: []*nornv1.TaskSpec{{
		Id: task.ID.Bytes(), Queue: "q", Payload: []byte{1}, Priority: -3, NotBefore: stampOf(at), Dependencies: [][]byte{id.ID{9}.Bytes()},
		OnDependencyFailure: nornv1.DependencyFailure_DEPENDENCY_FAILURE_RUN, Retry: &nornv1.RetryPolicy{MaxAttempts: 4},
		Headers: map[string]string{"a": "b"}, Key: "k", KeyWindowSeconds: 60, Kind: "send", Tags: []string{"z", "a"},
	}}}
	if !protobuf.Equal(m, want) {
		t.Errorf("sent %v", m)
	}
	got := n.Seen(enqueueMethod)[1].Message.(*nornv1.EnqueueRequest).GetTasks()[0].GetNotBefore().AsTime()
	if got.Before(at.Add(59 * time.Minute)) {
		t.Errorf("a delay of two hours became %v", got)
	}
}

// TestADelayIsOfTheServersTime: the clock of the client may be an hour off.
func TestADelayIsOfTheServersTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		off := -time.Hour
		n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
			hello := &nornv1.HelloReply{Version: proto.MaxVersion, Placement: fakenode.Placement(), Now: stampOf(time.Now().Add(off))}
			return greeted(hello, only(enqueueMethod, accept))(r)
		})
		c := open(t, n)
		for _, enqueue := range []func(Task) error{
			func(task Task) error { _, err := c.Enqueue(t.Context(), task); return err },
			func(task Task) error { _, err := c.EnqueueMany(t.Context(), []Task{task}); return err },
		} {
			before := time.Now().Add(off)
			if err := enqueue(Task{Queue: "q", Delay: time.Minute}); err != nil {
				t.Fatal(err)
			}
			seen := n.Seen(enqueueMethod)
			got := seen[len(seen)-1].Message.(*nornv1.EnqueueRequest).GetTasks()[0].GetNotBefore().AsTime()
			if late := got.Sub(before.Add(time.Minute)); late < 0 || late > time.Second {
				t.Errorf("a minute after %v became %v", before, got)
			}
		}
	})
}

func TestLevels(t *testing.T) {
	for text, want := range map[string]Durability{"": Quorum, "quorum": Quorum, "one": One, "all": All, "3": Copies(3)} {
		if got, err := ParseDurability(text); got != want || err != nil {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for text, want := range map[string]Consistency{"": ReadQuorum, "quorum": ReadQuorum, "one": ReadOne, "all": ReadAll, "3": ReadReplicas(3)} {
		if got, err := ParseConsistency(text); got != want || err != nil {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0", "-1", "most", "99999999999"} {
		if _, err := ParseDurability(text); err == nil {
			t.Errorf("%q is accepted", text)
		}
		_, err := ParseConsistency(text)
		wantIs(t, err, ErrInvalid)
	}
	if m := consistency([]ReadOption{WithConsistency(ReadReplicas(2)), AtLeast(7, 9)}); m.GetReplicas() != 2 || m.GetAtLeastSeq() != 9 || !m.GetAtLeast() {
		t.Errorf("got %v", m)
	}
}

func TestAddresses(t *testing.T) {
	for in, want := range map[string]string{"h": "h:7711", "h:1": "h:1", "[::1]:2": "[::1]:2", "[::1]": "[::1]:7711", "h:": "h:7711"} {
		if got, err := address(in); got != want || err != nil {
			t.Errorf("%q is %q, %v", in, got, err)
		}
	}
	for _, in := range [][]string{nil, {""}, {"a:1,"}, {"a:b:c"}} {
		_, err := Dial(t.Context(), in)
		wantIs(t, err, ErrInvalid)
	}
}
