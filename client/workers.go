package client

import (
	"context"
	"fmt"
	"time"

	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// Workers lists and stops workers that keep sessions, and is how a worker gets at a
// node to keep one with.
type Workers struct{ c *caller }

// Workers gives access to the workers of the cluster.
func (c *Client) Workers() Workers { return Workers{&c.caller} }

// List gives the sessions of the workers with these names, or of all, by name: on
// all nodes in reach.
func (w Workers) List(ctx context.Context, names ...string) ([]*nornv1.Worker, error) {
	var all []*nornv1.Worker
	for m := (&nornv1.WorkersRequest{Names: names}); ; {
		var reply nornv1.WorkersReply
		err := w.c.do(ctx, &request{
			op: "list workers", method: uint16(nornv1.Method_METHOD_WORKERS), body: message{m: m},
			decode: func(flags uint16, b []byte) error { return decodeInto(flags, b, &reply) },
		})
		if err != nil {
			return nil, err
		}
		all = append(all, reply.GetWorkers()...)
		if len(reply.GetNextCursor()) == 0 {
			return all, nil
		}
		m = &nornv1.WorkersRequest{Names: names, Cursor: reply.GetNextCursor()}
	}
}

// LineOptions are the options of [Workers.Lines].
type LineOptions struct {
	// After is the number of a line; those up to it are left out. They are numbered
	// from 1.
	After uint64
	// Limit is the most lines to give; 0: as many as fit 256 KiB.
	Limit int
}

// Now is the time that the servers have, as far as is known: what a worker is to compare
// times of tasks with. The clock here may be wrong.
func (w Workers) Now() time.Time { return w.c.now() }

// Lines asks a worker, by its name and through any node, for lines that a task has put
// out under a claim (see Task.Log of package worker), while it runs and after: the
// worker remembers the newest 4 MiB of all its tasks. ErrNotFound: nobody has the name
// now. ErrUnavailable: it does not answer.
func (w Workers) Lines(ctx context.Context, name string, c Ref, o LineOptions) (*nornv1.LinesReply, error) {
	var reply nornv1.LinesReply
	err := w.c.read(ctx, "lines of a task", nornv1.Method_METHOD_LINES, 0, &nornv1.LinesRequest{
		Worker: name, Id: c.ID.Bytes(), Token: c.Token, After: o.After, Limit: uint32(max(o.Limit, 0)),
	}, &reply)
	if err != nil {
		return nil, err
	}
	return &reply, nil
}

// Drain has the worker with a name take nothing new, finish what runs, and leave. It
// gives the worker as it is then. ErrNotFound: nobody has the name.
func (w Workers) Drain(ctx context.Context, name string) (*nornv1.Worker, error) {
	return w.set(ctx, "drain worker", &nornv1.SetWorkerRequest{Name: name, Action: nornv1.WorkerAction_WORKER_ACTION_DRAIN})
}

// Kill has the worker with a name stop everything at once and leave; its tasks are
// given back. reason is shown to it.
func (w Workers) Kill(ctx context.Context, name, reason string) (*nornv1.Worker, error) {
	return w.set(ctx, "kill worker", &nornv1.SetWorkerRequest{Name: name, Action: nornv1.WorkerAction_WORKER_ACTION_KILL, Reason: reason})
}

// set does something with the worker that has the name now. Repeated, after a lost
// answer, it must not go to the one that has come after that.
func (w Workers) set(ctx context.Context, op string, m *nornv1.SetWorkerRequest) (*nornv1.Worker, error) {
	ctx, cancel := w.c.bounded(ctx, 0)
	defer cancel()
	all, err := w.List(ctx, m.GetName())
	if err != nil {
		return nil, err
	}
	for _, one := range all {
		if one.GetNamed() && one.GetState() != nornv1.SessionState_SESSION_STATE_MUST_DIE {
			m.Instance = one.GetInstance()
		}
	}
	var reply nornv1.WorkersReply
	err = w.c.do(ctx, &request{
		op: op, method: uint16(nornv1.Method_METHOD_SET_WORKER), body: message{m: m}, write: true,
		decode: func(flags uint16, b []byte) error {
			if err := decodeInto(flags, b, &reply); err != nil {
				return err
			}
			if len(reply.GetWorkers()) != 1 {
				return badAnswer(fmt.Errorf("%d workers instead of one", len(reply.GetWorkers())))
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return reply.GetWorkers()[0], nil
}
