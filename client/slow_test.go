package client

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// slowConn is a connection over a line of so many bytes a second, each way.
type slowConn struct {
	net.Conn
	up, down int
}

const slice = 16 << 10

func (c *slowConn) Read(b []byte) (int, error) {
	if c.down == 0 {
		return c.Conn.Read(b)
	}
	n, err := c.Conn.Read(b[:min(len(b), slice)])
	time.Sleep(time.Duration(n) * time.Second / time.Duration(c.down))
	return n, err
}

func (c *slowConn) Write(b []byte) (sent int, err error) {
	for len(b) > 0 {
		k := min(len(b), slice)
		if c.up > 0 {
			time.Sleep(time.Duration(k) * time.Second / time.Duration(c.up))
		}
		n, err := c.Conn.Write(b[:k])
		sent += n
		if err != nil {
			return sent, err
		}
		b = b[k:]
	}
	return sent, nil
}

// slowly dials over a line of so many bytes a second.
func slowly(nodes map[string]*fakenode.Node, up, down int) Option {
	dial := fakenode.Dialer(nodes)
	return WithDialer(func(ctx context.Context, addr string) (net.Conn, error) {
		nc, err := dial(ctx, addr)
		if err != nil {
			return nil, err
		}
		return &slowConn{Conn: nc, up: up, down: down}, nil
	})
}

// TestALargeAnswerOnASlowLineArrives: the answer to a ping is behind it for longer than a
// ping may take.
func TestALargeAnswerOnASlowLineArrives(t *testing.T) {
	for _, rate := range []int{2_500_000, 400_000, 50_000} {
		synctest.Test(t, func(t *testing.T) {
			tasks := make([]*nornv1.Grant, 12)
			for i := range tasks {
				tasks[i] = &nornv1.Grant{Task: &nornv1.Task{Id: id.ID{15: byte(i)}.String(), Payload: make([]byte, 900_000)}, Token: 1, LeaseSeconds: 3600}
			}
			script := only(nornv1.Method_METHOD_CLAIM, func(fakenode.Request) fakenode.Answer {
				return fakenode.Answer{Message: &nornv1.ClaimReply{Grants: tasks}}
			})
			nodes := map[string]*fakenode.Node{"a:1": fakenode.New(t, script), "b:1": fakenode.New(t, script)}
			c := openAll(t, nodes, []string{"a:1", "b:1"}, slowly(nodes, 0, rate))
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			got, err := c.Claim(ctx, ClaimRequest{Queues: []string{"q"}, Max: 12})
			if err != nil || len(got) != 12 {
				t.Fatalf("%d bytes a second: %d tasks, %v", rate, len(got), err)
			}
			if n := len(nodes["a:1"].Seen(nornv1.Method_METHOD_CLAIM)) + len(nodes["b:1"].Seen(nornv1.Method_METHOD_CLAIM)); n != 1 {
				t.Errorf("%d bytes a second: it was asked for %d times", rate, n)
			}
		})
	}
}

// TestALargeRequestOnASlowLineArrives: the ping is behind it.
func TestALargeRequestOnASlowLineArrives(t *testing.T) {
	for _, rate := range []int{2_500_000, 400_000, 50_000} {
		synctest.Test(t, func(t *testing.T) {
			script := only(enqueueMethod, accept)
			nodes := map[string]*fakenode.Node{"a:1": fakenode.New(t, script), "b:1": fakenode.New(t, script)}
			c := openAll(t, nodes, []string{"a:1", "b:1"}, slowly(nodes, rate, 0))
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if _, err := c.Enqueue(ctx, Task{Queue: "q", Payload: make([]byte, 8<<20)}); err != nil {
				t.Fatalf("%d bytes a second: %v", rate, err)
			}
			if n := len(nodes["a:1"].Seen(enqueueMethod)) + len(nodes["b:1"].Seen(enqueueMethod)); n != 1 {
				t.Errorf("%d bytes a second: it came %d times", rate, n)
			}
		})
	}
}

// TestHalfAFrameSaysSo: the line is dead in the middle of an answer, and the error says how
// far that was.
func TestHalfAFrameSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(nornv1.Method_METHOD_GET, func(fakenode.Request) fakenode.Answer {
			return fakenode.Answer{Message: &nornv1.GetReply{Task: &nornv1.Task{Payload: make([]byte, 900_000)}}}
		}))
		c := openAll(t, nil, []string{"a:1", "b:1"}, WithDialer(func(ctx context.Context, addr string) (net.Conn, error) {
			if addr != "a:1" {
				return nil, fakenode.ErrRefused
			}
			nc, err := n.Dial(ctx, addr)
			return &cutConn{Conn: nc, left: 100_000}, err
		}))
		cn, _, err := c.reach(t.Context(), &race{left: 1}, 0)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = c.attempt(t.Context(), cn, &request{op: "get", method: uint16(nornv1.Method_METHOD_GET), body: message{m: &nornv1.GetRequest{}}})
		for _, want := range []string{"no answer to a ping for 2.5s", "of the 900", "bytes of a frame had arrived"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v does not say %q", err, want)
			}
		}
		if took := time.Since(began); !errors.Is(err, transport.ErrSilent) || took > 4*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		<-cn.Done()
	})
}

// cutConn brings no more than so many bytes.
type cutConn struct {
	net.Conn
	left int
}

func (c *cutConn) Read(b []byte) (int, error) {
	for c.left == 0 { // the deadline of the reader still holds
		if n, err := c.Conn.Read(b); err != nil {
			return n, err
		}
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}
