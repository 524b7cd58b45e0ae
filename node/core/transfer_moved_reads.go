package core

import (
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// moved refuses a read that another node has sent here about a partition that
// this node does not keep, or not any longer: who sent it has not heard of that
// yet. What is here may be old, or on its way out, and no part of a quorum: not
// to know a task here says nothing. Of a partition that is being deleted nothing
// is read, whoever asks. nil: it may be answered.
func (c observer) moved(r *message.Request) *proto.Error {
	foreign := r.Routed && r.From.Conn >= message.PeerConns
	if !foreign && len(c.view.Dropping) == 0 {
		return nil
	}
	var about []ring.Partition
	one := func(task []byte) {
		if p, ok := c.routes.partition(task); ok {
			about = append(about, p)
		}
	}
	switch m := r.Body.(type) {
	case *nornv1.GetRequest:
		one(m.GetId())
	case *nornv1.ExplainRequest:
		one(m.GetId())
	case *nornv1.LogRequest:
		one(m.GetId())
	case *nornv1.KeyRequest:
		one(keyHome(c.Core, c.round.Now, m.GetQueue(), m.GetKey(), m.GetWindowSeconds()))
	case *nornv1.ListRequest, *nornv1.CountRequest, *nornv1.QueuesRequest:
		about = r.Partitions
	}
	for _, p := range about {
		if foreign && c.view.Elsewhere(p) || c.view.Deleting(p) {
			e := c.transfer.gone(p)
			e.Guarantee = "replicas read"
			return e
		}
	}
	return nil
}

// refuses tells why nothing of a partition may be written now: it is being
// deleted, and what came into it would be acknowledged and deleted as well. Its
// vnode is a blank one, and knows nothing of what is stored. nil: it may be.
//
// Each way to write to a partition that nobody leads here asks for this, or for
// [view.Deleting]: requests do, and [peers.keep] for facts of all kinds.
func (m *transfer) refuses(p ring.Partition) *proto.Error {
	if !m.c.view.Deleting(p) {
		return nil
	}
	e := m.gone(p)
	e.Guarantee = "durable copies"
	return e
}

func (m *transfer) gone(p ring.Partition) *proto.Error {
	return proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "partition %d is not kept on node %s, or not any longer; try again", p, m.c.cfg.Self.Node).Again(100 * time.Millisecond)
}

// closing refuses a task whose partition is being deleted, before anything is
// looked up there: an ID or a key could be taken for one that was never used.
func (c enqueuing) closing(now clock.Time, t *nornv1.TaskSpec) *proto.Error {
	if len(c.view.Dropping) == 0 {
		return nil // as nearly always
	}
	p, ok := c.routes.partition(c.routes.place(now, t))
	if !ok {
		return nil // refused for that
	}
	return c.transfer.refuses(p)
}
