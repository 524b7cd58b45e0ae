package core

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
	"github.com/norn-dev/norn/node/core/message"
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

// explainer finds out what keeps a task from running. What only the machine
// knows is taken along when the request comes; the rest is read on a snapshot.
type explainer struct {
	view       store.View
	partitions int
	now        clock.Time
	paused     *nornv1.QueueSettings // of its queue; nil: it is not
	serving    *serving              // of this node alone; nil: others are asked, too
	leading    map[ring.Partition]bool
	aside      bool                 // nothing is handed out from the partition, as its claims reach no majority
	full       string               // why nothing more is granted; empty: there is room for claims
	held       int                  // tasks under a claim then
	elsewhere  map[id.ID]crdt.State // dependencies that other nodes keep: how they have failed, unknown: they have not
	reply      *nornv1.ExplainReply
}

// newExplain makes the read that answers why a task is not running.
func newExplain(c *Core, q *message.Request, m *nornv1.ExplainRequest) (message.Read, *proto.Error) {
	task, bad := convert.ReadID(m.GetId())
	if bad != nil {
		return message.Read{From: q.From}, bad
	}
	e := &explainer{partitions: len(c.view.Cells), leading: make(map[ring.Partition]bool)}
	p := ring.Of(task, len(c.view.Cells))
	e.leading[p] = c.vnodes.See(p).Leading() != 0
	e.aside = c.leases.Open(p)
	d, err := vnode.ReadTask(c.round.Tx, p, task, vnode.ReadOptions{NoClaims: true, NoLog: true})
	if !c.round.Check(err) || d.Task.Enqueued == nil && !d.Task.Collected() {
		return message.Read{From: q.From}, refusal.NoTaskUnless(task, c.fetches.tooFewAnswered)
	}
	name := queueOf(d)
	if s := c.queues.of(name); s.GetPaused() {
		e.paused = s
	}
	e.room(c, p)
	if !q.Routed {
		e.serving = workers{c.sessions}.serving(c.round.Now, name)
	}
	e.elsewhere = c.edges.elsewhere(vnode.Blockers(c.round.Tx, p, task))
	return message.Read{From: q.From, Func: func(view store.View, now clock.Time) (gproto.Message, *proto.Error, error) {
		e.view, e.now = view, now
		m, refused, err := e.run(task)
		q.Scope.Show(m)
		return m, refused, err
	}}, nil
}

// room finds out whether there may be more claims.
func (e *explainer) room(c *Core, p ring.Partition) {
	part := vnode.Full(c.vnodes.See(p))
	switch n := c.vnodes.Claimed(); {
	case part > 0:
		e.held = part
		e.full = fmt.Sprintf("%d tasks of partition %d are under a claim, its limit: nothing of it is handed out until one of them ends", e.held, p)
	case n >= c.cfg.MaxClaims:
		e.held = n
		e.full = fmt.Sprintf("%d tasks are under a claim on the node that leads partition %d, its limit (max-claims): it hands out nothing until one of them ends", n, p)
	}
}

func (e *explainer) run(task id.ID) (gproto.Message, *proto.Error, error) {
	d, err := vnode.ReadTask(e.view, ring.Of(task, e.partitions), task, vnode.ReadOptions{NoLog: true})
	if err != nil {
		return nil, nil, err
	}
	if d.Task.Enqueued == nil && !d.Task.Collected() {
		return nil, refusal.NoTask(task), nil
	}
	e.reply = &nornv1.ExplainReply{Id: task.String(), Queue: queueOf(d), State: nornv1.State(d.State)}
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

// queueOf is the queue of a task, empty when it was collected.
func queueOf(d *vnode.Detail) string {
	if d.Task.Enqueued == nil {
		return ""
	}
	return d.Task.Enqueued.Queue
}

func (e *explainer) add(kind nornv1.ReasonKind, format string, args ...any) *nornv1.Reason {
	r := &nornv1.Reason{Kind: kind, Text: fmt.Sprintf(format, args...)}
	e.reply.Reasons = append(e.reply.Reasons, r)
	return r
}

func (e *explainer) waiting(d *vnode.Detail) error {
	task := d.Task.ID
	cycle, err := e.cycle(task)
	if err != nil {
		return err
	}
	if cycle != nil {
		names := make([]string, len(cycle))
		for i, c := range cycle {
			names[i] = c.String()
		}
		e.add(nornv1.ReasonKind_REASON_KIND_CYCLE, "the dependencies go in a circle (%s) and will never be completed: cancel one of them", strings.Join(append(names, names[0]), " → ")).Tasks = names
	}
	blockers := vnode.Blockers(e.view, ring.Of(task, e.partitions), task)
	for i, b := range blockers {
		if i == maxReasons {
			e.add(nornv1.ReasonKind_REASON_KIND_DEPENDENCY, "… and %d more dependencies", len(blockers)-i)
			break
		}
		dep, err := vnode.ReadTask(e.view, ring.Of(b, e.partitions), b, vnode.ReadOptions{NoClaims: true, NoLog: true})
		if err != nil {
			return err
		}
		r := e.dependency(b, dep, d.Task.Enqueued.OnDepFailure)
		r.Tasks, r.TaskState = []string{b.String()}, nornv1.State(dep.State)
	}
	return nil
}

func (e *explainer) dependency(b id.ID, dep *vnode.Detail, policy crdt.OnDepFailure) *nornv1.Reason {
	state, away := e.elsewhere[b]
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
func (e *explainer) cycle(task id.ID) ([]id.ID, error) {
	type step struct {
		task id.ID
		next []id.ID
	}
	seen := map[id.ID]bool{task: true}
	path := []step{{task, vnode.Blockers(e.view, ring.Of(task, e.partitions), task)}}
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
			return circle, nil
		}
		if !seen[next] {
			seen[next] = true
			path = append(path, step{next, vnode.Blockers(e.view, ring.Of(next, e.partitions), next)})
		}
	}
	return nil, nil
}

func (e *explainer) scheduled(d *vnode.Detail) {
	t := d.Task
	at := time.Unix(0, t.NotBefore()).UTC()
	switch {
	case t.BacksOff() && t.Attempts() == 0: // it was put off
		e.add(nornv1.ReasonKind_REASON_KIND_BACK_OFF, "it was put off, without using an attempt (%s); the next is at %s, or now with `norn task retry %s`",
			messageOf(t), at.Format(time.RFC3339), t.ID).Until = convert.Timestamp(t.NotBefore())
	case t.BacksOff():
		e.add(nornv1.ReasonKind_REASON_KIND_BACK_OFF, "attempt %d of %d failed (%s); the next is at %s, or now with `norn task retry %s`",
			t.Attempts(), t.Enqueued.Retry.MaxAttempts, messageOf(t), at.Format(time.RFC3339), t.ID).Until = convert.Timestamp(t.NotBefore())
	default:
		e.add(nornv1.ReasonKind_REASON_KIND_NOT_BEFORE, "it is to start at %s and not before", at.Format(time.RFC3339)).Until = convert.Timestamp(t.NotBefore())
	}
	e.pause(t.Enqueued.Queue)
}

// messageOf is why a task has failed, without the stack that may come with it.
func messageOf(t *crdt.Task) string {
	message, _ := proto.SplitError(t.Error())
	return message
}

func (e *explainer) pause(queue string) {
	s := e.paused
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
	e.add(nornv1.ReasonKind_REASON_KIND_QUEUE_PAUSED, "queue %s is paused%s%s%s: `norn queue resume %s`", queue, since, by, noted(s), queue).Since = s.GetPausedAt()
}

func (e *explainer) ready(d *vnode.Detail) {
	t := d.Task
	queue, p := t.Enqueued.Queue, ring.Of(t.ID, e.partitions)
	e.pause(queue)
	if !e.leading[p] {
		e.add(nornv1.ReasonKind_REASON_KIND_NO_LEADER, "partition %d has no leader here yet, so nothing is handed out from it", p)
	} else if e.aside {
		e.add(nornv1.ReasonKind_REASON_KIND_NO_MAJORITY, "no majority of the replicas of partition %d takes claims from its leader, so nothing is handed out from it until one does: look at `norn cluster status`", p)
	}
	if e.full != "" {
		e.add(nornv1.ReasonKind_REASON_KIND_CLAIM_LIMIT, "%s", e.full).Count = uint64(e.held)
	}
	rank := vnode.RankOf(t)
	ahead, bound := uint64(0), false
	for q := range e.partitions {
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
	if e.serving != nil {
		e.reply.Reasons = withWorkers(e.reply.Reasons, e.serving.reasons(queue, e.now.Wall))
	}
}

func (e *explainer) claimed(d *vnode.Detail) {
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

func (e *explainer) finished(d *vnode.Detail) {
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
		e.add(nornv1.ReasonKind_REASON_KIND_FINISHED, "it was cancelled at %s: %s", at, messageOf(t))
	default:
		e.add(nornv1.ReasonKind_REASON_KIND_FINISHED, "it died at %s (%s): `norn task retry %s` gives it new attempts", at, messageOf(t), t.ID)
	}
}
