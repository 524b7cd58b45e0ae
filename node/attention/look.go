package attention

import (
	"context"
	"time"

	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"

	gproto "google.golang.org/protobuf/proto"
)

// Ask asks the cluster for one thing, as whoever wants to know.
type Ask func(ctx context.Context, method nornv1.Method, request gproto.Message) (gproto.Message, *proto.Error)

// Limits of one look.
const (
	most      = 10_000 // of queues, schedules and workers
	schedules = 1000   // a page
	doubted   = 50     // queues of which it is asked when somebody wanted tasks of them last
)

// View is what was seen.
type View struct {
	Now       time.Time
	Status    *nornv1.StatusReply
	Queues    []*nornv1.Queue
	Workers   []*nornv1.Worker
	Schedules []*nornv1.Schedule
	Cron      *nornv1.CronStatus
	// Died are the decisions of the last ten minutes of queues in which tasks died.
	Died []*nornv1.QueueDecisions
	// Asked is who asks for tasks of queues that no worker with a session takes.
	Asked map[string]*nornv1.WorkersReply
	// Unseen is what could not be looked at, and why.
	Unseen []string
}

// look is one look at a cluster.
type look struct {
	ctx context.Context
	ask Ask
	v   *View
}

// Look looks at everything, and tells what needs somebody. It returns an error where nothing
// could be seen.
func Look(ctx context.Context, ask Ask, node string, now time.Time) (*nornv1.AttentionReply, *proto.Error) {
	l := look{ctx, ask, &View{Now: now, Asked: make(map[string]*nornv1.WorkersReply)}}
	var first *proto.Error
	for _, part := range []struct {
		name string
		see  func() *proto.Error
	}{{"nodes and partitions", l.status}, {"queues", l.queues}, {"workers", l.workers}, {"schedules", l.schedules}, {"tasks that died", l.died}, {"who asks for tasks", l.asked}} {
		err := part.see()
		if err == nil {
			continue
		}
		if first == nil {
			first = err
		}
		if err.Kind != nornv1.ErrorKind_ERROR_KIND_PERMISSION_DENIED { // else it is not for this one to see
			l.v.Unseen = append(l.v.Unseen, part.name+": "+err.Message)
		}
	}
	if l.v.Status == nil && len(l.v.Queues) == 0 && first != nil {
		return nil, first
	}
	return &nornv1.AttentionReply{Concerns: Concerns(l.v), Node: node, Unseen: l.v.Unseen}, nil
}

// one asks for something.
func one[M gproto.Message](l look, method nornv1.Method, request gproto.Message) (reply M, err *proto.Error) {
	m, err := l.ask(l.ctx, method, request)
	if err != nil {
		return reply, err
	}
	reply, _ = m.(M)
	return reply, nil
}

// status asks how nodes and partitions are.
func (l look) status() (err *proto.Error) {
	l.v.Status, err = one[*nornv1.StatusReply](l, nornv1.Method_METHOD_STATUS, &nornv1.StatusRequest{})
	return err
}

// queues reads the queues, page by page.
func (l look) queues() *proto.Error {
	for m := (&nornv1.QueuesRequest{}); ; {
		reply, err := one[*nornv1.QueuesReply](l, nornv1.Method_METHOD_QUEUES, m)
		if err != nil {
			return err
		}
		l.v.Queues = append(l.v.Queues, reply.GetQueues()...)
		if len(reply.GetNextCursor()) == 0 || len(l.v.Queues) >= most {
			return nil
		}
		m = &nornv1.QueuesRequest{Cursor: reply.GetNextCursor()}
	}
}

// workers reads the workers, page by page.
func (l look) workers() *proto.Error {
	for m := (&nornv1.WorkersRequest{}); ; {
		reply, err := one[*nornv1.WorkersReply](l, nornv1.Method_METHOD_WORKERS, m)
		if err != nil {
			return err
		}
		l.v.Workers = append(l.v.Workers, reply.GetWorkers()...)
		if len(reply.GetNextCursor()) == 0 || len(l.v.Workers) >= most {
			return nil
		}
		m = &nornv1.WorkersRequest{Cursor: reply.GetNextCursor()}
	}
}

// schedules reads the schedules, page by page.
func (l look) schedules() *proto.Error {
	for m := (&nornv1.SchedulesRequest{Limit: schedules}); ; {
		reply, err := one[*nornv1.SchedulesReply](l, nornv1.Method_METHOD_SCHEDULES, m)
		if err != nil {
			return err
		}
		l.v.Schedules, l.v.Cron = append(l.v.Schedules, reply.GetSchedules()...), reply.GetStatus()
		if n := len(reply.GetSchedules()); !reply.GetMore() || n == 0 || len(l.v.Schedules) >= most {
			return nil
		}
		m = &nornv1.SchedulesRequest{Limit: schedules, After: l.v.Schedules[len(l.v.Schedules)-1].GetName()}
	}
}

// died asks for the queues in which tasks have died.
func (l look) died() *proto.Error {
	reply, err := one[*nornv1.HistoryReply](l, nornv1.Method_METHOD_HISTORY, &nornv1.HistoryRequest{Busiest: most})
	for _, q := range reply.GetBusiest() { // those in which tasks died come first
		if q.GetDead() == 0 {
			break
		}
		l.v.Died = append(l.v.Died, q)
	}
	return err
}

// asked asks for whoever wants tasks without a session of the queues that seem to have nobody.
func (l look) asked() *proto.Error {
	taken := taking(l.v)
	for _, q := range l.v.Queues {
		if len(l.v.Asked) == doubted {
			return nil
		}
		if !deserted(q, taken) {
			continue
		}
		reply, err := one[*nornv1.WorkersReply](l, nornv1.Method_METHOD_WORKERS, &nornv1.WorkersRequest{Queue: q.GetName(), Limit: 1})
		if err != nil {
			return err
		}
		l.v.Asked[q.GetName()] = reply
	}
	return nil
}
