package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// TestSessionGrantThatDiedWithItsLeader: a leader has granted a task for a worker of
// another node and dies before that node hears of it. The node knows that it has had no
// answer; the task is to run soon after the election, not after its lease.
func TestSessionGrantThatDiedWithItsLeader(t *testing.T) {
	r := newTrio(t)
	leader := r.leader(1)
	via := (leader + 1) % 3
	h := r.newHand("w", via, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return h.m.Info().State == session.Healthy }, h)
	lost := false
	answer := func(l letter) bool {
		f, ok := l.message.(*message.Forwarded)
		ok = ok && l.from == leader && len(f.Grants) > 0
		lost = lost || ok
		return ok
	}
	task := r.at(1)
	once := spec("q")
	once.Id, once.Retry = task.Bytes(), &nornv1.RetryPolicy{MaxAttempts: 1}
	r.send(leader, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{once}})
	r.settleBut(answer)
	r.live(100*time.Millisecond, 10*time.Millisecond, answer)
	if !lost || len(h.running) > 0 {
		t.Fatal("the grant has reached the worker")
	}
	r.kill(leader)
	r.tell()
	r.elect()
	took := r.days(2*time.Minute, 100*time.Millisecond, func() bool {
		return len(h.running) == 1 || r.stateOf(via, task) == nornv1.State_STATE_DEAD
	}, h)
	if took > 5*time.Second || len(h.running) != 1 {
		t.Errorf("after %v it is %v; it was never run", took, r.stateOf(via, task))
	}
}

// TestSharesOfWorkersThatHaveLeft are forgotten.
func TestSharesOfWorkersThatHaveLeft(t *testing.T) {
	r := newTrio(t)
	for range 5 {
		h := r.newHand("w", 0, 3, func(c *session.WorkerConfig) {
			c.Capacity.Queues = []session.QueueSlots{{Queue: "q", Slots: 1, Weight: 1}, {Queue: "p", Slots: 1, Weight: 2}}
		})
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return h.m.Info().State == session.Healthy }, h)
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(r.peers[0].core.sessions.Asks.Shares) > 0 }, h)
		h.m.Drain(r.now)
		r.days(10*time.Second, 100*time.Millisecond, func() bool { return h.m.Info().Left }, h)
		r.live(2*time.Second, 100*time.Millisecond, nothing)
	}
	if n, open := len(r.peers[0].core.sessions.Asks.Shares), r.peers[0].core.sessions.Dispatcher.Open(); n > open+1 {
		t.Errorf("shares of %d workers are kept, and there are %d sessions", n, open)
	}
}

// TestSessionsWithoutTheRegister: a name is a lease in the register. Where that answers
// nobody, what is led goes on, and so do workers, for as long as their names are surely
// theirs: by the defaults for one to two minutes (docs/how-to/workers.md).
func TestSessionsWithoutTheRegister(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 1)
	r.stock(1, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	for _, p := range r.peers {
		p.deaf, p.mute = true, true
	}
	took := r.days(3*time.Minute, 500*time.Millisecond, func() bool { return h.m.Info().State == session.MustDie }, h)
	if took < time.Minute || took > 2*time.Minute {
		t.Errorf("it is lost after %v", took)
	}
	led := 0
	for _, p := range r.peers {
		led += p.core.Leading()
	}
	if led != testPartitions {
		t.Errorf("%d of %d partitions are led", led, testPartitions)
	}
}

// TestATaskThatItsWorkerStillRuns: a claim was ended by somebody else, and its handler takes
// long to return, or never does. Its worker refuses the task under another token, and is not
// given it again as fast as it can say so: each time stays in the history of the task.
func TestATaskThatItsWorkerStillRuns(t *testing.T) {
	r := newTrio(t)
	h := r.newHand("w", 0, 2)
	r.stock(1, 1)
	r.days(10*time.Second, 100*time.Millisecond, func() bool { return len(h.running) == 1 }, h)
	c := h.starts[0]
	ask[*nornv1.WriteReply](r, 0, &nornv1.ReleaseRequest{Claims: []*nornv1.ClaimRef{{Id: c.Task.Bytes(), Token: c.Token}}})
	pushes := func() uint64 { return r.peers[0].core.Stats().SessionCounts.Pushes }
	before, began := pushes(), r.now
	r.days(time.Minute, 100*time.Millisecond, func() bool { return r.now.Mono-began.Mono >= int64(20*time.Second) }, h)
	if n := pushes() - before; n < 3 || n > 8 {
		t.Errorf("it was given the task %d times in 20 s", n)
	}
	other := r.stock(1, 1)[0]
	r.days(3*time.Second, 100*time.Millisecond, func() bool { return len(h.starts) == 2 }, h)
	if h.starts[1].Task != other {
		t.Errorf("it began %v", h.starts)
	}
	h.end(c, session.EndReported)
	r.days(9*time.Second, 100*time.Millisecond, func() bool { return len(h.starts) == 3 }, h)
	if last := h.starts[2]; last.Task != c.Task || last.Token == c.Token {
		t.Errorf("it began %v", h.starts)
	}
}
