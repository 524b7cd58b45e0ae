package sim

import (
	"slices"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
	"github.com/norn-dev/norn/vnode/audit"

	"google.golang.org/protobuf/proto"

	"github.com/norn-dev/norn/jepsen/sim/convert"
	"github.com/norn-dev/norn/jepsen/sim/stats"
)

// What looks into nodes and at all of them find, beside what packages check and witness find.
const (
	Audit       = "audit"       // an index, a counter or a hash is not what the facts say (I8)
	Convergence = "convergence" // replicas differ though nothing goes wrong any more (I8)
)

// looking is a look into a node as no client can have it.
type looking struct{ *node }

// audit recomputes every index and counter of the node from the facts.
func (n *node) audit() {
	s := n.s
	for p := range s.plan.Partitions {
		p := ring.Partition(p)
		if vnode.Dropping(n.disk, p) {
			continue
		}
		s.stats[stats.Audits]++
		if err := audit.Partition(n.disk.Mem, p); err != nil {
			s.violation(Audit, "%spartition %d: %v", n, p, err)
		}
	}
}

// walk gives every task that the node has, as its store shows it.
func (n *node) walk(fn func(d *vnode.Detail) bool) {
	for p := range n.s.plan.Partitions {
		if !n.walkPartition(ring.Partition(p), fn) {
			return
		}
	}
}

// walkPartition does so for one partition; false: fn has had enough.
func (n *node) walkPartition(p ring.Partition, fn func(d *vnode.Detail) bool) bool {
	for d, err := range vnode.Walk(n.disk, p, id.ID{}, nil) {
		if err != nil {
			n.s.violation(Audit, "partition %d: %v", p, err)
			return false
		}
		if !fn(d) {
			return false
		}
	}
	return true
}

// look checks what must hold after every round and no client can see: no claim
// request waits while there is work for it, and what is due has been moved. It
// reads everything, so it does not look after each round.
func (n looking) look(r *round, ready *message.Ready) {
	s := n.s
	s.stats[stats.Rounds]++
	if s.fleet != nil {
		return // the work may be at other nodes
	}
	now := n.Clock.Time(s.Now)
	full := n.core.Stats().Claims >= s.plan.MaxClaims                 // then waiting requests go on waiting
	again := ready.WakeWall <= now.Wall || ready.WakeMono <= now.Mono // it goes on at once
	often := 0.02
	if r.dirty {
		often = 0.1
	}
	if again || n.core.Leading() < s.plan.Partitions || !s.Chance(often) {
		return
	}
	n.followers(r)
	waiting := n.waitsFor(r)
	if len(waiting) > 0 {
		s.stats[stats.Parked]++
	}
	n.walk(func(d *vnode.Detail) bool {
		e := d.Task.Enqueued
		switch {
		case e == nil:
		case d.State == crdt.StateReady && waiting[e.Queue] && !n.stopped(e.Queue) && !full:
			s.violation("wake-up", "task %s is ready and a claim request waits for queue %s", d.Task.ID, e.Queue)
		case d.State == crdt.StateScheduled && d.Task.NotBefore() <= now.Wall && s.mutant.Clock == nil:
			s.violation("wake-up", "task %s was due %v ago and is still scheduled", d.Task.ID, time.Duration(now.Wall-d.Task.NotBefore()))
		}
		return s.found == nil
	})
}

// stopped tells whether a queue may be paused: nobody was told that it is not,
// or the register has a pause that the core may not have read yet.
func (n looking) stopped(queue string) bool {
	if n.paused[queue] {
		return true
	}
	set := &nornv1.QueueSettings{}
	n.register.Do(register.Request{}, func(r register.Result) {
		if err := proto.Unmarshal(r.State.Queues[queue].Settings, set); err != nil {
			n.s.violation(Audit, "settings of queue %s: %v", queue, err)
		}
	})
	return set.GetPaused()
}

// followers: a log request that waits is answered once its task has something
// new, or is finished. The read that answers it takes a while; it may not take
// long.
func (n looking) followers(r *round) {
	s := n.s
	for _, from := range n.questions() {
		q := n.asked[from]
		m, ok := q.body.Body.(*nornv1.LogRequest)
		if !ok || m.GetWaitSeconds() == 0 {
			continue
		}
		task := convert.IDOf(m.GetId())
		t, err := vnode.LoadTask(n.disk, ring.Of(task, s.plan.Partitions), task)
		if err != nil {
			s.violation(Audit, "%v", err)
			return
		}
		after := vnode.LogAfter{Is: m.GetAfter(), Token: m.GetAfterToken(), Seq: m.GetAfterSeq()}
		fresh, _, err := vnode.Log(n.disk, ring.Of(task, s.plan.Partitions), task, after, 1, 1)
		if err != nil {
			s.violation(Audit, "%v", err)
			return
		}
		news := t.Finished() || len(fresh) > 0
		switch {
		case !news:
			q.news = 0
		case q.news == 0:
			q.news = s.Now
		case s.Now-q.news > int64(n.patience()):
			s.violation("wake-up", "a log request waits for news of task %s, and there has been some for %v", task, time.Duration(s.Now-q.news))
		}
	}
}

// buried: in the end everything is collected whose time is over and that no
// unfinished task depends on, and archived where that was asked for.
func (n looking) buried() {
	s := n.s
	needed := map[id.ID]bool{}
	var finished []*vnode.Detail
	n.walk(func(d *vnode.Detail) bool {
		t := d.Task
		switch {
		case t.Collected():
			s.stats[stats.Collected]++
			if s.plan.What == nornv1.Retention_RETENTION_ARCHIVE && !s.archived[t.ID] {
				s.violation("archive", "task %s was collected and is not in the archive", t.ID)
			}
		case t.Enqueued == nil:
		case t.Finished():
			finished = append(finished, d)
		default:
			for _, dep := range t.Enqueued.Dependencies {
				needed[dep] = true
			}
		}
		return true
	})
	for _, d := range finished {
		keep := s.plan.Retention
		if d.State == crdt.StateDead {
			keep = s.plan.DeadRetention
		}
		over := d.Task.FinishedAt() + int64(keep+2*s.plan.Collect+5*time.Second)
		if keep > 0 && s.plan.Collect > 0 && !needed[d.Task.ID] && over < n.Clock.Wall(s.Now) {
			s.violation("collected", "task %s is %s since %v and still there", d.Task.ID, d.State, time.Duration(n.Clock.Wall(s.Now)-d.Task.FinishedAt()))
			return
		}
	}
}

// waitsFor gives the queues that claim requests wait for after a round: those
// that were stepped and have no answer, neither on its way.
func (n looking) waitsFor(r *round) map[string]bool {
	answered := map[message.Origin]bool{}
	for _, w := range append(slices.Concat(n.waiting, n.flying), r) {
		for i := range w.replies {
			answered[w.replies[i].To] = true
		}
	}
	for _, e := range append(slices.Clone(n.first), n.rest...) {
		if q, ok := e.(*message.Request); ok {
			answered[q.From] = true // not stepped yet
		}
	}
	queues := map[string]bool{}
	for from, q := range n.asked { // Any order: a set is built.
		m, ok := q.body.Body.(*nornv1.ClaimRequest)
		if !ok || answered[from] || core.PassedOver(n.core, from.Conn, n.Clock.Time(n.s.Now)) {
			continue
		}
		for _, name := range m.GetQueues() {
			queues[name] = true
		}
	}
	return queues
}

// unfinished tells whether the node has a task that is neither finished nor
// waits for others.
func (n *node) unfinished() (found bool) {
	n.walk(func(d *vnode.Detail) bool {
		found = d.Task.Enqueued != nil && !d.State.Finished() && d.State != crdt.StateWaiting
		return !found
	})
	return found
}
