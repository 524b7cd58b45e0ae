package client

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// isle is a node that may be cut off from the others.
type isle struct {
	*fakenode.Node
	cut atomic.Bool
}

func newIsle(t *testing.T) *isle {
	n := &isle{}
	place := func() *nornv1.Placement {
		if n.cut.Load() {
			return &nornv1.Placement{Partitions: fakenode.Partitions, Enqueueable: make([]byte, fakenode.Partitions/8), CutOff: true}
		}
		return fakenode.Placement()
	}
	n.Node = fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
		switch r.Method {
		case nornv1.Method_METHOD_HELLO:
			return fakenode.Answer{Message: &nornv1.HelloReply{Version: proto.MaxVersion, ClusterId: "one", Limits: &nornv1.Limits{MaxInFlight: 100}, Placement: place()}}
		case nornv1.Method_METHOD_PING:
			return fakenode.Answer{Message: &nornv1.PingReply{Placement: place()}}
		case nornv1.Method_METHOD_GET:
			if n.cut.Load() {
				e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "cut off")
				e.Guarantee = "replicas read"
				return fakenode.Answer{Err: e}
			}
			return fakenode.Answer{Message: &nornv1.GetReply{Task: &nornv1.Task{}}}
		}
		return fakenode.Answer{Lose: true}
	})
	return n
}

// front is one address of several nodes, that sends each connection to the next one.
type front struct {
	nodes []*isle
	dials atomic.Int32
	open  atomic.Int32
}

func (f *front) dial(ctx context.Context, addr string) (net.Conn, error) {
	n := f.nodes[int(f.dials.Add(1)-1)%len(f.nodes)]
	nc, err := n.Dial(ctx, addr)
	if err == nil {
		f.open.Add(1)
		nc = &counted{Conn: nc, open: &f.open}
	}
	return nc, err
}

// TestANodeThatIsCutOffIsLeft by who has one address for several nodes.
func TestANodeThatIsCutOffIsLeft(t *testing.T) {
	for name, later := range map[string]bool{"from the beginning": false, "later": true} {
		synctest.Test(t, func(t *testing.T) {
			f := &front{nodes: []*isle{newIsle(t), newIsle(t)}}
			c := openAll(t, nil, []string{"vip:1"}, WithDialer(f.dial))
			f.nodes[0].cut.Store(!later)
			if later {
				if _, err := c.Get(t.Context(), id.ID{1}); err != nil {
					t.Fatal(err)
				}
				f.nodes[0].cut.Store(true)
			}
			began := time.Now()
			if _, err := c.Get(t.Context(), id.ID{1}); err != nil || time.Since(began) > 6*time.Second {
				t.Fatalf("%s: %v after %v", name, err, time.Since(began))
			}
			time.Sleep(time.Minute)
			if d, o := f.dials.Load(), f.open.Load(); d != 2 || o != 1 {
				t.Errorf("%s: %d dials, %d connections are open", name, d, o)
			}
		})
	}
}

// TestARealOutageIsNoStorm: all nodes are cut off, or take no tasks for another reason.
func TestARealOutageIsNoStorm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &front{nodes: []*isle{newIsle(t), newIsle(t), newIsle(t)}}
		c := openAll(t, nil, []string{"vip:1"}, WithDialer(f.dial))
		cut := func(is bool) {
			for _, n := range f.nodes {
				n.cut.Store(is)
			}
		}
		if _, err := c.Get(t.Context(), id.ID{1}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		if n := f.dials.Load(); n != 1 {
			t.Fatalf("%d dials while all was well", n)
		}
		cut(true)
		time.Sleep(10 * time.Minute)
		if n := f.dials.Load(); n < 20 || n > 45 {
			t.Errorf("%d dials in ten minutes of an outage", n)
		}
		if n := f.open.Load(); n != 1 {
			t.Errorf("%d connections are open", n)
		}
		cut(false)
		time.Sleep(time.Minute)
		before := f.dials.Load()
		if _, err := c.Get(t.Context(), id.ID{1}); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Hour)
		if n := f.dials.Load(); n != before {
			t.Errorf("%d dials after it", n-before)
		}
		hellos := f.nodes[0].Seen(nornv1.Method_METHOD_HELLO)
		gets := slices.Concat(f.nodes[0].Seen(nornv1.Method_METHOD_GET), f.nodes[1].Seen(nornv1.Method_METHOD_GET), f.nodes[2].Seen(nornv1.Method_METHOD_GET))
		if len(gets) != 2 || len(hellos) == 0 {
			t.Errorf("%d requests", len(gets))
		}
	})
}
