package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	edges "github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
)

// in draws an ID of a partition.
func (r *trio) in(p ring.Partition) id.ID {
	for {
		if task := r.ids.Next(r.now.Wall); ring.Of(task, testPartitions) == p {
			return task
		}
	}
}

func (r *trio) stateOf(i int, task id.ID) nornv1.State {
	r.t.Helper()
	return ask[*nornv1.GetReply](r, i, &nornv1.GetRequest{Id: task.Bytes()}).Task.State
}

// add enqueues a task with an ID.
func (r *trio) add(i int, task id.ID, s *nornv1.TaskSpec) {
	r.t.Helper()
	s.Id = task.Bytes()
	if res := ask[*nornv1.EnqueueReply](r, i, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}).Results[0]; res.Error != nil {
		r.t.Fatal(res.Error)
	}
}

// finish claims the only ready task of a queue and completes it.
func (r *trio) finish(i int, queue string) {
	r.t.Helper()
	grants := ask[*nornv1.ClaimReply](r, i, &nornv1.ClaimRequest{Queues: []string{queue}}).Grants
	if len(grants) != 1 {
		r.t.Fatalf("%d tasks were claimed of queue %s", len(grants), queue)
	}
	g := grants[0]
	c := &nornv1.Completion{Id: parse(r.t, g.Task.Id).Bytes(), Token: g.Token, AutoSeq: true}
	if res := ask[*nornv1.WriteReply](r, i, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{c}}).Results[0]; res.Error != nil {
		r.t.Fatal(res.Error)
	}
}

// lead has a node lead everything.
func (r *trio) lead(i int) {
	r.t.Helper()
	r.name(i)
	r.elect()
}

// name names a node in all cells.
func (r *trio) name(i int) {
	r.t.Helper()
	var changes []register.Change
	for p, cell := range r.state().Cells {
		next := register.Cell{Epoch: cell.Epoch + 1, Cohort: cell.Cohort, Leader: r.peers[i].self, Nonce: r.rand.Uint64()}
		changes = append(changes, register.Change{Partition: ring.Partition(p), Old: cell, New: next})
	}
	r.register.Do(register.Request{Changes: changes}, func(register.Result) {})
	r.tell()
}

// TestDependenciesAcrossNodes: of five nodes none keeps everything; a task
// starts when what it depends on is completed, wherever both are.
func TestDependenciesAcrossNodes(t *testing.T) {
	for p := range ring.Partition(testPartitions) {
		for q := range ring.Partition(testPartitions) {
			r := newCluster(t, 5, 0)
			first, second := r.in(p), r.in(q)
			r.add(int(p), second, after("b", onFailCancel, first)) // before what it depends on
			r.add(int(q), first, spec("a"))
			if s := r.stateOf(4, second); s != nornv1.State_STATE_WAITING {
				t.Fatalf("partitions %d and %d: it is %v", p, q, s)
			}
			r.finish(3, "a")
			for range 3 {
				r.pass(edges.WatchEvery)
				r.settle()
			}
			if s := r.stateOf(4, second); s != nornv1.State_STATE_READY {
				t.Fatalf("partitions %d and %d: after the dependency it is %v", p, q, s)
			}
			r.finish(2, "b")
		}
	}
}

// newUnheard makes a trio in which a task of queue b waits for one whose completion has
// reached nodes 1 and 2; node 0, which led them, has died before it acted on that.
func newUnheard(t *testing.T) *trio {
	t.Helper()
	r := newTrio(t)
	first, second := r.in(0), r.in(1)
	r.add(0, first, spec("a"))
	r.add(0, second, after("b", onFailCancel, first))
	r.settle()
	grants := ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"a"}}).Grants
	r.kill(0)
	c := &nornv1.Completion{Id: first.Bytes(), Token: grants[0].Token, AutoSeq: true}
	from := r.send(1, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{c}})
	r.settle()
	if _, ok := r.peers[1].replies[from]; !ok {
		t.Fatal("no majority")
	}
	return r
}

// TestANewLeaderTellsDependents: what its predecessor has not acted on it does.
func TestANewLeaderTellsDependents(t *testing.T) {
	r := newUnheard(t)
	r.lead(1)
	r.settle()
	r.finish(1, "b")
}

// TestTheOnlyNodeLeftTellsDependents: it has what its leader had not acted on, and
// begins to lead when it is alone already.
func TestTheOnlyNodeLeftTellsDependents(t *testing.T) {
	r := newUnheard(t)
	r.kill(2)
	self := r.peers[1].self
	var changes []register.Change
	for p, cell := range r.state().Cells { // as when the others are given up
		next := register.Cell{Epoch: cell.Epoch + 1, Cohort: []register.Member{self}, Leader: self, Nonce: r.rand.Uint64()}
		changes = append(changes, register.Change{Partition: ring.Partition(p), Old: cell, New: next})
	}
	r.register.Do(register.Request{Changes: changes}, func(register.Result) {})
	r.elect()
	r.settle()
	r.finish(1, "b")
}

// TestANewLeaderReleasesWhatItsPredecessorRetried: a task that a dependency had
// cancelled, and that was retried with it, waits at every replica again (track
// record, simulator of clusters, seed 43).
func TestANewLeaderReleasesWhatItsPredecessorRetried(t *testing.T) {
	r := newTrio(t)
	first, second := r.in(0), r.in(1)
	r.add(0, first, spec("a"))
	r.add(0, second, after("b", onFailCancel, first))
	r.settle()
	claim := func() uint64 {
		t.Helper()
		grants := ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"a"}}).Grants
		if len(grants) != 1 {
			t.Fatalf("%d tasks were claimed", len(grants))
		}
		return grants[0].Token
	}
	dies := &nornv1.Failure{Id: first.Bytes(), Token: claim(), Error: "e", Discard: true}
	ask[*nornv1.WriteReply](r, 0, &nornv1.FailRequest{Failures: []*nornv1.Failure{dies}})
	r.settle()
	if s := r.stateOf(0, second); s != nornv1.State_STATE_CANCELLED {
		t.Fatalf("it is %v", s)
	}
	for _, task := range []id.ID{first, second} {
		if res := ask[*nornv1.WriteReply](r, 0, &nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}}).Results[0]; res.Error != nil {
			t.Fatal(res.Error)
		}
	}
	r.settle()
	token := claim()
	r.kill(0)
	r.send(1, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: first.Bytes(), Token: token, AutoSeq: true}}})
	r.settle()
	r.lead(1)
	r.settle()
	r.finish(1, "b")
}

// TestAnAnswerAboutATaskThatIsKeptHereByNow: who asked about a dependency that
// others kept, and keeps it itself when the answer comes, goes by what is here
// (track record, simulator of clusters, seed 17).
func TestAnAnswerAboutATaskThatIsKeptHereByNow(t *testing.T) {
	r := newTrio(t)
	first, second := r.in(0), r.in(1)
	r.add(0, first, spec("a"))
	r.add(0, second, after("b", onFailCancel, first))
	r.settle()
	leader := r.peers[0].core
	grants := ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"a"}}).Grants
	v := leader.vnodes.Use(1)
	epoch := v.Leading()
	v.Follow() // while the dependency ends, nobody here may act on it
	c := &nornv1.Completion{Id: first.Bytes(), Token: grants[0].Token, AutoSeq: true}
	ask[*nornv1.WriteReply](r, 1, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{c}})
	leader.vnodes.Use(1).Lead(epoch)
	if s := r.stateOf(0, second); s != nornv1.State_STATE_WAITING {
		t.Fatalf("it is %v before anything has come", s)
	}
	answer := &message.Outcomes{Outcomes: []message.Outcome{{Task: first, State: crdt.StateCompleted}}}
	r.check(leader.Step(r.now, &message.FromPeer{From: r.peers[2].self, Message: answer}))
	r.turn(0)
	r.settle()
	if s := r.stateOf(0, second); s != nornv1.State_STATE_READY {
		t.Errorf("it is %v after the answer", s)
	}
}

// TestARetriedDependencyIsNotDead: a dependency was dead and is retried, which a
// majority has; the leader of a task that comes after that has not heard of it. It waits
// for the end of the retry (track record). One that was not retried fails it at once,
// though its leader's first answer gets lost.
func TestARetriedDependencyIsNotDead(t *testing.T) {
	for _, retried := range []bool{true, false} {
		r := newTrio(t)
		r.lead(0)
		dep, task := r.in(0), r.in(1)
		r.leadOf(0, 1)
		r.add(1, dep, spec("a"))
		r.settle()
		g := ask[*nornv1.ClaimReply](r, 1, &nornv1.ClaimRequest{Queues: []string{"a"}}).Grants[0]
		ask[*nornv1.WriteReply](r, 1, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: dep.Bytes(), Token: g.Token, Error: "e", Discard: true}}})
		r.settle()
		if retried {
			from := r.send(1, &nornv1.RetryRequest{Ids: [][]byte{dep.Bytes()}})
			r.settleBut(func(l letter) bool { _, facts := l.message.(*message.Facts); return facts && l.from == 1 && l.to == 0 })
			if reply, ok := r.peers[1].replies[from]; !ok || reply.Message.(*nornv1.WriteReply).Results[0].Error != nil {
				t.Fatalf("%v", reply)
			}
		}
		s := after("b", onFailCancel, dep)
		s.Id = task.Bytes()
		r.send(2, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
		r.settleBut(func(l letter) bool { _, says := l.message.(*message.Outcomes); return says })
		r.live(10*time.Second, 250*time.Millisecond, nothing)
		switch a, b := r.stateOf(0, dep), r.stateOf(0, task); {
		case !retried && b != nornv1.State_STATE_CANCELLED:
			t.Errorf("the dependency is %v, and the task that came after that is %v", a, b)
		case retried && b != nornv1.State_STATE_WAITING:
			t.Errorf("the dependency is %v, and the task that came after its retry was acknowledged is %v", a, b)
		case retried:
			r.finish(1, "a")
			r.live(3*time.Second, 250*time.Millisecond, nothing)
			r.finish(0, "b")
		}
	}
}

// TestAFailureComesAfterACompletion: a dependency that is kept elsewhere was dead, was retried
// and completed, and that it was dead comes last: before its dependents were told, or after
// that, where one of them waits for another one still.
func TestAFailureComesAfterACompletion(t *testing.T) {
	for _, told := range []bool{false, true} {
		r := newCluster(t, 5, 0)
		leader := slices.IndexFunc(r.peers, func(p *peer) bool { return p.self == r.state().Cells[0].Leader })
		c := r.peers[leader].core
		away := ring.Partition(slices.IndexFunc(r.state().Cells, func(cell register.Cell) bool { return !slices.Contains(cell.Cohort, c.cfg.Self) }))
		dependency, other := r.in(away), r.in(away)
		one, two := r.in(0), r.in(0)
		r.add(leader, one, after("b", onFailCancel, dependency))
		r.add(leader, two, after("b", onFailCancel, dependency, other))
		hear := func(s crdt.State) {
			from := r.state().Cells[away].Cohort[0]
			r.check(c.Step(r.clock(leader), &message.FromPeer{From: from, Message: &message.Outcomes{Number: c.dependency.Watches.Number, Outcomes: []message.Outcome{{Task: dependency, State: s}}}}))
		}
		hear(crdt.StateCompleted)
		if told {
			r.turn(leader)
		}
		hear(crdt.StateDead)
		r.turn(leader)
		r.settle()
		for task, want := range map[id.ID]nornv1.State{one: nornv1.State_STATE_READY, two: nornv1.State_STATE_WAITING} {
			if s := r.stateOf(leader, task); s != want {
				t.Errorf("told before the failure came: %v: a task is %v, want %v", told, s, want)
			}
		}
		hear(crdt.StateCompleted)
		r.turn(leader)
		if n := len(c.dependency.News); n != 0 {
			t.Errorf("%d news are left", n)
		}
	}
}
