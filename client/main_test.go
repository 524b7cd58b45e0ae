package client

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open makes a client of one node, closed with the test.
func open(t testing.TB, n *fakenode.Node, opts ...Option) *Client {
	t.Helper()
	return openAll(t, map[string]*fakenode.Node{"a:1": n}, []string{"a:1"}, opts...)
}

func openAll(t testing.TB, nodes map[string]*fakenode.Node, addrs []string, opts ...Option) *Client {
	t.Helper()
	c, err := Dial(context.Background(), addrs, append([]Option{WithDialer(fakenode.Dialer(nodes))}, opts...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// only answers one method by a script, hello and ping as usual, and nothing
// else.
func only(m nornv1.Method, s fakenode.Script) fakenode.Script {
	return func(r fakenode.Request) fakenode.Answer {
		switch r.Method {
		case m:
			return s(r)
		case nornv1.Method_METHOD_HELLO, nornv1.Method_METHOD_PING:
			return fakenode.Answer{}
		}
		return fakenode.Answer{Err: proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNIMPLEMENTED, "not in the script")}
	}
}

// accept is the answer to an enqueue that takes every task.
func accept(r fakenode.Request) fakenode.Answer {
	m := &nornv1.EnqueueReply{}
	for _, s := range r.Message.(*nornv1.EnqueueRequest).GetTasks() {
		m.Results = append(m.Results, &nornv1.EnqueueResult{Receipt: &nornv1.Receipt{
			Id: id.ID(s.GetId()).String(), Copies: 1, DurableCopies: 1, Partition: 7,
		}})
	}
	return fakenode.Answer{Message: m}
}

// steps answers the first requests by one script each, the rest by the last.
func steps(s ...fakenode.Script) fakenode.Script {
	turn := make(chan int, 1)
	turn <- 0
	return func(r fakenode.Request) fakenode.Answer {
		i := <-turn
		turn <- i + 1
		return s[min(i, len(s)-1)](r)
	}
}

func lose(fakenode.Request) fakenode.Answer   { return fakenode.Answer{Lose: true} }
func hangUp(fakenode.Request) fakenode.Answer { return fakenode.Answer{Close: true} }
func refuse(e *proto.Error) fakenode.Script {
	return func(fakenode.Request) fakenode.Answer { return fakenode.Answer{Err: e} }
}
