package explain

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/norn-dev/norn/claim"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/convert"
	"github.com/norn-dev/norn/node/core/refusal"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// Limits of one explanation.
const (
	maxReasons = 100    // more dependencies are summed up
	maxVisits  = 2_000  // tasks looked at for a cycle
	maxAhead   = 10_000 // better tasks counted
)

// Explainer finds out what keeps a task from running. What only the machine
// knows is taken along when the request comes; the rest is read on a snapshot.
type Explainer struct {
	// Partitions is how many the cluster has.
	Partitions int
	// Mute tells nothing of what tasks contain: who asks may not read it.
	Mute bool
	// Paused are the settings of its queue; nil: it is not paused.
	Paused *nornv1.QueueSettings
	// Serving is who takes its tasks at this node alone; nil: others are asked, too.
	Serving *Serving
	// Leading: this node leads the partition. Aside: nothing is handed out from it, as its claims
	// reach no majority.
	Leading, Aside bool
	// Full is why nothing more is granted, and Held how many tasks are under a claim then; empty:
	// there is room for claims.
	Full string
	Held int
	// Unhandled are workers that have given the task back, as they have no handler for it.
	Unhandled []string
	// Elsewhere are dependencies that other nodes keep: how they have failed, unknown: they have
	// not.
	Elsewhere map[id.ID]crdt.State

	view  store.View
	now   clock.Time
	reply *nornv1.ExplainReply
}

// Run reads the task in a view of the store, and says what keeps it from running.
func (e *Explainer) Run(view store.View, now clock.Time, task id.ID) (gproto.Message, *proto.Error, error) {
	e.view, e.now = view, now
	d, err := vnode.ReadTask(e.view, ring.Of(task, e.Partitions), task, vnode.ReadOptions{NoLog: true})
	if err != nil {
		return nil, nil, err
	}
	if d.Task.Enqueued == nil && !d.Task.Collected() {
		return nil, refusal.NoTask(task), nil
	}
	e.reply = &nornv1.ExplainReply{Id: task.String(), Queue: QueueOf(d), State: nornv1.State(d.State)}
	switch d.State {
	case crdt.StateWaiting:
		err = e.waiting(d)
	case crdt.StateScheduled:
		e.scheduled(d)
	case crdt.StateReady:
		e.ready(d)
	case crdt.StateClaimed:
		e.claimed(d)
	default:
		e.finished(d)
	}
	return e.reply, nil, err
}

// QueueOf is the queue of a task, empty when it was collected.
func QueueOf(d *vnode.Detail) string {
	if d.Task.Enqueued == nil {
		return ""
	}
	return d.Task.Enqueued.Queue
}

func (e *Explainer) add(kind nornv1.ReasonKind, format string, args ...any) *nornv1.Reason {
	r := &nornv1.Reason{Kind: kind, Text: fmt.Sprintf(format, args...)}
	e.reply.Reasons = append(e.reply.Reasons, r)
	return r
}

func (e *Explainer) waiting(d *vnode.Detail) error {
	task := d.Task.ID
	if cycle := e.cycle(task); cycle != nil {
		names := make([]string, len(cycle))
		for i, c := range cycle {
			names[i] = c.String()
		}
		e.add(nornv1.ReasonKind_REASON_KIND_CYCLE, "the dependencies go in a circle (%s) and will never be completed: cancel one of them", strings.Join(append(names, names[0]), " → ")).Tasks = names
	}
	blockers := vnode.Blockers(e.view, ring.Of(task, e.Partitions), task)
	for i, b := range blockers {
		if i == maxReasons {
			e.add(nornv1.ReasonKind_REASON_KIND_DEPENDENCY, "… and %d more dependencies", len(blockers)-i)
			break
		}
		dep, err := vnode.ReadTask(e.view, ring.Of(b, e.Partitions), b, vnode.ReadOptions{NoClaims: true, NoLog: true})
		if err != nil {
			return err
		}
		r := e.dependency(b, dep, d.Task.Enqueued.OnDepFailure)
		r.Tasks, r.TaskState = []string{b.String()}, nornv1.State(dep.State)
	}
	return nil
}

func (e *Explainer) dependency(b id.ID, dep *vnode.Detail, policy crdt.OnDepFailure) *nornv1.Reason {
	state, away := e.Elsewhere[b]
	if away && dep.State == crdt.StateUnknown {
		dep.State = state
	}
	switch {
	case away && dep.State == crdt.StateUnknown:
		return e.add(nornv1.ReasonKind_REASON_KIND_DEPENDENCY, "dependency %s is kept by other nodes, and is not finished or not enqueued yet, as far as is known: `norn task get %s`", b, b)
	case dep.State.Finished() && policy == crdt.DepFailureWait && dep.Task.Collected():
		return e.add(nornv1.ReasonKind_REASON_KIND_DEPENDENCY, "dependency %s was %s and has been collected, so that it can never be completed: cancel this task", b, dep.State)
	case dep.State == crdt.StateUnknown:
		return e.add(nornv1.ReasonKind_REASON_KIND_UNKNOWN_DEPENDENCY, "dependency %s has not been enqueued, as far as is known: enqueue it, or cancel this task", b)
	case dep.State.Finished() && policy == crdt.DepFailureWait:
		return e.add(nornv1.ReasonKind_REASON_KIND_DEPENDENCY, "dependency %s is %s, and this task waits all the same: `norn task retry %s`, or cancel this task", b, dep.State, b)
	}
	return e.add(nornv1.ReasonKind_REASON_KIND_DEPENDENCY, "dependency %s is %s", b, dep.State)
}

// cycle searches the tasks that hold this one back, and those that hold them
// back, for a circle: depth first, with the path.
func (e *Explainer) cycle(task id.ID) []id.ID {
	type step struct {
		task id.ID
		next []id.ID
	}
	seen := map[id.ID]bool{task: true}
	path := []step{{task, vnode.Blockers(e.view, ring.Of(task, e.Partitions), task)}}
	for len(path) > 0 && len(seen) < maxVisits {
		top := &path[len(path)-1]
		if len(top.next) == 0 {
			path = path[:len(path)-1]
			continue
		}
		next := top.next[0]
		top.next = top.next[1:]
		if at := slices.IndexFunc(path, func(s step) bool { return s.task == next }); at >= 0 {
			var circle []id.ID
			for _, s := range path[at:] {
				circle = append(circle, s.task)
			}
			return circle
		}
		if !seen[next] {
			seen[next] = true
			path = append(path, step{next, vnode.Blockers(e.view, ring.Of(next, e.Partitions), next)})
		}
	}
	return nil
}

func (e *Explainer) scheduled(d *vnode.Detail) {
	t := d.Task
	at := time.Unix(0, t.NotBefore()).UTC()
	switch {
	case t.BacksOff() && t.Attempts() == 0: // it was put off
		e.add(nornv1.ReasonKind_REASON_KIND_BACK_OFF, "it was put off, without using an attempt (%s); the next is at %s, or now with `norn task retry %s`",
			e.messageOf(t), at.Format(time.RFC3339), t.ID).Until = convert.Timestamp(t.NotBefore())
	case t.BacksOff():
		e.add(nornv1.ReasonKind_REASON_KIND_BACK_OFF, "attempt %d of %d failed (%s); the next is at %s, or now with `norn task retry %s`",
			t.Attempts(), t.Enqueued.Retry.MaxAttempts, e.messageOf(t), at.Format(time.RFC3339), t.ID).Until = convert.Timestamp(t.NotBefore())
	default:
		e.add(nornv1.ReasonKind_REASON_KIND_NOT_BEFORE, "it is to start at %s and not before", at.Format(time.RFC3339)).Until = convert.Timestamp(t.NotBefore())
	}
	e.pause(t.Enqueued.Queue)
}

// messageOf is why a task has failed, without the stack that may come with it.
func (e *Explainer) messageOf(t *crdt.Task) string {
	if e.Mute {
		return "its error is for those who may read tasks of this queue"
	}
	message, _ := proto.SplitError(t.Error())
	return message
}

func (e *Explainer) pause(queue string) {
	s := e.Paused
	if s == nil {
		return
	}
	since, by := "", ""
	if at := s.GetPausedAt(); at != nil {
		since = " since " + at.AsTime().Format(time.RFC3339)
	}
	if s.GetPausedBy() != "" {
		by = " by " + strings.Join(strings.Fields(s.GetPausedBy()), " ")
	}
	e.add(nornv1.ReasonKind_REASON_KIND_QUEUE_PAUSED, "queue %s is paused%s%s%s: `norn queue resume %s`", queue, since, by, Noted(s), queue).Since = s.GetPausedAt()
}

func (e *Explainer) ready(d *vnode.Detail) {
	t := d.Task
	queue, p := t.Enqueued.Queue, ring.Of(t.ID, e.Partitions)
	e.pause(queue)
	if !e.Leading {
		e.add(nornv1.ReasonKind_REASON_KIND_NO_LEADER, "partition %d has no leader here yet, so nothing is handed out from it", p)
	} else if e.Aside {
		e.add(nornv1.ReasonKind_REASON_KIND_NO_MAJORITY, "no majority of the replicas of partition %d takes claims from its leader, so nothing is handed out from it until one does: look at `norn cluster status`", p)
	}
	if e.Full != "" {
		e.add(nornv1.ReasonKind_REASON_KIND_CLAIM_LIMIT, "%s", e.Full).Count = uint64(e.Held)
	}
	if len(e.Unhandled) > 0 {
		kind := proto.KindOf(t.Enqueued.Further)
		r := e.add(nornv1.ReasonKind_REASON_KIND_NO_HANDLER, "worker %s has given it back, without using an attempt: it has no handler for tasks of kind %q in queue %s; start one that has", strings.Join(e.Unhandled, ", "), kind, queue)
		r.Worker = e.Unhandled[0]
	}
	rank := vnode.RankOf(t)
	ahead, bound := uint64(0), false
	for q := range e.Partitions {
		n := vnode.Ahead(e.view, ring.Partition(q), queue, &rank, maxAhead-int(ahead))
		if ahead += uint64(n); ahead >= maxAhead {
			bound = true
			break
		}
	}
	if ahead > 0 {
		more := ""
		if bound {
			more = "at least "
		}
		r := e.add(nornv1.ReasonKind_REASON_KIND_BEHIND, "%s%d tasks of queue %s come first (higher priority, or older)", more, ahead, queue)
		r.Count, r.CountIsBound = ahead, bound
	}
	if e.Serving != nil {
		e.reply.Reasons = withWorkers(e.reply.Reasons, e.Serving.Reasons(queue, e.now.Wall))
	}
}

func (e *Explainer) claimed(d *vnode.Detail) {
	for i := range d.Claims {
		if r := &d.Claims[i]; r.Outcome == claim.Active {
			text := "worker %q has it since %s, and its claim ends at %s unless it is renewed"
			if r.End < e.now.Wall {
				text = "worker %q has it since %s, and its lease was over at %s: it is handed on once the buffer (eta unless configured) has passed too"
			}
			reason := e.add(nornv1.ReasonKind_REASON_KIND_CLAIMED, text,
				r.Worker, time.Unix(0, r.Start).UTC().Format(time.RFC3339), time.Unix(0, r.End).UTC().Format(time.RFC3339))
			reason.Worker, reason.Until = r.Worker, convert.Timestamp(r.End)
		}
	}
}

func (e *Explainer) finished(d *vnode.Detail) {
	t := d.Task
	at := time.Unix(0, t.FinishedAt()).UTC().Format(time.RFC3339)
	switch dependency, blocked := t.BlockedBy(); {
	case t.Collected():
		e.add(nornv1.ReasonKind_REASON_KIND_FINISHED, "it was %s at %s, and has been collected since", d.State, at)
	case d.State == crdt.StateCompleted:
		e.add(nornv1.ReasonKind_REASON_KIND_FINISHED, "it was completed at %s", at)
	case d.State == crdt.StateCancelled && blocked && !t.CancelledByUser():
		e.add(nornv1.ReasonKind_REASON_KIND_FINISHED, "it was cancelled at %s because dependency %s died, was cancelled or is forgotten: retry that one, then `norn task retry %s`; if nobody knows it, enqueue the task anew without it", at, dependency, t.ID).Tasks = []string{dependency.String()}
	case d.State == crdt.StateCancelled:
		e.add(nornv1.ReasonKind_REASON_KIND_FINISHED, "it was cancelled at %s: %s", at, e.messageOf(t))
	default:
		e.add(nornv1.ReasonKind_REASON_KIND_FINISHED, "it died at %s (%s): `norn task retry %s` gives it new attempts", at, e.messageOf(t), t.ID)
	}
}

// Noted is the note of a queue for the end of a sentence, on one line as that.
func Noted(s *nornv1.QueueSettings) string {
	note := strings.Join(strings.Fields(s.GetNote()), " ")
	if note == "" {
		return ""
	}
	return " (" + note + ")"
}
