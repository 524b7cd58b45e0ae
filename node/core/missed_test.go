package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// missedBy2 has node 0 answer a request of whose facts the third node hears nothing.
func (r *trio) missedBy2(m gproto.Message) *nornv1.WriteResult {
	r.t.Helper()
	from := r.send(0, m)
	r.settleBut(func(l letter) bool { return l.to == 2 && isFacts(l) })
	reply, ok := r.peers[0].replies[from]
	if e := refusedWith(reply.Message, reply.Err); !ok || e != nil {
		r.t.Fatalf("%T: %v %v", m, ok, e)
	}
	r.now = r.now.Add(10 * time.Second) // nothing is sent again
	r.peers[0].core.replication.Writes.Open = nil
	return reply.Message.(*nornv1.WriteReply).Results[0]
}

// hold has node 0 grant a task, of which the third node hears nothing, and gives the token.
func (r *trio) hold(task id.ID) uint64 {
	r.t.Helper()
	from := r.send(0, claimUpTo(1))
	r.settleBut(func(l letter) bool { return l.to == 2 })
	grants, _ := r.granted(0, from)
	if len(grants) != 1 || grants[0].Task.Id != task.String() {
		r.t.Fatalf("granted: %v", grants)
	}
	return grants[0].Token
}

// failedAs is the failure of a claim after which its task is dead.
func failedAs(task id.ID, token uint64) *nornv1.FailRequest {
	return &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: token, Error: "e", Discard: true}}}
}

func retryOf(task id.ID) *nornv1.RetryRequest {
	return &nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}}
}

// TestARetryByALeaderThatHasMissedTheEnd: it said that there was nothing to do, or began a run
// that is dead already, and with the next comparison the task was dead.
func TestARetryByALeaderThatHasMissedTheEnd(t *testing.T) {
	for name, again := range map[string]bool{"of the first run": false, "of the second run": true} {
		for _, keyed := range []bool{false, true} {
			r := newTrio(t)
			r.lead(0)
			var task id.ID
			if keyed {
				r.agree()
				task = parse(t, r.takeKey(0).Receipt.Id)
				r.settle()
			} else {
				task = r.put(0, 1)
			}
			if again {
				r.send(0, failedAs(task, r.hold(task)))
				r.settle()
				if s := r.stateOf(2, task); s != nornv1.State_STATE_DEAD {
					t.Fatalf("by the third node it is %v", s)
				}
				r.missedBy2(retryOf(task))
			}
			r.missedBy2(failedAs(task, r.hold(task)))
			r.leadOf(ring.Of(task, testPartitions), 2)
			e := r.retry(2, task)
			if r.agree(); keyed && e != nil && e.Kind == nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
				e = r.retry(2, task) // it did not know who has the key
				r.settle()
			}
			if e != nil {
				t.Errorf("%s (key: %v): %v", name, keyed, e)
			}
			for n := range r.peers {
				if s := r.stateOf(n, task); s != nornv1.State_STATE_READY {
					t.Errorf("%s (key: %v): the retry was acknowledged, and by node %d it is %v", name, keyed, n, s)
				}
			}
		}
	}
}

// TestARetryThatNobodyElseIsAskedAbout: what its leader does not know of how a task ended the
// others may, and too few of them answer.
func TestARetryThatNobodyElseIsAskedAbout(t *testing.T) {
	r := newTrio(t)
	r.leadOf(1, 0)
	task := r.put(0, 1)
	from := r.send(0, retryOf(task))
	fetches := func(l letter) bool { _, is := l.message.(*message.Fetch); return is }
	r.settleBut(fetches)
	r.live(replication.ReadTimeout+time.Second, 100*time.Millisecond, fetches)
	reply, ok := r.peers[0].replies[from]
	if e := refusedWith(reply.Message, reply.Err); !ok || e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || e.Effect != nornv1.Effect_EFFECT_NONE || e.RetryAfter == 0 {
		t.Errorf("answered (%v) %v %v", ok, reply.Message, reply.Err)
	}
}

// TestALeaderThatHasMissedARetryCancelsNothing: a task was enqueued after its dependency had
// been retried, which a majority has acknowledged, and the leader of either was none of it.
func TestALeaderThatHasMissedARetryCancelsNothing(t *testing.T) {
	for name, hears := range map[string]func(r *trio, dep id.ID){
		"": func(*trio, id.ID) {},
		"the end comes later": func(r *trio, dep id.ID) {
			r.peers[2].core.dependency.Finished(1, dep, false)
			r.turn(2)
		},
	} {
		r := newTrio(t)
		r.leadOf(1, 0)
		dep := r.put(0, 1)
		r.send(0, failedAs(dep, r.hold(dep)))
		r.settle()
		r.missedBy2(retryOf(dep))
		r.leadOf(1, 2)
		r.leadOf(2, 2)
		s := after("q", onFailCancel, dep)
		s.Id = r.at(2).Bytes()
		r.send(2, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
		hears(r, dep)
		r.settle()
		r.live(10*time.Second, 100*time.Millisecond, nothing)
		for n := range r.peers {
			if got := r.stateOf(n, id.ID(s.Id)); got != nornv1.State_STATE_WAITING {
				t.Errorf("%q: what it depends on has been retried, and by node %d it is %v", name, n, got)
			}
		}
	}
}

// TestWhoDoesNotLeadSaysOfNoTaskThatItHasFailed when that comes to be known there: others may
// know of a retry.
func TestWhoDoesNotLeadSaysOfNoTaskThatItHasFailed(t *testing.T) {
	r := newTrio(t)
	r.leadOf(1, 0)
	task := r.put(0, 1)
	token := r.hold(task)
	for at := range 2 {
		r.say(2, at, &message.Watch{Number: 1, Tasks: []id.ID{task}})
	}
	r.send(0, failedAs(task, token))
	said := 0
	r.live(4*time.Second, 100*time.Millisecond, func(l letter) bool {
		if m, is := l.message.(*message.Outcomes); is && l.from == 1 {
			t.Errorf("who does not lead says %v", m)
		} else if is {
			said += len(m.Outcomes)
		}
		return false
	})
	if said == 0 {
		t.Error("its leader never says it")
	}
}

// TestADelayThatALeaderHasMissedIsKept: a majority has acknowledged that a task is put off, and
// the next leader was none of it. It handed the task out at once.
func TestADelayThatALeaderHasMissedIsKept(t *testing.T) {
	r := newTrio(t)
	r.leadOf(1, 0)
	task := r.put(0, 1)
	token := r.hold(task)
	r.missedBy2(&nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: token, Error: "e", RetryInSeconds: 3600}}})
	r.leadOf(1, 2)
	m := claimUpTo(1)
	m.WaitSeconds = 10
	from := r.send(2, m)
	r.live(5*time.Second, 100*time.Millisecond, nothing)
	if grants, _ := r.granted(2, from); len(grants) != 0 {
		t.Errorf("it is granted: %v", grants)
	}
	if s := r.stateOf(2, task); s != nornv1.State_STATE_SCHEDULED {
		t.Errorf("by its leader it is %v", s)
	}
}

// TestAMemberThatHasMissedARetryIsToldOfIt by the leader whose claim it refuses. While the third
// was away nothing was granted until the two were compared.
func TestAMemberThatHasMissedARetryIsToldOfIt(t *testing.T) {
	for name, fail := range map[string]*nornv1.Failure{"dead": {Discard: true}, "put off": {RetryInSeconds: 3600}} {
		r := newTrio(t)
		r.leadOf(1, 0)
		task := r.put(0, 1)
		fail.Id, fail.Token, fail.Error = task.Bytes(), r.hold(task), "e"
		r.send(0, &nornv1.FailRequest{Failures: []*nornv1.Failure{fail}})
		r.settle()
		r.missedBy2(retryOf(task))
		r.dies(1)
		m := claimUpTo(1)
		m.WaitSeconds = 10
		from := r.send(0, m)
		r.live(time.Second, 10*time.Millisecond, nothing)
		if grants, _ := r.granted(0, from); len(grants) != 1 {
			t.Errorf("%s: granted within a second: %v", name, grants)
		}
		r.audit()
	}
}

// TestALateRefusalOfAFormerEpochDeposesNobody: it came for the election of another leader, and
// was what this one had been promised itself.
func TestALateRefusalOfAFormerEpochDeposesNobody(t *testing.T) {
	r := newTrio(t)
	r.leadOf(1, 0)
	r.put(0, 1)
	r.send(0, claimUpTo(1))
	var late []letter
	claims := func(l letter) bool {
		_, is := l.message.(*message.Claims)
		if is {
			late = append(late, l)
		}
		return is
	}
	r.settleBut(claims)
	first := r.state().Cells[1].Epoch
	r.depose(1, 1, 0)
	if r.leader(1) != 0 || r.state().Cells[1].Epoch == first || len(late) == 0 {
		t.Fatalf("in epoch %d node %d leads, %d messages", r.state().Cells[1].Epoch, r.leader(1), len(late))
	}
	r.post = slices.Concat(late, r.post)
	for len(r.post) > 0 {
		if r.deliver(0); r.peers[0].core.vnodes.See(1).Leading() == 0 {
			t.Fatal("it leads no more")
		}
	}
}

// TestAMemberSaysWhatPutsATaskOff, with its refusal.
func TestAMemberSaysWhatPutsATaskOff(t *testing.T) {
	r := newTrio(t)
	r.leadOf(1, 0)
	task := r.put(0, 1)
	token := r.hold(task)
	r.send(0, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: token, Error: "e", RetryInSeconds: 60}}})
	r.settle()
	epoch := r.state().Cells[1].Epoch
	for n, want := range []int{1, 1, 0} { // a minute after the failure it may be granted
		h := heldFrom(task, epoch<<32|uint64(900+n), r.now.Wall)
		if got := r.claims(0, 1, 1, epoch, h); len(got.Refused) != want || want > 0 && got.Refused[0].Verdict != vnode.Stale {
			t.Errorf("after %d times 30 s: %+v", n, got.Refused)
		}
		r.now = r.now.Add(30 * time.Second)
	}
}
