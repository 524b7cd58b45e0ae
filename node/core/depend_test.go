package core

import (
	"strings"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/dependency"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

func after(queue string, policy nornv1.DependencyFailure, deps ...id.ID) *nornv1.TaskSpec {
	s := spec(queue)
	s.OnDependencyFailure = policy
	for _, d := range deps {
		s.Dependencies = append(s.Dependencies, d.Bytes())
	}
	return s
}

const (
	onFailCancel = nornv1.DependencyFailure_DEPENDENCY_FAILURE_CANCEL
	onFailRun    = nornv1.DependencyFailure_DEPENDENCY_FAILURE_RUN
	onFailWait   = nornv1.DependencyFailure_DEPENDENCY_FAILURE_WAIT
)

func (r *rig) state(task id.ID) string {
	r.t.Helper()
	return strings.ToLower(strings.TrimPrefix(r.get(task).State.String(), "STATE_"))
}

func (r *rig) want(task id.ID, state string) {
	r.t.Helper()
	if got := r.state(task); got != state {
		r.t.Fatalf("task %s is %s, want %s", task, got, state)
	}
}

// finish claims the next task of a queue and completes it.
func (r *rig) finish(queue string) id.ID {
	r.t.Helper()
	g := r.claim(queue, 1)
	if len(g) != 1 {
		r.t.Fatalf("queue %s has nothing ready", queue)
	}
	task, err := id.Parse(g[0].Task.Id)
	if err != nil {
		r.t.Fatal(err)
	}
	if res := r.complete(task, g[0].Token); res.Error != nil {
		r.t.Fatal(res.Error)
	}
	return task
}

// die makes the next task of a queue dead.
func (r *rig) die(queue string) id.ID {
	r.t.Helper()
	g := r.claim(queue, 1)[0]
	task, _ := id.Parse(g.Task.Id)
	must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g.Token, Error: "boom", Discard: true}}})
	r.want(task, "dead")
	return task
}

func (r *rig) cancel(tasks ...id.ID) []*nornv1.WriteResult {
	r.t.Helper()
	m := &nornv1.CancelRequest{Reason: "not needed"}
	for _, task := range tasks {
		m.Ids = append(m.Ids, task.Bytes())
	}
	return must[*nornv1.WriteReply](r, m).Results
}

func (r *rig) retry(tasks ...id.ID) []*nornv1.WriteResult {
	r.t.Helper()
	m := &nornv1.RetryRequest{}
	for _, task := range tasks {
		m.Ids = append(m.Ids, task.Bytes())
	}
	return must[*nornv1.WriteReply](r, m).Results
}

func TestATaskWaitsForAllItsDependencies(t *testing.T) {
	r := newRig(t)
	deps := r.enqueue(spec("a"), spec("a"), spec("a"))
	task := r.enqueue(after("b", onFailCancel, deps...))[0]
	for range deps {
		r.want(task, "waiting")
		if g := r.claim("b", 1); len(g) != 0 {
			t.Fatal("a task was handed out before its dependencies were completed")
		}
		r.audit()
		r.finish("a")
	}
	r.want(task, "ready")
	r.audit()
	if r.finish("b") != task {
		t.Fatal("another task was handed out")
	}
	r.audit()
}

func TestADependencyMayBeFinishedOrUnknownAlready(t *testing.T) {
	r := newRig(t)
	done := r.enqueue(spec("a"))[0]
	r.finish("a")
	r.want(r.enqueue(after("b", onFailCancel, done))[0], "ready")
	unknown := r.ids.Next(r.now.Wall)
	task := r.enqueue(after("c", onFailCancel, unknown))[0]
	r.want(task, "waiting")
	r.audit()
	late := spec("a")
	late.Id = unknown.Bytes()
	r.enqueue(late)
	r.finish("a")
	r.want(task, "ready")
	r.audit()
}

func TestADependencyOlderThanTheHorizonIsNotFound(t *testing.T) {
	r := newRig(t)
	old := r.ids.Next(r.now.Wall)
	r.pass(8 * 24 * time.Hour)
	m := &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{after("b", onFailCancel, old)}}
	if e := must[*nornv1.EnqueueReply](r, m).Results[0].Error; e.GetKind() != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
		t.Fatalf("%v, want NOT_FOUND", e)
	}
}

func TestAFailedDependencyAppliesThePolicy(t *testing.T) {
	for _, kind := range []string{"dead", "cancelled"} {
		for _, early := range []bool{false, true} {
			r := newRig(t)
			dep := r.enqueue(spec("a"))[0]
			fail := func() {
				if kind == "dead" {
					r.die("a")
				} else {
					r.cancel(dep)
				}
			}
			if early {
				fail()
			}
			cancel := r.enqueue(after("b", onFailCancel, dep))[0]
			chained := r.enqueue(after("b", onFailCancel, cancel))[0]
			run := r.enqueue(after("b", onFailRun, dep))[0]
			wait := r.enqueue(after("b", onFailWait, dep))[0]
			if !early {
				r.want(cancel, "waiting")
				fail()
			}
			r.want(cancel, "cancelled")
			r.want(chained, "cancelled")
			r.want(run, "ready")
			r.want(wait, "waiting")
			if e := r.get(cancel).Error; !strings.Contains(e, dep.String()) {
				t.Fatalf("the error %q does not name the dependency", e)
			}
			r.audit()
			if kind == "dead" { // a replay lets the waiting one go, and the others as they are
				if res := r.retry(cancel)[0]; res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
					t.Fatalf("retried while its dependency is dead: %v", res)
				}
				r.retry(dep)
				r.retry(cancel)
				r.want(cancel, "waiting")
				r.audit()
				r.finish("a")
				r.want(wait, "ready")
				r.want(cancel, "ready")
				r.want(chained, "cancelled")
				r.audit()
			}
		}
	}
}

func TestACycleWaitsAndIsExplained(t *testing.T) {
	r := newRig(t)
	a, b := r.ids.Next(r.now.Wall), r.ids.Next(r.now.Wall)
	first, second := after("q", onFailCancel, b), after("q", onFailCancel, a)
	first.Id, second.Id = a.Bytes(), b.Bytes()
	r.enqueue(first, second)
	r.want(a, "waiting")
	reply := must[*nornv1.ExplainReply](r, &nornv1.ExplainRequest{Id: a.Bytes()})
	if k := reply.Reasons[0]; k.Kind != nornv1.ReasonKind_REASON_KIND_CYCLE || len(k.Tasks) != 2 {
		t.Fatalf("explained as %v", reply)
	}
	r.cancel(b)
	r.want(a, "cancelled")
	r.audit()
}

// TestALeaseThatIsOverIsExplained: the task waits for the buffer then, and nobody need
// wait for the worker.
func TestALeaseThatIsOverIsExplained(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	r.claim("q", 1)
	says := func(want string) {
		t.Helper()
		reply := must[*nornv1.ExplainReply](r, &nornv1.ExplainRequest{Id: task.Bytes()})
		if len(reply.Reasons) != 1 || !strings.Contains(reply.Reasons[0].Text, want) {
			t.Errorf("explained as %v, want %q", reply, want)
		}
	}
	says("unless it is renewed")
	r.pass(leaseTime + eta/2)
	says("is handed on once the buffer")
}

// A crash at any point of telling many dependents loses none of them.
func TestManyDependentsAreToldInStepsAndOverACrash(t *testing.T) {
	r := newRig(t)
	dep := r.enqueue(spec("a"))[0]
	var tasks []id.ID
	for range 3 {
		var specs []*nornv1.TaskSpec
		for range dependency.MaxTold {
			specs = append(specs, after("b", onFailCancel, dep))
		}
		tasks = append(tasks, r.enqueue(specs...)...)
	}
	g := r.claim("a", 1)[0]
	r.send(1, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: dep.Bytes(), Token: g.Token}}})
	ready, err := r.core.Ready(r.now) // one round only, and then the power goes
	if err != nil {
		t.Fatal(err)
	}
	r.store.Apply(ready.Persist)
	r.store.Sync()
	r.crash(time.Second)
	for _, task := range tasks {
		r.want(task, "ready")
	}
	r.audit()
}

func TestCancel(t *testing.T) {
	r := newRig(t)
	ids := r.enqueue(spec("q"), spec("q"), spec("q"))
	g := r.claim("q", 1)[0]
	claimed, _ := id.Parse(g.Task.Id)
	r.complete(ids[0], g.Token)
	second := r.claim("q", 1)[0]
	res := r.cancel(ids[0], ids[1], ids[2], r.ids.Next(r.now.Wall))
	if claimed != ids[0] || res[0].Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_CONFLICT || res[0].State != nornv1.State_STATE_COMPLETED {
		t.Fatalf("a completed task: %v", res[0])
	}
	if res[1].Error != nil || res[2].Error != nil || res[3].Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_NOT_FOUND {
		t.Fatalf("results %v", res)
	}
	lost := must[*nornv1.RenewReply](r, &nornv1.RenewRequest{Claims: []*nornv1.ClaimRef{{Id: ids[1].Bytes(), Token: second.Token}}}).Results[0]
	if lost.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST || lost.State != nornv1.State_STATE_CANCELLED {
		t.Fatalf("the worker of a cancelled task hears %v", lost)
	}
	if res := r.cancel(ids[2])[0]; !res.Receipt.GetExisted() {
		t.Fatalf("cancelled twice: %v", res)
	}
	if e := r.get(ids[2]).Error; e != "not needed" {
		t.Fatalf("the reason is %q", e)
	}
	again := &nornv1.CancelRequest{Ids: [][]byte{r.enqueue(spec("z"))[0].Bytes()}, OnlyStates: []nornv1.State{nornv1.State_STATE_READY}}
	for i := range 2 { // the second time as if the first answer had been lost
		if res := must[*nornv1.WriteReply](r, again).Results[0]; res.Error != nil || res.State != nornv1.State_STATE_CANCELLED || res.Receipt.GetExisted() != (i == 1) {
			t.Fatalf("cancelled if ready, for the %d. time: %v", i+1, res)
		}
	}
	only := must[*nornv1.WriteReply](r, &nornv1.CancelRequest{Ids: [][]byte{r.enqueue(spec("z"))[0].Bytes()}, OnlyStates: []nornv1.State{nornv1.State_STATE_DEAD}}).Results[0]
	if only.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_CONFLICT || only.State != nornv1.State_STATE_READY {
		t.Fatalf("cancelled although it is not dead: %v", only)
	}
	r.audit()
}

func TestRetry(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	r.die("q")
	if res := r.retry(task)[0]; res.Error != nil || res.State != nornv1.State_STATE_READY {
		t.Fatalf("a dead task: %v", res)
	}
	if res := must[*nornv1.WriteReply](r, &nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}, OnlyStates: []nornv1.State{nornv1.State_STATE_DEAD}}).Results[0]; res.Error != nil || !res.Receipt.GetExisted() {
		t.Fatalf("retried if dead, as if the first answer had been lost: %v", res)
	}
	if res := r.retry(task)[0]; !res.Receipt.GetExisted() {
		t.Fatalf("retried twice: %v", res)
	}
	if got := r.get(task); got.Attempts != 0 || got.Retries != 1 {
		t.Fatalf("attempts %d, retries %d", got.Attempts, got.Retries)
	}
	g := r.claim("q", 1)[0]
	must[*nornv1.WriteReply](r, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g.Token, Error: "boom"}}})
	r.want(task, "scheduled")
	r.retry(task)
	r.want(task, "ready")
	next := r.claim("q", 1)[0]
	if next.Token <= g.Token {
		t.Fatalf("token %d after %d", next.Token, g.Token)
	}
	r.complete(task, next.Token)
	if res := r.retry(task)[0]; res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
		t.Fatalf("a completed task: %v", res)
	}
	r.audit()
}
