package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/decided"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// tallied sums up decisions of a queue, and forgets them.
func tallied(t *testing.T, all *[]message.Decided, queue string) (n [message.Decisions]int) {
	t.Helper()
	for _, d := range *all {
		if d.Queue != queue {
			t.Errorf("a decision about queue %q: %+v", d.Queue, d)
		}
		n[d.What]++
	}
	*all = nil
	return n
}

// last is the newest decision of a kind.
func last(t *testing.T, all []message.Decided, what message.Decision) message.Decided {
	t.Helper()
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].What == what {
			return all[i]
		}
	}
	t.Fatalf("there is no decision %d among %v", what, all)
	return message.Decided{}
}

// TestDecisionsAreTold: each with its queue, once, and with the times that are known.
func TestDecisionsAreTold(t *testing.T) {
	r := newRig(t)
	s := spec("q")
	s.Kind = "invoice"
	r.enqueue(s)
	r.ask(&nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}) // again: nothing is decided
	r.pass(7 * time.Second)
	g := r.claim("q", 1)[0]
	if d := last(t, r.decided, message.DecidedClaimed); d.Wait != 7*time.Second {
		t.Errorf("it waited for %v", d.Wait)
	}
	task := parse(t, g.Task.Id)
	r.pass(3 * time.Second)
	fail := &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g.Token, Error: "boom", RetryInSeconds: 60}}}
	r.ask(fail)
	r.ask(fail)
	if d := last(t, r.decided, message.DecidedFailed); d.Run != 3*time.Second || d.Age != decided.Unknown {
		t.Errorf("it failed after %v, %v", d.Run, d.Age)
	}
	if n := tallied(t, &r.decided, "q"); n != [message.Decisions]int{message.DecidedEnqueued: 1, message.DecidedClaimed: 1, message.DecidedFailed: 1} {
		t.Errorf("until it failed: %v", n)
	}
	r.pass(65 * time.Second)
	g = r.claim("q", 1)[0]
	if d := last(t, r.decided, message.DecidedClaimed); d.Wait < 4*time.Second || d.Wait > 6*time.Second {
		t.Errorf("after the pause it waited for %v", d.Wait)
	}
	r.pass(2 * time.Second)
	r.complete(task, g.Token)
	r.complete(task, g.Token)
	if d := last(t, r.decided, message.DecidedCompleted); d.Run != 2*time.Second || d.Age < 76*time.Second || d.Age > 78*time.Second {
		t.Errorf("it was completed after %v, %v", d.Run, d.Age)
	}
	for _, d := range r.decided {
		if d.Kind != "invoice" {
			t.Errorf("of kind %q: %+v", d.Kind, d)
		}
	}
	if n := tallied(t, &r.decided, "q"); n != [message.Decisions]int{message.DecidedClaimed: 1, message.DecidedCompleted: 1} {
		t.Errorf("until it was completed: %v", n)
	}
}

// TestOtherEndsAreTold: expired, dead, cancelled by somebody or by a dependency, retried.
func TestOtherEndsAreTold(t *testing.T) {
	r := newRig(t)
	first := r.enqueue(spec("q"))[0]
	depends := spec("q")
	depends.Dependencies = [][]byte{first.Bytes()}
	depends.OnDependencyFailure = onFailCancel
	r.enqueue(depends)
	for range 3 {
		r.claim("q", 1)
		r.pass(leaseTime + 2*eta)
	}
	r.want(first, "dead")
	r.retry(first)
	r.cancel(first)
	r.cancel(first)
	want := [message.Decisions]int{
		message.DecidedEnqueued: 2, message.DecidedClaimed: 3, message.DecidedExpired: 3, message.DecidedDead: 1, message.DecidedCancelled: 2, message.DecidedRetried: 1,
	}
	if d := last(t, r.decided, message.DecidedExpired); d.Run < leaseTime {
		t.Errorf("it expired after %v", d.Run)
	}
	if d := last(t, r.decided, message.DecidedDead); d.Age < 3*leaseTime {
		t.Errorf("it died after %v", d.Age)
	}
	if n := tallied(t, &r.decided, "q"); n != want {
		t.Errorf("%v, want %v", n, want)
	}
	// Of a task that was given back it is not known since when it was ready.
	task := r.enqueue(spec("q"))[0]
	g := r.claim("q", 1)[0]
	r.ask(&nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: task.Bytes(), Token: g.Token}}})
	r.claim("q", 1)
	if d := last(t, r.decided, message.DecidedClaimed); d.Wait != decided.Unknown {
		t.Errorf("after a release it waited for %v", d.Wait)
	}
}

// TestDecisionsAreToldOnceOverAllNodes: by who decides, and not by who hears of it.
func TestDecisionsAreToldOnceOverAllNodes(t *testing.T) {
	r := newTrio(t)
	var tasks []*nornv1.TaskSpec
	for range 40 {
		tasks = append(tasks, spec("q"))
	}
	ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: tasks})
	for i := range 40 {
		g := ask[*nornv1.ClaimReply](r, i%3, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1}).GetGrants()[0]
		task, err := id.Parse(g.GetTask().GetId())
		r.check(err)
		if i%4 == 0 {
			ask[*nornv1.WriteReply](r, (i+1)%3, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g.GetToken(), Error: "boom", Discard: true}}})
		} else {
			ask[*nornv1.WriteReply](r, (i+1)%3, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: g.GetToken()}}})
		}
	}
	want := [message.Decisions]int{message.DecidedEnqueued: 40, message.DecidedClaimed: 40, message.DecidedCompleted: 30, message.DecidedFailed: 10, message.DecidedDead: 10}
	if n := tallied(t, &r.decided, "q"); n != want {
		t.Errorf("%v, want %v", n, want)
	}
}
