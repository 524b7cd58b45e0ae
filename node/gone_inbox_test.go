package node

import (
	"context"
	"errors"
	"testing"

	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"
)

// TestRefusedConnectionsLeaveNothing: nobody takes from the inbox of a node that waits to be let
// into a cluster, for days perhaps, while clients try it again and again. Of those that
// were refused, nothing may stay there.
func TestRefusedConnectionsLeaveNothing(t *testing.T) {
	c := testConfig(t)
	n := &Node{cfg: c, clock: newSystemClock(c), inbox: newInbox(c.MaxInbox), metrics: newMetrics()}
	n.available.Store(&core.Available{})
	ln := transport.NewMemListener(0)
	server := transport.NewServer(transport.Config{ErrorBody: errorBody}, api{n, newScale()})
	served := make(chan error, 1)
	go func() { served <- server.Serve(context.Background(), ln) }()
	for range 20 {
		nc, err := ln.Dial(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := nc.Write(helloFrame(t)); err != nil {
			t.Fatal(err)
		}
		if f := readFrame(t, nc); f.Flags != transport.FlagResponse|transport.FlagError {
			t.Fatalf("hello was answered with %+v", f)
		}
		_ = nc.Close()
	}
	server.Close() // all have ended when it returns
	if err := <-served; !errors.Is(err, transport.ErrServerClosed) {
		t.Error(err)
	}
	if first, rest := n.inbox.take(nil, nil); len(first)+len(rest) != 0 {
		t.Errorf("%d events wait for a loop that does not run: %v", len(first)+len(rest), rest[0])
	}
}

// TestTheEndOfAConnectionOvertakesNothing: with more renewals and completions waiting than the
// loop takes at once, the last request of a connection came after its end, and what is
// kept for a worker was kept for one that had gone.
func TestTheEndOfAConnectionOvertakesNothing(t *testing.T) {
	in := newInbox(64 << 20)
	request := func(conn uint64, m nornv1.Method) *message.Request {
		return &message.Request{From: message.Origin{Conn: conn, Request: 1, Method: uint16(m)}}
	}
	var d delivery
	for range takeEvents {
		d.first = append(d.first, waiting{event: request(1, nornv1.Method_METHOD_RENEW), weight: 1})
	}
	d.first = append(d.first, waiting{event: request(7, nornv1.Method_METHOD_SESSION), weight: 1})
	d.rest = append(d.rest, waiting{event: request(7, nornv1.Method_METHOD_CLAIM), weight: 1})
	in.put(&d)
	in.gone(7)
	var last any
	for range 2 {
		first, rest := in.take(nil, nil)
		for _, events := range [][]any{first, rest} { // as the loop steps them
			for _, e := range events {
				if r, is := e.(*message.Request); !is || r.From.Conn == 7 {
					last = e
				}
			}
		}
	}
	if last != (message.Gone{Conn: 7}) {
		t.Errorf("the last that is heard of the connection is %+v", last)
	}
}
