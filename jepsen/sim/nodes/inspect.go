package nodes

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
	"github.com/norn-dev/norn/jepsen/sim/run"
	"github.com/norn-dev/norn/jepsen/sim/stats"
)

// Looking is a look into a node as no client can have it.
type Looking struct{ *Node }

// Audit recomputes every index and counter of the node from the facts.
func (n *Node) Audit() {
	s := n.S
	for p := range s.Plan.Partitions {
		p := ring.Partition(p)
		if vnode.Dropping(n.Disk, p) {
			continue
		}
		s.Stats[stats.Audits]++
		if err := audit.Partition(n.Disk.Mem, p); err != nil {
			s.Violation(run.Audit, "%spartition %d: %v", n, p, err)
		}
	}
}

// walk gives every task that the node has, as its store shows it.
func (n *Node) walk(fn func(d *vnode.Detail) bool) {
	for p := range n.S.Plan.Partitions {
		if !n.WalkPartition(ring.Partition(p), fn) {
			return
		}
	}
}

// WalkPartition does so for one partition; false: fn has had enough.
func (n *Node) WalkPartition(p ring.Partition, fn func(d *vnode.Detail) bool) bool {
	for d, err := range vnode.Walk(n.Disk, p, id.ID{}, nil) {
		if err != nil {
			n.S.Violation(run.Audit, "partition %d: %v", p, err)
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
func (n Looking) look(r *round, ready *message.Ready) {
	s := n.S
	s.Stats[stats.Rounds]++
	if s.Fleet != nil {
		return // the work may be at other nodes
	}
	now := n.Clock.Time(s.Now)
	full := n.Core.Stats().Claims >= s.Plan.MaxClaims                 // then waiting requests go on waiting
	again := ready.WakeWall <= now.Wall || ready.WakeMono <= now.Mono // it goes on at once
	often := 0.02
	if r.dirty {
		often = 0.1
	}
	if again || n.Core.Leading() < s.Plan.Partitions || !s.Chance(often) {
		return
	}
	n.followers(r)
	waiting := n.waitsFor(r)
	if len(waiting) > 0 {
		s.Stats[stats.Parked]++
	}
	n.walk(func(d *vnode.Detail) bool {
		e := d.Task.Enqueued
		switch {
		case e == nil:
		case d.State == crdt.StateReady && waiting[e.Queue] && !n.stopped(e.Queue) && !full:
			s.Violation("wake-up", "task %s is ready and a claim request waits for queue %s", d.Task.ID, e.Queue)
		case d.State == crdt.StateScheduled && d.Task.NotBefore() <= now.Wall && s.Mutant.Clock == nil:
			s.Violation("wake-up", "task %s was due %v ago and is still scheduled", d.Task.ID, time.Duration(now.Wall-d.Task.NotBefore()))
		}
		return s.Found == nil
	})
}

// stopped tells whether a queue may be paused: nobody was told that it is not,
// or the register has a pause that the core may not have read yet.
func (n Looking) stopped(queue string) bool {
	if n.paused[queue] {
		return true
	}
	set := &nornv1.QueueSettings{}
	n.register.Do(register.Request{}, func(r register.Result) {
		if err := proto.Unmarshal(r.State.Queues[queue].Settings, set); err != nil {
			n.S.Violation(run.Audit, "settings of queue %s: %v", queue, err)
		}
	})
	return set.GetPaused()
}

// followers: a log request that waits is answered once its task has something
// new, or is finished. The read that answers it takes a while; it may not take
// long.
func (n Looking) followers(r *round) {
	s := n.S
	for _, from := range n.Questions() {
		q := n.Asked[from]
		m, ok := q.Body.Body.(*nornv1.LogRequest)
		if !ok || m.GetWaitSeconds() == 0 {
			continue
		}
		task := convert.IDOf(m.GetId())
		t, err := vnode.LoadTask(n.Disk, ring.Of(task, s.Plan.Partitions), task)
		if err != nil {
			s.Violation(run.Audit, "%v", err)
			return
		}
		after := vnode.LogAfter{Is: m.GetAfter(), Token: m.GetAfterToken(), Seq: m.GetAfterSeq()}
		fresh, _, err := vnode.Log(n.Disk, ring.Of(task, s.Plan.Partitions), task, after, 1, 1)
		if err != nil {
			s.Violation(run.Audit, "%v", err)
			return
		}
		news := t.Finished() || len(fresh) > 0
		switch {
		case !news:
			q.news = 0
		case q.news == 0:
			q.news = s.Now
		case s.Now-q.news > int64(n.patience()):
			s.Violation("wake-up", "a log request waits for news of task %s, and there has been some for %v", task, time.Duration(s.Now-q.news))
		}
	}
}

// Buried: in the end everything is collected whose time is over and that no
// unfinished task depends on, and archived where that was asked for.
func (n Looking) Buried() {
	s := n.S
	needed := map[id.ID]bool{}
	var finished []*vnode.Detail
	n.walk(func(d *vnode.Detail) bool {
		t := d.Task
		switch {
		case t.Collected():
			s.Stats[stats.Collected]++
			if s.Plan.What == nornv1.Retention_RETENTION_ARCHIVE && !s.Archived[t.ID] {
				s.Violation("archive", "task %s was collected and is not in the archive", t.ID)
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
		keep := s.Plan.Retention
		if d.State == crdt.StateDead {
			keep = s.Plan.DeadRetention
		}
		over := d.Task.FinishedAt() + int64(keep+2*s.Plan.Collect+5*time.Second)
		if keep > 0 && s.Plan.Collect > 0 && !needed[d.Task.ID] && over < n.Clock.Wall(s.Now) {
			s.Violation("collected", "task %s is %s since %v and still there", d.Task.ID, d.State, time.Duration(n.Clock.Wall(s.Now)-d.Task.FinishedAt()))
			return
		}
	}
}

// waitsFor gives the queues that claim requests wait for after a round: those
// that were stepped and have no answer, neither on its way.
func (n Looking) waitsFor(r *round) map[string]bool {
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
	for from, q := range n.Asked { // Any order: a set is built.
		m, ok := q.Body.Body.(*nornv1.ClaimRequest)
		if !ok || answered[from] || core.PassedOver(n.Core, from.Conn, n.Clock.Time(n.S.Now)) {
			continue
		}
		for _, name := range m.GetQueues() {
			queues[name] = true
		}
	}
	return queues
}

// Unfinished tells whether the node has a task that is neither finished nor
// waits for others.
func (n *Node) Unfinished() (found bool) {
	n.walk(func(d *vnode.Detail) bool {
		found = d.Task.Enqueued != nil && !d.State.Finished() && d.State != crdt.StateWaiting
		return !found
	})
	return found
}
