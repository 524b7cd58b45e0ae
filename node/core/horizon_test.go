package core

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	edges "github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// leadOf has a node lead one partition.
func (r *trio) leadOf(p ring.Partition, i int) {
	r.t.Helper()
	old := r.state().Cells[p]
	next := register.Cell{Epoch: old.Epoch + 1, Cohort: old.Cohort, Leader: r.peers[i].self, Nonce: r.rand.Uint64()}
	r.register.Do(register.Request{Changes: []register.Change{{Partition: p, Old: old, New: next}}}, func(register.Result) {})
	r.elect()
}

// short has the nodes forget soon, without collecting anything.
func (r *trio) short() {
	r.t.Helper()
	r.grace = shortGrace
	for i := range r.peers {
		r.open(i) // it is read at the start
	}
	r.elect()
}

// linger lets time pass.
func (r *trio) linger(d time.Duration) { r.until(d, func() bool { return false }) }

// known tells whether any node has something of a task.
func (r *trio) known(task id.ID) bool {
	return !r.every(func(p *peer) bool { _, ok := p.remains()[task]; return !ok })
}

// TestNobodyWaitsForWhatIsForgotten: a dependency was completed, collected and
// forgotten, and is kept elsewhere, so that the task is let in. Its leader finds
// that nobody knows the dependency, and cancels the task, under each policy; what
// waits for a task that is still to come, or that is old and there, waits on
// (track record).
func TestNobodyWaitsForWhatIsForgotten(t *testing.T) {
	// Partition 0 is kept by the first three nodes, partition 3 by the fourth and
	// the next two.
	for _, of := range []struct{ nodes, leader int }{{6, 4}, {5, 4}, {5, 0}} {
		t.Run(fmt.Sprintf("%d nodes, leader %d", of.nodes, of.leader), func(t *testing.T) {
			r := newCluster(t, of.nodes, 0).collecting()
			r.elect()
			r.leadOf(3, of.leader)
			gone, there := r.in(0), r.in(0)
			r.add(0, gone, spec("a"))
			r.add(0, there, spec("c"))
			r.settle()
			r.done(0, gone)
			if _, ok := r.until(shortGrace+3*time.Minute, func() bool { return !r.known(gone) }); !ok {
				t.Fatal("it is never forgotten")
			}
			r.linger(shortGrace)
			var tasks []id.ID
			for _, policy := range []nornv1.DependencyFailure{onFailCancel, onFailRun, onFailWait} {
				task := r.in(3)
				r.add(3, task, after("b", policy, there, gone))
				tasks = append(tasks, task)
			}
			old, early := r.in(3), r.in(3)
			r.add(3, old, after("b", onFailCancel, there))
			r.add(3, early, after("b", onFailCancel, r.in(0)))
			why := map[id.ID]string{} // until they are collected, too
			r.until((edges.SearchTimes+2)*edges.SearchEvery, func() bool { return false }, func() {
				for _, task := range tasks {
					if got := ask[*nornv1.GetReply](r, 3, &nornv1.GetRequest{Id: task.Bytes()}).Task; got.GetState() == nornv1.State_STATE_CANCELLED && why[task] == "" {
						why[task] = got.GetError()
					}
				}
			})
			for i, task := range tasks {
				if s := r.stateOf(3, task); s != nornv1.State_STATE_CANCELLED || !strings.Contains(why[task], gone.String()) {
					t.Errorf("task %d is %v: %q", i, s, why[task])
				}
			}
			for _, task := range []id.ID{old, early} {
				if s := r.stateOf(3, task); s != nornv1.State_STATE_WAITING {
					t.Errorf("a task whose dependency is known, or to come, is %v", s)
				}
			}
			r.audit()
		})
	}
}

// TestUnknownAtOneReplicaIsNotForgotten: the leader of an old dependency has not
// heard of it, nor hears the others who have. Who depends on it waits until it is
// completed.
func TestUnknownAtOneReplicaIsNotForgotten(t *testing.T) {
	r := newCluster(t, 6, 0)
	r.short()
	r.leadOf(0, 0)
	for i := range r.peers {
		r.cut[[2]int{i, 0}] = i == 1 || i == 2
	}
	dependency := r.in(0)
	r.add(1, dependency, spec("a"))
	r.settle()
	r.now = r.now.Add(2 * shortGrace)
	task := r.in(3)
	r.add(3, task, after("b", onFailCancel, dependency))
	r.linger((edges.SearchTimes + 2) * edges.SearchEvery)
	if n := r.copies(dependency); n != 2 {
		t.Fatalf("there are %d copies", n)
	}
	if s := r.stateOf(3, task); s != nornv1.State_STATE_WAITING {
		t.Fatalf("it is %v", s)
	}
	clear(r.cut)
	r.elect()
	r.linger((edges.SearchTimes + 2) * edges.SearchEvery)
	if s := r.stateOf(3, task); s != nornv1.State_STATE_WAITING {
		t.Fatalf("after the cut it is %v", s)
	}
	r.done(1, dependency)
	r.linger(3 * time.Second)
	if s := r.stateOf(3, task); s != nornv1.State_STATE_READY {
		t.Errorf("after the dependency it is %v", s)
	}
}

// TestADependencyThatComesOfAge: one that was young when the task was let in is waited
// for while somebody who may have it is switched off, however old it gets. If it turns out
// that none of those who would keep it does, nobody can enqueue it any more.
func TestADependencyThatComesOfAge(t *testing.T) {
	for _, has := range []bool{true, false} {
		r := newCluster(t, 6, 0)
		r.short()
		dependency, task := r.in(0), r.in(3)
		r.add(3, task, after("b", onFailCancel, dependency))
		if has { // with one copy
			r.enqueue(2, dependency, &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE})
			r.post = nil
		}
		r.kill(2)
		r.elect()
		r.linger(3 * shortGrace)
		if s := r.stateOf(3, task); s != nornv1.State_STATE_WAITING {
			t.Fatalf("who may have it is away (and does: %t), and it is %v", has, s)
		}
		r.open(2)
		r.elect()
		r.linger((edges.SearchTimes + 2) * edges.SearchEvery)
		want := nornv1.State_STATE_CANCELLED
		if has {
			want = nornv1.State_STATE_WAITING
		}
		if s := r.stateOf(3, task); s != want {
			t.Errorf("all are back (one has it: %t), and it is %v", has, s)
		}
		r.audit()
	}
}

// TestWhatIsForgottenWhileAllWereOff: all who keep a task that waits are switched off for
// longer than gc-grace. What it waits for is completed, collected and forgotten
// meanwhile. Under each policy it is cancelled, and says why; what waits for a task that
// is there is told how that ended (track record: the one waited for ever).
func TestWhatIsForgottenWhileAllWereOff(t *testing.T) {
	for _, policy := range []nornv1.DependencyFailure{onFailCancel, onFailRun, onFailWait} {
		r := newCluster(t, 6, 0).collecting()
		r.retain = time.Hour
		r.elect()
		gone, there := r.in(0), r.in(0)
		r.add(0, gone, spec("a"))
		r.add(0, there, spec("c"))
		task, other := r.in(3), r.in(3)
		r.add(3, task, after("b", policy, there, gone))
		r.add(3, other, after("d", policy, there))
		r.settle()
		for i := 3; i < 6; i++ {
			r.kill(i)
		}
		r.tell()
		r.done(0, gone)
		if _, ok := r.until(3*shortGrace+10*time.Minute, func() bool { return !r.known(gone) }); !ok {
			t.Fatal("it is never forgotten")
		}
		for i := 3; i < 6; i++ {
			r.open(i)
		}
		r.elect()
		r.linger((edges.SearchTimes + 2) * edges.SearchEvery)
		if s := r.stateOf(3, other); s != nornv1.State_STATE_WAITING {
			t.Fatalf("%v: what waits for one that is there is %v", policy, s)
		}
		got := ask[*nornv1.GetReply](r, 3, &nornv1.GetRequest{Id: task.Bytes()}).Task
		if got.GetState() != nornv1.State_STATE_CANCELLED || !strings.Contains(got.GetError(), gone.String()) {
			t.Errorf("%v: it is %v: %q", policy, got.GetState(), got.GetError())
		}
		r.done(0, there)
		r.linger(3 * time.Second)
		if s := r.stateOf(3, other); s != nornv1.State_STATE_READY {
			t.Errorf("%v: when the other one is completed, what waits for it is %v", policy, s)
		}
		r.audit()
	}
}

// TestManyForgottenDependencies: they are asked about some at a time, and all of
// their dependents are cancelled in the end, and again when they are retried.
func TestManyForgottenDependencies(t *testing.T) {
	r := newCluster(t, 6, 0)
	r.short()
	var old, tasks []id.ID
	for range edges.MaxMissed + 2 {
		old = append(old, r.in(0)) // and nobody ever enqueues them
	}
	r.now = r.now.Add(2 * shortGrace)
	r.elect()
	m := &nornv1.EnqueueRequest{}
	for i := range 2 * len(old) {
		s := after("b", onFailCancel, old[i%len(old)])
		tasks = append(tasks, r.in(3))
		s.Id = tasks[i].Bytes()
		m.Tasks = append(m.Tasks, s)
	}
	ask[*nornv1.EnqueueReply](r, 3, m)
	most := 0
	cancelled := func() bool {
		open := 0
		for _, p := range r.peers {
			most = max(most, len(p.core.dependency.Forgotten.Missed))
			open += len(vnode.Waiting(p.core.round.Tx, 3, id.ID{}, id.ID{}, 1))
		}
		return open == 0
	}
	if took, ok := r.until(10*time.Minute, cancelled); !ok {
		t.Fatalf("after %v not all are cancelled", took)
	}
	if most != edges.MaxMissed {
		t.Errorf("%d were asked about at a time, want %d", most, edges.MaxMissed)
	}
	for _, task := range tasks {
		if s := r.stateOf(3, task); s != nornv1.State_STATE_CANCELLED {
			t.Fatalf("one is %v", s)
		}
	}
	again := tasks[0] // it is taken by who cannot tell, and ends the same way
	if res := ask[*nornv1.WriteReply](r, 3, &nornv1.RetryRequest{Ids: [][]byte{again.Bytes()}}).Results[0]; res.Error != nil || r.stateOf(3, again) != nornv1.State_STATE_WAITING {
		t.Fatalf("retried: %v", res)
	}
	if _, ok := r.until((edges.SearchTimes+2)*edges.SearchEvery, cancelled); !ok || r.stateOf(3, again) != nornv1.State_STATE_CANCELLED {
		t.Errorf("retried, it is %v", r.stateOf(3, again))
	}
}

// TestWhatIsWaitedForIsKept: a dependency that is dead is not collected while
// a task waits for it to be retried and completed, whoever keeps that one. The
// leader may be another one meanwhile (track record).
func TestWhatIsWaitedForIsKept(t *testing.T) {
	// Partition 0 is kept by the first three nodes, partition 3 by the fourth and
	// the next two: of five nodes the first one keeps both.
	for _, of := range []struct{ nodes, leader int }{{6, 4}, {5, 4}, {5, 0}} {
		t.Run(fmt.Sprintf("%d nodes, leader %d", of.nodes, of.leader), func(t *testing.T) {
			r := newCluster(t, of.nodes, 0).collecting()
			r.elect()
			r.leadOf(0, 1)
			r.leadOf(3, of.leader)
			wanted, idle := r.in(0), r.in(0)
			r.add(0, wanted, spec("a"))
			r.add(0, idle, spec("a"))
			task := r.in(3)
			r.add(3, task, after("b", onFailWait, wanted))
			for _, p := range r.peers {
				p.core.sharedConfig.Retention.Dead = time.Second
			}
			for _, g := range ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"a"}, MaxTasks: 2}).Grants {
				ask[*nornv1.WriteReply](r, 0, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: parse(t, g.Task.Id).Bytes(), Token: g.Token, Error: "e", Discard: true}}})
			}
			if _, ok := r.until(shortGrace+5*time.Minute, func() bool { return !r.known(idle) }); !ok {
				t.Fatal("what nobody waits for is never collected")
			}
			r.leadOf(0, 2) // which nobody has asked, and cannot ask yet
			r.cut[[2]int{of.leader, 2}], r.cut[[2]int{2, of.leader}] = true, true
			r.linger(edges.WatchFor / 2)
			clear(r.cut)
			r.linger(2 * edges.WatchFor)
			if s := r.stateOf(0, wanted); s != nornv1.State_STATE_DEAD || r.copies(wanted) < 3 {
				t.Fatalf("what is waited for is %v, with %d copies", s, r.copies(wanted))
			}
			why := ask[*nornv1.ExplainReply](r, 3, &nornv1.ExplainRequest{Id: task.Bytes()})
			if !strings.Contains(why.String(), wanted.String()+" is dead") {
				t.Errorf("why it waits: %v", why)
			}
			if res := ask[*nornv1.WriteReply](r, 0, &nornv1.RetryRequest{Ids: [][]byte{wanted.Bytes()}}).Results[0]; res.Error != nil {
				t.Fatal(res.Error)
			}
			r.linger(3 * time.Second)
			r.finish(1, "a")
			r.linger(3 * time.Second)
			r.finish(3, "b")
			if _, ok := r.until(shortGrace+5*time.Minute, func() bool { return !r.known(wanted) && !r.known(task) }); !ok {
				t.Fatal("both are finished and are never collected")
			}
			r.audit()
		})
	}
}

// TestADependencyThatIsDoneIsKept: of the two dependencies of a task one has long
// been completed when the other one is, and the task has another leader by then.
// That one hears of both, whoever keeps them (track record: it had been collected
// and forgotten, and the task waited for ever).
func TestADependencyThatIsDoneIsKept(t *testing.T) {
	for _, of := range []struct{ nodes, leader, next int }{{6, 4, 5}, {5, 4, 3}, {5, 4, 0}, {5, 0, 4}} {
		t.Run(fmt.Sprintf("%d nodes, leader %d and then %d", of.nodes, of.leader, of.next), func(t *testing.T) {
			r := newCluster(t, of.nodes, 0).collecting()
			r.elect()
			r.leadOf(0, 1)
			r.leadOf(3, of.leader)
			soon, late, idle, task := r.in(0), r.in(0), r.in(0), r.in(3)
			for _, d := range []id.ID{soon, late, idle} {
				r.add(0, d, spec("a"))
			}
			r.add(3, task, after("b", onFailCancel, soon, late))
			r.settle()
			r.done(0, soon, idle)
			if _, ok := r.until(shortGrace+5*time.Minute, func() bool { return !r.known(idle) }); !ok {
				t.Fatal("what nobody waits for is never collected")
			}
			r.leadOf(0, 2) // which has not been told what is needed
			r.linger(shortGrace + 3*time.Minute)
			r.leadOf(3, of.next)
			r.linger(10 * time.Second)
			r.done(0, late)
			r.linger(10 * time.Second)
			if s := r.stateOf(3, task); s != nornv1.State_STATE_READY {
				t.Fatalf("it is %v when both are done", s)
			}
			r.finish(3, "b")
			if _, ok := r.until(shortGrace+5*time.Minute, func() bool { return !r.known(soon) && !r.known(late) && !r.known(task) }); !ok {
				t.Fatal("all are finished and are never collected")
			}
			r.audit()
		})
	}
}

// TestWhoKeepsEverythingSaysWhatItNeeds: the leader of a task that waits keeps all
// partitions itself, and who leads its dependencies does not. As it had nobody to ask it
// told nobody either, and a dependency that was done was collected and forgotten.
func TestWhoKeepsEverythingSaysWhatItNeeds(t *testing.T) {
	r := newCohorts(t, 4, 0, func(p int) []int {
		return [][]int{{0, 1, 2}, {0, 1, 2}, {0, 2, 3}, {0, 1, 3}}[p]
	}).collecting()
	r.elect()
	r.leadOf(0, 2)
	r.leadOf(3, 0)
	if c := r.peers[0].core; !c.view.Holder || c.view.Whole {
		t.Fatalf("it keeps everything: %t, as everybody: %t", c.view.Holder, c.view.Whole)
	}
	soon, late, idle, task := r.in(0), r.in(0), r.in(0), r.in(3)
	for _, d := range []id.ID{soon, late, idle} {
		r.add(0, d, spec("a"))
	}
	r.add(3, task, after("b", onFailCancel, soon, late))
	r.settle()
	r.done(0, soon, idle)
	if _, ok := r.until(shortGrace+5*time.Minute, func() bool { return !r.known(idle) }); !ok {
		t.Fatal("what nobody waits for is never collected")
	}
	r.linger(shortGrace + 3*time.Minute)
	if r.copies(soon) < 3 {
		t.Fatalf("%d copies are left of what is waited for", r.copies(soon))
	}
	r.leadOf(3, 3) // who keeps nothing of them
	r.linger(10 * time.Second)
	r.done(0, late)
	r.linger(10 * time.Second)
	if s := r.stateOf(3, task); s != nornv1.State_STATE_READY {
		t.Fatalf("it is %v when both are done", s)
	}
	r.audit()
}

// TestADependencyOfAnotherKindComesOfAge: a launch may be begun late, by as much as a
// schedule may say, and a task of a unique key with a window while that lasts; after that,
// and gc-grace, nobody can enqueue them any more. The ID of a key without a window may come
// at any time, and is waited for.
func TestADependencyOfAnotherKindComesOfAge(t *testing.T) {
	const day = 24 * time.Hour
	for _, of := range []struct {
		what  string
		name  func(n int64, now int64) id.ID
		young time.Duration // it may still come
		old   time.Duration // it cannot
	}{
		{"launch", func(n, now int64) id.ID { return id.Launch([16]byte{1}, [16]byte{2}, now-now%1e9+n) }, 32 * day, 32*day + 2*shortGrace},
		{"key with a window", func(n, now int64) id.ID { return id.UniqueKey([16]byte{1}, "q", fmt.Sprint(n), now, 0) }, proto.MaxKeyWindow, proto.MaxKeyWindow + 2*shortGrace},
		{"key", func(n, _ int64) id.ID { return id.UniqueKey([16]byte{1}, "q", fmt.Sprint(n), 0, 0) }, 2 * proto.MaxKeyWindow, 0},
	} {
		r := newCluster(t, 6, 0)
		r.short()
		begun, n := r.now, int64(0)
		dependency := of.name(0, begun.Wall)
		for ; ring.Of(dependency, testPartitions) != 0; n++ {
			dependency = of.name(n, begun.Wall)
		}
		task := r.in(3)
		r.add(3, task, after("b", onFailCancel, dependency))
		pass := func(d time.Duration) nornv1.State {
			r.now = begun.Add(d)
			r.elect()
			r.linger((edges.SearchTimes + 2) * edges.SearchEvery)
			return r.stateOf(3, task)
		}
		if s := pass(of.young); s != nornv1.State_STATE_WAITING {
			t.Errorf("%s: %v after %v", of.what, s, of.young)
		}
		late := after("b", onFailCancel, dependency)
		late.Id = r.in(0).Bytes()
		enqueue := func() *nornv1.Error {
			return ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{late}}).Results[0].Error
		}
		if of.old != 0 {
			if s := pass(of.old); s != nornv1.State_STATE_CANCELLED {
				t.Errorf("%s: %v after %v", of.what, s, of.old)
			}
			late.Id = r.in(0).Bytes()
			if e := enqueue(); e.GetKind() != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
				t.Errorf("%s: what depends on it is taken after %v: %v", of.what, of.old, e)
			}
		} else if e := enqueue(); e != nil {
			t.Errorf("%s: %v", of.what, e)
		}
		r.audit()
	}
}
