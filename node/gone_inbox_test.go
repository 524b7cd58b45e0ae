package node

import (
	"context"
	"errors"
	"testing"

	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/inbox"
	"github.com/norn-dev/norn/node/metrics"
	"github.com/norn-dev/norn/node/sysclock"
	"github.com/norn-dev/norn/transport"
)

// TestRefusedConnectionsLeaveNothing: nobody takes from the inbox of a node that waits to be let
// into a cluster, for days perhaps, while clients try it again and again. Of those that
// were refused, nothing may stay there.
func TestRefusedConnectionsLeaveNothing(t *testing.T) {
	c := testConfig(t)
	n := &Node{cfg: c, clock: sysclock.New(c), inbox: inbox.New(c.MaxInbox), metrics: metrics.New()}
	n.available.Store(&core.Available{})
	ln := transport.NewMemListener(0)
	server := transport.NewServer(transport.Config{ErrorBody: errorBody}, api{n, inbox.NewScale(carried)})
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
	if first, rest, _ := n.inbox.Take(nil, nil); len(first)+len(rest) != 0 {
		t.Errorf("%d events wait for a loop that does not run: %v", len(first)+len(rest), rest[0])
	}
}
