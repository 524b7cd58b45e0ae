package core

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// moved refuses a read that another node has sent here about a partition that
// this node does not keep, or not any longer: who sent it has not heard of that
// yet. What is here may be old, or on its way out, and no part of a quorum: not
// to know a task here says nothing. nil: it may be answered.
func (c observer) moved(r *Request) *proto.Error {
	if !r.routed || r.From.Conn < peerConns {
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
	case *nornv1.ListRequest, *nornv1.CountRequest:
		about = r.partitions
	}
	for _, p := range about {
		if cohort := c.cells[p].Cohort; len(cohort) > 0 && !slices.Contains(cohort, c.cfg.Self) {
			e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "partition %d is not kept on node %s, or not any longer; try again", p, c.cfg.Self.Node)
			e.Guarantee, e.RetryAfter = "replicas read", 100*time.Millisecond
			return e
		}
	}
	return nil
}
