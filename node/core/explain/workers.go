package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/node/guard"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"

	gproto "google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxNamed is how many workers one explanation names.
const maxNamed = 10

// Serving is who takes tasks of a queue, of one node or of all.
type Serving struct {
	Workers []*nornv1.Worker
	// Waiting counts claim requests.
	Waiting uint64
	// Asked is when one last came; nil: none has, as far as is known.
	Asked *timestamppb.Timestamp
}

// Serves tells whether a session takes tasks of a queue; all do of none.
func Serves(i *session.Info, queue string) bool {
	return queue == "" || slices.ContainsFunc(i.Capacity.Queues, func(q session.QueueSlots) bool { return q.Queue == queue })
}

// Reasons are why no worker takes a task of the queue that is ready, at the wall ns now.
func (s *Serving) Reasons(queue string, now int64) (out []*nornv1.Reason) {
	var able, busy []*nornv1.Worker
	var away []string
	slots := uint64(0)
	for _, w := range s.Workers {
		switch {
		case w.GetTrouble() != "":
			if len(out) < maxNamed {
				out = append(out, &nornv1.Reason{
					Kind: nornv1.ReasonKind_REASON_KIND_WORKER_TROUBLED, Worker: w.GetName(),
					Text: "worker " + w.GetName() + " serves queue " + queue + ", and cannot begin tasks: " + w.GetTrouble(),
				})
			}
		case w.GetDraining():
			away = append(away, "worker "+w.GetName()+" is draining")
		case w.GetKilled(), w.GetState() == nornv1.SessionState_SESSION_STATE_MUST_DIE:
			away = append(away, "worker "+w.GetName()+" was killed or lost")
		case w.GetState() == nornv1.SessionState_SESSION_STATE_UNHEALTHY:
			away = append(away, fmt.Sprintf("worker %s has been silent for %s", w.GetName(), proto.Seconds(w.GetSilentSeconds()).Round(time.Second)))
		case w.GetRestingSeconds() > 0:
			away = append(away, fmt.Sprintf("worker %s declined many tasks and is given none for %s", w.GetName(), proto.Seconds(w.GetRestingSeconds()).Round(time.Second)))
		default:
			able = append(able, w)
			if n := uint64(len(w.GetRunning())); n >= uint64(w.GetSlots()) {
				busy, slots = append(busy, w), slots+n
			}
		}
	}
	switch {
	case s.Waiting > 0 || len(able) > len(busy): // somebody asks, or is about to
		return out
	case len(able) > 0:
		return append([]*nornv1.Reason{{
			Kind: nornv1.ReasonKind_REASON_KIND_ALL_BUSY, Count: slots,
			Text: fmt.Sprintf("all slots of the workers that take queue %s are busy: %d tasks run (%s): wait, start more workers, or give them more slots (`norn work -q %s --slots N -- CMD`)", queue, slots, named(busy), queue),
		}}, out...)
	}
	return append([]*nornv1.Reason{s.none(queue, now, away)}, out...)
}

// named are the names of some workers, with how much each runs.
func named(all []*nornv1.Worker) string {
	var names []string
	for _, w := range all[:min(len(all), maxNamed)] {
		names = append(names, fmt.Sprintf("%s %d of %d", w.GetName(), len(w.GetRunning()), w.GetSlots()))
	}
	if n := len(all) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("and %d more", n))
	}
	return strings.Join(names, ", ")
}

// none says that nobody takes tasks of a queue, and who was last there.
func (s *Serving) none(queue string, now int64, away []string) *nornv1.Reason {
	r := &nornv1.Reason{Kind: nornv1.ReasonKind_REASON_KIND_NO_WORKER, Since: s.Asked}
	last := "none has asked for its tasks since the nodes started"
	if s.Asked != nil {
		ago := max(time.Duration(now-s.Asked.AsTime().UnixNano()), 0).Round(time.Second)
		last = fmt.Sprintf("one last asked for its tasks %s ago, at %s", ago, s.Asked.AsTime().Format(time.RFC3339))
	}
	what := "none is connected"
	switch {
	case len(away) > 0:
		what = strings.Join(away[:min(len(away), maxNamed)], ", ")
	case len(s.Workers) > 0:
		what = "those that serve it cannot begin tasks"
	}
	r.Text = fmt.Sprintf("no worker takes queue %s now: %s, and %s: start one (`norn work -q %s -- CMD`)", queue, what, last, queue)
	return r
}

// withWorkers puts what keeps workers from a task before what is ahead of it, in place of
// what one node alone has said of them.
func withWorkers(reasons, workers []*nornv1.Reason) []*nornv1.Reason {
	reasons = slices.DeleteFunc(reasons, func(r *nornv1.Reason) bool {
		return r.GetKind() == nornv1.ReasonKind_REASON_KIND_NO_WORKER || r.GetKind() == nornv1.ReasonKind_REASON_KIND_WORKER_TROUBLED
	})
	at := slices.IndexFunc(reasons, func(r *nornv1.Reason) bool { return r.GetKind() == nornv1.ReasonKind_REASON_KIND_BEHIND })
	if at < 0 {
		at = len(reasons)
	}
	return slices.Insert(reasons, at, workers...)
}

// Explained joins what the node that knows a task says and what all say of their workers.
type Explained struct {
	// Scope is that of who asks, who may not be shown all workers.
	Scope *guard.Scope
	// Reply and Err are what the node that knows the task says.
	Reply *nornv1.ExplainReply
	Err   *proto.Error
	// Now is when all have answered, wall ns.
	Now int64

	all Serving
}

// Take adds what a node says.
func (e *Explained) Take(_ []int, m gproto.Message) {
	switch m := m.(type) {
	case *nornv1.ExplainReply:
		e.Reply = m
	case *nornv1.WorkersReply:
		queue := e.Reply.GetQueue()
		for _, w := range m.GetWorkers() { // an older node tells of all
			if slices.ContainsFunc(w.GetQueues(), func(q *nornv1.SessionQueue) bool { return q.GetQueue() == queue }) {
				e.all.Workers = append(e.all.Workers, w)
			}
		}
		e.all.Waiting += m.GetWaitingClaims()
		if at := m.GetLastAsked(); at != nil && (e.all.Asked == nil || at.AsTime().After(e.all.Asked.AsTime())) {
			e.all.Asked = at
		}
	}
}

// Fail: without the word of who knows the task there is no answer; a node that does not
// tell of its workers is found by others in its time.
func (e *Explained) Fail(idx []int, err *proto.Error) {
	if idx != nil {
		e.Err = err
	}
}

// Answer gives the whole.
func (e *Explained) Answer() (gproto.Message, *proto.Error) {
	if e.Err != nil {
		return nil, e.Err
	}
	e.Reply.Reasons = withWorkers(e.Reply.GetReasons(), e.all.Reasons(e.Reply.GetQueue(), e.Now))
	e.Scope.Show(e.Reply)
	return e.Reply, nil
}
