package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"

	gproto "google.golang.org/protobuf/proto"
)

// atFirst is what the register of the first node says when it is opened: its
// snapshot is of when there was no other node.
func (r *trio) atFirst(first int) register.State {
	s := *r.state()
	s.Cells = slices.Clone(s.Cells)
	for p := range s.Cells {
		s.Cells[p] = register.Cell{Cohort: []register.Member{r.peers[first].self}}
	}
	return s
}

// TestTheFirstNodeStartsAgain: until its register has gone through its log, the node
// that was the first one saw a cohort of itself alone, and acknowledged with its own
// copy what was to be on a majority: a task whose completion was acknowledged was
// granted again half a second later (track record, laboratory, power-loss, seed 38).
func TestTheFirstNodeStartsAgain(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	r.live(2*time.Second, 100*time.Millisecond, nothing)
	p := r.peers[0]
	r.kill(0)
	p.mute = true
	r.open(0)
	r.check(p.core.Step(r.clock(0), message.Changed{State: r.atFirst(0)}))
	r.turn(0)
	from := r.send(0, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: 1<<32 + 1}}})
	switch reply, answered := p.replies[from]; {
	case !answered:
	case reply.Err == nil:
		t.Errorf("acknowledged with %d of 3 copies: %v", r.ended3(task), reply.Message)
	case reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE:
		t.Error(reply.Err)
	}
	p.mute = false
	r.tell()
	r.settle()
	from = r.send(0, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: 1<<32 + 1}}})
	r.settle()
	if reply, answered := p.replies[from]; !answered || reply.Err != nil || r.ended3(task) < 2 {
		t.Errorf("with the register as it is: %v %v, %d copies", answered, reply.Err, r.ended3(task))
	}
	r.audit()
}

// ended3 is on how many nodes' disks a task is finished.
func (r *trio) ended3(task id.ID) (n int) {
	for i := range r.peers {
		if r.finished(i, task) != 0 {
			n++
		}
	}
	return n
}

// TestWhoCannotNameTheCohortDoesNotCount: a write was sent to an old cohort. A member
// of it that has just started, and knows only that there is a later one, does not
// answer until it can say which: its copy would have made up a majority of the old.
func TestWhoCannotNameTheCohortDoesNotCount(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	r.live(2*time.Second, 100*time.Millisecond, nothing)
	p := ring.Of(task, testPartitions)
	facts := func() *message.Facts {
		return &message.Facts{Write: 77, Parts: []message.PartFacts{{Partition: p, Epoch: 0, Facts: nil}}}
	}
	answers := func() (all []*message.FactsTaken) {
		r.say(1, 0, facts())
		for _, l := range r.post {
			if m, is := l.message.(*message.FactsTaken); is && l.from == 0 {
				all = append(all, m)
			}
		}
		r.post = nil
		return all
	}
	r.kill(0)
	r.peers[0].mute = true
	r.open(0)
	if got := answers(); len(got) != 0 {
		t.Errorf("before the register has said anything: %+v", got[0])
	}
	r.peers[0].mute = false
	r.tell()
	r.settle()
	if got := answers(); len(got) != 1 || len(got[0].Fences) != 1 || len(got[0].Fences[0].Cohorts) != 1 {
		t.Errorf("when it has: %+v", got)
	}
}

// TestALoneNodeTakesTasksInThoughItsRegisterIsBehind: without a majority the register
// cannot go through its log, so that a node that has started again never gets to know
// what it was shown before. It refused everything for as long, also one copy. What
// needs a majority it goes on refusing, by whatever old cohort it goes.
func TestALoneNodeTakesTasksInThoughItsRegisterIsBehind(t *testing.T) {
	for name, state := range map[string]func(r *trio) register.State{
		"alone": func(r *trio) register.State { return r.atFirst(0) },
		"of three": func(r *trio) register.State {
			s := *r.state()
			s.Cells = slices.Clone(s.Cells)
			for p := range s.Cells {
				s.Cells[p].Epoch--
			}
			return s
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepairingTrio(t, time.Second)
			done := r.put(0, 1)
			r.live(2*time.Second, 100*time.Millisecond, nothing)
			p := r.peers[0]
			r.kill(0)
			p.mute = true
			r.open(0)
			r.check(p.core.Step(r.clock(0), message.Changed{State: state(r)}))
			r.turn(0)
			alone := func(letter) bool { return true }
			answer := func(m gproto.Message) *proto.Error {
				from := r.send(0, m)
				r.settleBut(alone)
				for range 20 {
					r.pass(replication.WriteTimeout / 10)
					r.settleBut(alone)
				}
				reply, answered := p.replies[from]
				if !answered {
					t.Fatalf("no answer to %T", m)
				}
				return refusedWith(reply.Message, reply.Err)
			}
			task := r.at(1)
			one := spec("q")
			one.Id = task.Bytes()
			in := &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{one}, Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}}
			if reply := p.replies[r.send(0, in)]; name == "alone" && (reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE) {
				t.Errorf("before its register had the time to catch up: %v %v", reply.Message, reply.Err)
			}
			r.pass(catchUpFor)
			if bad := answer(in); bad != nil {
				t.Errorf("one copy: %v", bad)
			}
			for _, m := range []gproto.Message{
				&nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: done.Bytes(), Token: 1<<32 + 1}}},
				&nornv1.GetRequest{Id: done.Bytes()},
			} {
				if bad := answer(m); bad == nil || bad.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
					t.Errorf("%T, of a majority: %v", m, bad)
				}
			}
			if from := r.send(0, claimUpTo(1)); p.core.Leading() != 0 {
				t.Errorf("it leads, and answers %v", p.replies[from])
			}
			p.mute = false
			r.live(30*time.Second, 250*time.Millisecond, nothing)
			if n := r.copies(task); n != 3 {
				t.Errorf("with the others again: %d copies", n)
			}
		})
	}
}
