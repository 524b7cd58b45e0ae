package node

import (
	"context"
	"fmt"
	"time"

	"github.com/norn-dev/norn/node/access"
	"github.com/norn-dev/norn/node/attention"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/transport"

	gproto "google.golang.org/protobuf/proto"
)

// watchTime is how long the cluster is asked what needs somebody.
const watchTime = 10 * time.Second

// maxRights bounds the requests about rights that are carried out at a time: each may wait for
// the register.
const maxRights = 64

// aboutRights makes the request of a method that is about rights: the node answers it by
// itself, beside the core. nil: the method is none.
func aboutRights(m nornv1.Method) gproto.Message {
	switch m {
	case nornv1.Method_METHOD_WHO_AM_I:
		return &nornv1.WhoAmIRequest{}
	case nornv1.Method_METHOD_ACCESS:
		return &nornv1.AccessRequest{}
	case nornv1.Method_METHOD_ATTENTION:
		return &nornv1.AttentionRequest{}
	case nornv1.Method_METHOD_RANK_QUEUES:
		return &nornv1.RankQueuesRequest{}
	}
	return nil
}

// rights carries out a request about rights.
func rights(ctx context.Context, n *Node, who *access.Caller, request gproto.Message) (gproto.Message, *proto.Error) {
	select {
	case n.rights <- struct{}{}:
	default:
		e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "%d requests about roles and tokens are under way, the limit", maxRights)
		e.RetryAfter = time.Second
		return nil, e
	}
	defer func() { <-n.rights }()
	switch m := request.(type) {
	case *nornv1.AttentionRequest:
		return watched(ctx, n, who, nornv1.Method_METHOD_ATTENTION, m)
	case *nornv1.RankQueuesRequest:
		return watched(ctx, n, who, nornv1.Method_METHOD_RANK_QUEUES, m)
	}
	return n.opts.Access.Do(ctx, who, request)
}

// watched tells what needs somebody, or which queues there are, as far as a caller may see.
func watched(ctx context.Context, n *Node, who *access.Caller, method nornv1.Method, m gproto.Message) (gproto.Message, *proto.Error) {
	if _, err := n.opts.Access.Check(who, method, m); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, watchTime)
	defer cancel()
	ask := func(ctx context.Context, method nornv1.Method, request gproto.Message) (gproto.Message, *proto.Error) {
		a := n.Call(ctx, who, method, request)
		return a.Message, a.Err
	}
	if rank, is := m.(*nornv1.RankQueuesRequest); is {
		return attention.Rank(ctx, ask, rank)
	}
	return attention.Look(ctx, ask, n.self.Node, clientsTime(n).AsTime())
}

// askRights answers a frame about rights, in its own time.
func (a api) askRights(c *transport.Conn, s *client, f transport.Frame, request gproto.Message) {
	if err := gproto.Unmarshal(f.Body, request); err != nil {
		a.refuse(c, f, proto.Invalid("malformed %s of %d bytes: %v", request.ProtoReflect().Descriptor().Name(), len(f.Body), err))
		return
	}
	a.n.running.Go(func() {
		reply, err := rights(a.n.ctx, a.n, s.who, request)
		if err != nil {
			a.refuse(c, f, err)
			return
		}
		a.answer(c, f, reply)
	})
}

// doorkeeper closes the connections of those who are not let in any more, whose token has expired or was
// revoked, and of those who may not do any more what they might: what waits there was judged by that. They
// may come again.
func doorkeeper(n *Node) {
	for {
		changed, after := n.opts.Access.Changed()
		n.conns.Range(func(_, at any) bool {
			c := at.(*transport.Conn)
			s := c.Attachment().(*client)
			if !s.ready.Load() {
				return true
			}
			now, err := n.opts.Access.Still(s.who, s.rights)
			if err != nil {
				c.Finish(fmt.Errorf("not let in any more: %w", err))
				return true
			}
			s.rights = now
			return true
		})
		end := time.NewTimer(after)
		select {
		case <-changed:
		case <-end.C:
		case <-n.ctx.Done():
			end.Stop()
			return
		}
		end.Stop()
	}
}
