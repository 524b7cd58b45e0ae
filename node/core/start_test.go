package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// A claim that holds is not called lost between the first answer of the
// register and the one that makes this process leader (track record, simulator
// B1).
func TestRenewalDuringStartIsUnavailableNotLost(t *testing.T) {
	r := newRig(t)
	task := r.enqueue(spec("q"))[0]
	g := r.claim("q", 1)[0]
	r.store, r.regStore = r.store.Crash(0), r.regStore.Crash(0)
	slow := r.slow()
	ref := []*nornv1.ClaimRef{{Id: task.Bytes(), Token: g.Token}}
	slow() // the read has come back, the change has not
	for name, reply := range map[string]message.Reply{
		"renew":   r.ask(&nornv1.RenewRequest{Claims: ref}),
		"release": r.ask(&nornv1.ReleaseRequest{Claims: ref}),
		"fail":    r.ask(&nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g.Token}}}),
	} {
		if reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || reply.Err.RetryAfter == 0 {
			t.Errorf("%s: %v, %v, want UNAVAILABLE with an advice", name, reply.Message, reply.Err)
		}
	}
	slow()
	slow() // the cells are set after a read of them
	if res := must[*nornv1.RenewReply](r, &nornv1.RenewRequest{Claims: ref}).Results[0]; res.Error != nil {
		t.Fatalf("the claim is lost after all: %v", res.Error)
	}
}

// TestANodeThatWaitsForItsRegisterSleeps: until the register has said something
// there is nothing to look at (track record, simulator of clusters, seed 15).
func TestANodeThatWaitsForItsRegisterSleeps(t *testing.T) {
	r := newRig(t)
	r.slow()
	r.step(message.Alive{Members: []register.Member{{Node: "n2"}}})
	r.turn()
	if r.wakeMono <= r.now.Mono {
		t.Fatal("it wants to go on at once, again and again")
	}
}

// slow opens the core again with a register that answers only when told.
func (r *rig) slow() (answer func()) {
	r.t.Helper()
	r.now.Mono = 1
	r.manual = true
	r.open()
	return func() {
		r.t.Helper()
		waiting := r.waiting
		r.waiting = nil
		for _, request := range waiting {
			r.register.Do(request, func(res register.Result) { r.step(message.Registered{Result: res}) })
		}
		r.turn()
	}
}

// A task that comes in before a lone node leads goes on when its dependency was
// finished long before (track record, simulator, seed 12).
func TestATaskEnqueuedBeforeTheNodeLeadsDoesNotWait(t *testing.T) {
	r := newRig(t)
	dep := r.enqueue(spec("a"))[0]
	r.finish("a")
	answer := r.slow()
	answer() // it knows the cells, and leads nothing yet
	r.enqueue(after("b", onFailCancel, dep))
	answer()
	answer() // the cells are set after a read of them
	if r.core.Leading() != testPartitions {
		t.Fatalf("%d partitions are led", r.core.Leading())
	}
	r.finish("b")
}

// What a dependency has cancelled and then a user too stays cancelled (track
// record, simulator B2).
func TestCancelOfATaskThatADependencyHasCancelledStays(t *testing.T) {
	r := newRig(t)
	dep := r.enqueue(spec("a"))[0]
	task := r.enqueue(after("b", onFailCancel, dep))[0]
	r.die("a")
	if res := r.cancel(task)[0]; res.Error != nil {
		t.Fatal(res.Error)
	}
	r.retry(dep)
	if res := r.retry(task)[0]; res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
		t.Fatalf("retried: %v", res)
	}
	r.pass(time.Second)
	r.want(task, "cancelled")
}

// Each claim request gets an answer, also one that a late copy of itself takes
// the place of (track record, simulator B3).
func TestADisplacedClaimRequestIsAnswered(t *testing.T) {
	r := newRig(t)
	m := &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 60, Session: make([]byte, 16), RequestNo: 4}
	m.Session[0] = 1
	live := r.send(7, m)
	r.turn()
	ghost := r.send(8, m)
	r.turn()
	if reply, ok := r.replies[live]; !ok || reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Fatalf("the displaced request got %v", r.replies[live])
	}
	r.step(message.Gone{Conn: 8})
	again := r.send(7, m)
	r.turn()
	r.enqueue(spec("q"))
	if len(r.replies[again].Message.(*nornv1.ClaimReply).Grants) != 1 || r.replies[ghost].Message != nil {
		t.Fatal("the task did not go to the request that waits")
	}
}
