package serve

import (
	"context"
	"sync/atomic"
	"time"

	gproto "google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/node"
	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	"github.com/prometheus/client_golang/prometheus"
)

// backend shows a node to the pages: one that lives, and is ready for nothing, until it
// has started.
type backend struct{ node atomic.Pointer[node.Node] }

// Ready tells whether the node takes enqueues and hands out claims.
func (b *backend) Ready() (enqueue, claim bool) {
	if n := b.node.Load(); n != nil {
		return n.Ready()
	}
	return false, false
}

// Alive is an error once the node must not go on.
func (b *backend) Alive() error {
	if n := b.node.Load(); n != nil {
		return n.Alive()
	}
	return nil
}

// Filled tells whether the node has the copies that were planned for it.
func (b *backend) Filled() bool {
	n := b.node.Load()
	return n != nil && node.Filled(n)
}

// Spare tells whether the node can be stopped.
func (b *backend) Spare() bool {
	n := b.node.Load()
	return n != nil && node.Spare(n)
}

// Gatherer gives the node's metrics.
func (b *backend) Gatherer() prometheus.Gatherer {
	if n := b.node.Load(); n != nil {
		return n.Gatherer()
	}
	return prometheus.NewRegistry()
}

// Call carries out one request.
func (b *backend) Call(ctx context.Context, who *access.Caller, method nornv1.Method, request gproto.Message) (gproto.Message, *proto.Error, func()) {
	n := b.node.Load()
	if n == nil {
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "this node is starting; try again, or another node")
		e.RetryAfter = time.Second
		return nil, e, func() {}
	}
	a := n.Call(ctx, who, method, request)
	return a.Message, a.Err, a.Dropped
}
