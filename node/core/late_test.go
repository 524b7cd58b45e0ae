package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// TestACompletionThatComesAfterTheTombstone: it is acknowledged only where it says what
// the tombstone says. Else it is not kept, and an answer that says so must not be missing.
func TestACompletionThatComesAfterTheTombstone(t *testing.T) {
	for _, end := range []crdt.State{crdt.StateCompleted, crdt.StateDead, crdt.StateCancelled} {
		r := newTrio(t)
		task := r.at(1)
		stone := crdt.Tombstone{Outcome: end, At: r.now.Wall, Collected: r.now.Wall}
		for i := range r.peers {
			r.say((i+1)%3, i, &message.Facts{Write: 1, Parts: []message.PartFacts{{Partition: 1, Epoch: r.state().Cells[1].Epoch, Facts: []crdt.Fact{stone.Fact(task)}}}})
		}
		r.settle()
		res := ask[*nornv1.WriteReply](r, 0, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: 1<<32 + 1}}}).Results[0]
		if kept := end == crdt.StateCompleted; kept != (res.GetReceipt() != nil) || !kept && res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST {
			t.Errorf("collected as %s: %v", end, res)
		}
	}
}

// TestACompletionOfAnOldTaskThatNobodyKnows: it may have been finished and forgotten, and
// would stay for ever as facts of a task that nobody enqueues.
func TestACompletionOfAnOldTaskThatNobodyKnows(t *testing.T) {
	r := newRig(t)
	task := r.ids.Next(r.now.Wall)
	for _, old := range []bool{false, true} {
		if old {
			task = r.ids.Next(r.now.Wall)
			r.pass(7*24*time.Hour + time.Second)
		}
		res := r.complete(task, 1<<32+1)
		if got := res.Error.GetKind() == nornv1.ErrorKind_ERROR_KIND_NOT_FOUND; got != old || !old && res.GetReceipt() == nil {
			t.Errorf("older than gc-grace: %v; %v", old, res)
		}
	}
}

// TestAReaderThatHasVotedItself: what it asks for has to be seen in the cohort that it
// has voted for, too.
func TestAReaderThatHasVotedItself(t *testing.T) {
	r := newCluster(t, 5, 0)
	const through = 1
	cell := r.state().Cells[0]
	next := []register.Member{r.peers[2].self, r.peers[3].self, r.peers[4].self}
	task := r.put(through, 0)
	r.say(4, through, &message.Ballots{Ballots: []message.Ballot{{Partition: 0, Epoch: cell.Epoch + 40, Nonce: 9, Old: cell.Epoch, From: cell.Cohort, To: next, Transfer: true}}})
	r.post = nil
	c := r.peers[through].core
	from := message.Origin{Conn: 1, Request: 4711}
	q := &message.Request{From: from, Body: &nornv1.GetRequest{Id: task.Bytes()}, Received: r.now.Mono, Routed: true}
	r.check(c.Step(r.now, q))
	r.turn(through)
	asked := map[int]bool{}
	for _, l := range r.post {
		if _, is := l.message.(*message.Fetch); is {
			asked[l.to] = true
		}
	}
	if !asked[3] || !asked[4] {
		t.Errorf("asked are %v", asked)
	}
}

// TestALeaderThatHearsWhatItHasForgotten: it leads nothing any more from that moment on.
func TestALeaderThatHearsWhatItHasForgotten(t *testing.T) {
	r := newTrio(t)
	i := r.leader(1)
	c := r.peers[i].core
	other := r.peers[(i+1)%3].self
	c.standing.Disk.Heard(other, c.standing.Disk.Durable)
	if c.stand(); c.Leading() == 0 {
		t.Fatal("it has forgotten nothing")
	}
	c.standing.Disk.Heard(other, c.standing.Disk.Durable+1)
	if c.stand(); c.Leading() != 0 {
		t.Errorf("it leads %d partitions", c.Leading())
	}
}
