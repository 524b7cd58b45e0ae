package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// two sides take different tasks under one ID
func TestTheDependenciesOfALosingSpecDoNotMatter(t *testing.T) {
	for _, dies := range []bool{false, true} {
		r := newTrio(t)
		r.lead(0)
		a, b := r.in(0), r.in(0)
		r.add(0, a, spec("a"))
		r.add(0, b, spec("b"))
		r.settle()
		one, two := after("c", onFailCancel, a), after("c", onFailCancel, b)
		task := r.in(1)
		one.Id, two.Id = task.Bytes(), task.Bytes()
		for i := range 2 {
			r.cut[[2]int{i, 2}], r.cut[[2]int{2, i}] = true, true
		}
		level := &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}
		// a is before b, so the spec that waits for a wins: it comes second to the leader.
		r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{two}, Durability: level})
		r.settle()
		r.send(2, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{one}, Durability: level})
		r.settle()
		clear(r.cut)
		r.live(10*time.Second, 250*time.Millisecond, nothing)
		got := ask[*nornv1.GetReply](r, 0, &nornv1.GetRequest{Id: task.Bytes()}).Task
		if len(got.Dependencies) != 1 || got.Dependencies[0] != a.String() {
			t.Fatalf("it depends on %v, not on %s (the other is %s)", got.Dependencies, a, b)
		}
		if dies {
			g := ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"b"}}).Grants[0]
			ask[*nornv1.WriteReply](r, 0, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: b.Bytes(), Token: g.Token, Error: "e", Discard: true}}})
			r.settle()
			if s := r.stateOf(0, task); s != nornv1.State_STATE_WAITING {
				t.Errorf("it is %v after a task died that it does not depend on", s)
			}
			continue
		}
		r.finish(0, "a")
		r.live(10*time.Second, 250*time.Millisecond, nothing)
		if s := r.stateOf(0, task); s != nornv1.State_STATE_READY {
			t.Errorf("it is %v when its only dependency is completed", s)
		}
	}
}

var _ = []any{id.ID{}, ring.Partition(0), vnode.Known}

// TestWhatIsBuriedDependsOnNothing: a newcomer has copied a task that waits when
// that is cancelled and collected. What it depends on is collected in the end, also
// where the newcomer leads.
func TestWhatIsBuriedDependsOnNothing(t *testing.T) {
	r := newGrowing(t).collecting()
	r.settle()
	for p := range ring.Partition(testPartitions) {
		r.add(0, r.in(p), spec("z"))
	}
	needed, task := r.in(0), r.in(1)
	r.add(0, needed, spec("a"))
	r.add(0, task, after("b", onFailCancel, needed))
	r.join()
	early := func(l letter) bool { _, votes := l.message.(*message.Ballots); return votes }
	has := func() bool { _, ok := r.peers[1].remains()[task]; return ok }
	for range 100 {
		if has() {
			break
		}
		r.live(time.Second, time.Second/2, early)
	}
	if !has() {
		t.Fatal("it is not copied")
	}
	ask[*nornv1.WriteReply](r, 0, &nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}})
	r.live(20*time.Second, time.Second/2, early)
	for i, p := range r.peers {
		if !p.remains()[task] {
			t.Fatalf("node %d has not got the tombstone", i+1)
		}
	}
	r.run(2)
	r.linger(3 * shortGrace)
	if r.known(task) {
		t.Fatal("the tombstone stays")
	}
	r.lead(1)
	r.finish(1, "a")
	if _, ok := r.until(3*shortGrace, func() bool { return !r.known(needed) }); !ok {
		for i, p := range r.peers {
			v := p.core.vnodes.Use(0)
			t.Logf("node %d: dependents of %s: %v, what holds tasks back: %v", i+1, needed, v.Edges.Of(p.core.round.Tx, needed, id.ID{}, 9), vnode.Waiting(p.core.round.Tx, 1, id.ID{}, id.ID{}, 9))
		}
		t.Errorf("a completed task is never collected (%v): one depends on it that has long been forgotten", r.stateOf(0, needed))
	}
}
