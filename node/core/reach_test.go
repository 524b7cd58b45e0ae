package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
)

// voteElsewhere votes for another cohort of partition 0 of five nodes, at the second one,
// and gives it.
func (r *trio) voteElsewhere() []register.Member {
	cell := r.state().Cells[0]
	next := []register.Member{r.peers[2].self, r.peers[3].self, r.peers[4].self}
	r.say(2, 1, &message.Ballots{Ballots: []message.Ballot{{Partition: 0, Epoch: cell.Epoch + 40, Nonce: 9, Old: cell.Epoch, From: cell.Cohort, To: next, Transfer: true}}})
	return next
}

// between delivers what goes from and to some nodes, and loses the rest.
func (r *trio) between(some ...int) func(letter) bool {
	is := map[int]bool{}
	for _, i := range some {
		is[i] = true
	}
	return func(l letter) bool { return !is[l.from] || !is[l.to] }
}

// TestAnAckIsNotCountedBeforeOthersHaveTold: a node has voted for another cohort, and
// its disk was set back to before that. Until enough others have told what they know of
// it, its ack names no cohort that the write has to reach as well: together with that
// of one who has not voted it would be a majority of the old cohort, which the next
// leader does not ask any more.
func TestAnAckIsNotCountedBeforeOthersHaveTold(t *testing.T) {
	r := newCluster(t, 5, 0)
	old := r.backup(1)
	r.voteElsewhere()
	r.live(2*time.Second, 250*time.Millisecond, func(l letter) bool { // who leads partition 0 stays
		_, votes := l.message.(*message.Ballots)
		return votes
	})
	r.setBack(1, old)
	r.check(r.peers[1].core.Step(r.now, message.Changed{State: *r.state()}))
	r.turn(1)
	task := r.at(0)
	from := r.enqueue(0, task, nil)
	r.settleBut(r.between(0, 1))
	if res := r.result(0, from); res != nil {
		t.Errorf("before anybody has told: %v", res)
	}
	if r.copies(task) != 2 {
		t.Errorf("%d copies: it is to be kept, whatever it counts for", r.copies(task))
	}
	r.tell()
	r.live(time.Second, 50*time.Millisecond, r.between(0, 1))
	if res := r.result(0, from); res != nil || r.peers[1].core != nil && r.peers[1].forgot == nil && r.peers[1].core.standing.Disk.Lost == 0 {
		t.Errorf("after they have: %v", res)
	}
}

// TestAnAckThatHadToWaitIsGivenOnceOthersHaveTold: who has started again answers what
// came before, without being sent it again; its own copy counts from then on, too.
func TestAnAckThatHadToWaitIsGivenOnceOthersHaveTold(t *testing.T) {
	for name, through := range map[string]int{"another node's write": 0, "its own": 1} {
		t.Run(name, func(t *testing.T) {
			r := newTrio(t)
			r.put(0, 1)
			r.kill(1)
			r.open(1)
			r.check(r.peers[1].core.Step(r.now, message.Changed{State: *r.state()}))
			r.turn(1)
			r.post = nil
			task := r.at(1)
			from := r.enqueue(through, task, nil)
			facts := 0
			only := func(l letter) bool {
				if _, is := l.message.(*message.Facts); is {
					facts++
				}
				return r.between(0, 1)(l)
			}
			r.settleBut(only)
			if res := r.result(through, from); res != nil || facts != 2 {
				t.Fatalf("at first: %v, %d times sent", res, facts)
			}
			r.tell()
			r.settleBut(only)
			if res := r.result(through, from); res.GetReceipt().GetDurableCopies() != 2 || res.GetReceipt().GetHinted() != 0 || facts != 2 {
				t.Errorf("then: %v, %d times sent", res, facts)
			}
		})
	}
}

// TestAnswersThatWaitAreBounded: past the limit those go that nobody waits for any
// more, and then who has sent the facts sends them again.
func TestAnswersThatWaitAreBounded(t *testing.T) {
	r := newTrio(t)
	u := r.peers[0].core.replication.Acks
	m := &message.Facts{Write: 1, Parts: []message.PartFacts{{Partition: 1, Epoch: 99}}}
	for range replication.MaxDeferredAcks + 5 {
		u.Later(r.now, r.peers[1].self, m, nil)
	}
	if len(u.List) != replication.MaxDeferredAcks {
		t.Errorf("%d wait", len(u.List))
	}
	u.Later(r.now.Add(replication.WriteTimeout), r.peers[1].self, m, nil)
	if len(u.List) != 1 {
		t.Errorf("%d wait when all others are late", len(u.List))
	}
}

// TestAReadReachesWhoWasVotedFor: a partition has moved, and two of those who kept it
// have not heard of it. One of them has voted for the move, and names the cohort that
// is to be asked, too: what was acknowledged there is found.
func TestAReadReachesWhoWasVotedFor(t *testing.T) {
	r := newCluster(t, 5, 0)
	cell := r.state().Cells[0]
	next := r.voteElsewhere()
	r.post = nil
	r.peers[0].deaf, r.peers[1].deaf = true, true
	r.register.Do(register.Request{Changes: []register.Change{{Partition: 0, Old: cell, New: register.Cell{Epoch: cell.Epoch + 40, Leader: next[2], Nonce: 9, Cohort: next}}}}, func(register.Result) {})
	r.tell()
	r.settleBut(r.between(2, 3, 4))
	task := r.at(0)
	from := r.enqueue(3, task, nil)
	r.settleBut(r.between(3, 4))
	if res := r.result(3, from); res.GetReceipt().GetDurableCopies() != 2 {
		t.Fatalf("not acknowledged: %v", res)
	}
	read := func(nodes ...int) (*nornv1.GetReply, *proto.Error) {
		from := r.send(0, &nornv1.GetRequest{Id: task.Bytes()})
		r.settleBut(r.between(nodes...))
		if _, answered := r.peers[0].replies[from]; !answered {
			r.live(replication.ReadTimeout, 100*time.Millisecond, r.between(nodes...))
		}
		reply := r.peers[0].replies[from]
		m, _ := reply.Message.(*nornv1.GetReply)
		return m, refusedWith(reply.Message, reply.Err)
	}
	if got, bad := read(0, 1, 3, 4); got == nil || parse(t, got.Task.Id) != task {
		t.Errorf("%v %v", got, bad)
	}
	task = r.at(0) // of which nobody knows
	if got, bad := read(0, 1); bad == nil || bad.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("out of their reach: %v %v", got, bad)
	}
}

// TestWhoMayHaveForgottenIsNoPartOfAReadQuorum: a task is on two of three disks, and
// one of these was set back. That one does not know it, and neither does the third.
func TestWhoMayHaveForgottenIsNoPartOfAReadQuorum(t *testing.T) {
	for name, through := range map[string]int{"asked": 2, "asking": 1} {
		t.Run(name, func(t *testing.T) {
			r := newTrio(t)
			old := r.backup(1)
			task := r.at(1)
			from := r.enqueue(0, task, nil)
			r.settleBut(r.between(0, 1))
			if res := r.result(0, from); res.GetReceipt().GetDurableCopies() != 2 {
				t.Fatalf("%v", res)
			}
			r.setBack(1, old)
			r.check(r.peers[1].core.Step(r.now, message.Changed{State: *r.state()}))
			r.turn(1)
			for _, i := range []int{1, 2} { // who leads is out of reach
				r.check(r.peers[i].core.Step(r.now, message.Alive{Members: []register.Member{r.peers[3-i].self}}))
				r.turn(i)
			}
			r.post = nil
			from = r.send(through, &nornv1.GetRequest{Id: task.Bytes()})
			r.settleBut(r.between(1, 2))
			r.pass(replication.ReadTimeout)
			reply := r.peers[through].replies[from]
			if bad := refusedWith(reply.Message, reply.Err); bad == nil || bad.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
				t.Errorf("%v %v", reply.Message, bad)
			}
		})
	}
}
