package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
	"github.com/norn-dev/norn/vnode/audit"

	gproto "google.golang.org/protobuf/proto"
	"pgregory.net/rapid"
)

func TestAnEnqueueWaitsForAMajority(t *testing.T) {
	r := newTrio(t)
	task := r.ids.Next(r.now.Wall)
	from := r.enqueue(1, task, nil)
	if r.result(1, from) != nil {
		t.Fatal("answered before anybody else has it")
	}
	if len(r.post) != 2 {
		t.Fatalf("%d messages, not one per peer", len(r.post))
	}
	r.deliver(0) // to one of the two
	if r.result(1, from) != nil {
		t.Fatal("answered before the peer has said so")
	}
	r.deliver(1) // what it says
	res := r.result(1, from)
	if res == nil || res.Receipt.GetDurableCopies() != 2 || res.Receipt.GetCopies() != 2 || r.copies(task) != 2 {
		t.Fatalf("%v, and it is on %d disks", res, r.copies(task))
	}
	r.settle()
	if r.copies(task) != 3 {
		t.Fatalf("%d copies in the end", r.copies(task))
	}
}

// TestAnAnswerWaitsForNoLaterRound: what a majority has acknowledged need not
// wait for the disk again, and what is written in this very round must.
func TestAnAnswerWaitsForNoLaterRound(t *testing.T) {
	r := newTrio(t)
	before := r.peers[1].core.round.This() - 1
	first := r.enqueue(1, r.ids.Next(r.now.Wall), nil)
	wrote := r.peers[1].core.round.This() - 1
	for range 3 { // rounds of others come between
		r.enqueue(1, r.ids.Next(r.now.Wall), nil)
	}
	r.settle()
	if after := r.peers[1].replies[first].After; after <= before || after > wrote {
		t.Errorf("the answer waits for round %d; what it tells of was written after %d and by %d", after, before, wrote)
	}
	one := r.enqueue(1, r.ids.Next(r.now.Wall), &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE})
	if reply, ok := r.peers[1].replies[one]; !ok || reply.After != 0 {
		t.Errorf("the answer %v waits for round %d and not for its own", reply.Message, reply.After)
	}
	for i := range 3 { // of a leader, and through another node
		claim := r.send(i, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, Session: make([]byte, 16), RequestNo: uint64(i)})
		granted := r.peers[i].core.round.This() - 1
		r.pass(0)
		r.settle()
		reply := r.peers[i].replies[claim]
		if n := len(reply.Message.(*nornv1.ClaimReply).Grants); n != 1 || reply.After == 0 || reply.After > granted {
			t.Errorf("node %d: %d grants, after round %d of %d", i+1, n, reply.After, granted)
		}
	}
}

func TestWriteLevels(t *testing.T) {
	for _, c := range []struct {
		need   *nornv1.Durability
		acks   int // of others
		copies uint32
	}{
		{&nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}, 0, 1},
		{&nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_QUORUM}, 1, 2},
		{&nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ALL}, 2, 3},
		{&nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_COUNT, Copies: 2}, 1, 2},
		{&nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_COUNT, Copies: 3}, 2, 3},
	} {
		r := newTrio(t)
		task := r.ids.Next(r.now.Wall)
		from := r.enqueue(0, task, c.need)
		for n := range c.acks {
			if r.result(0, from) != nil {
				t.Fatalf("%v: answered after %d acks", c.need, n)
			}
			r.deliver(0)               // the facts
			r.deliver(len(r.post) - 1) // the answer
		}
		if res := r.result(0, from); res == nil || res.Receipt.GetDurableCopies() != c.copies {
			t.Fatalf("%v: %v", c.need, res)
		}
	}
	r := newTrio(t)
	from := r.enqueue(0, r.ids.Next(r.now.Wall), &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_COUNT, Copies: 4})
	if reply := r.peers[0].replies[from]; reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Fatalf("four copies of three: %v", reply)
	}
}

// TestMoreCopiesThanMembers: more copies than a cohort has members are not waited
// for. Where no cohort has as many it is refused before anything has happened,
// else as soon as all members have it; and both answers say that it stays so.
func TestMoreCopiesThanMembers(t *testing.T) {
	three := &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_COUNT, Copies: 3}
	r := newGrowing(t)
	r.join()
	r.stock(0, 20)
	r.run(2)
	task := r.ids.Next(r.now.Wall)
	from := r.enqueue(0, task, three)
	if e := r.peers[0].replies[from].Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || !e.Lasting || e.Effect != nornv1.Effect_EFFECT_NONE {
		t.Fatalf("three copies of two: %+v", e)
	}
	if r.settle(); r.copies(task) != 0 {
		t.Fatal("it is there all the same")
	}
	get := r.send(0, &nornv1.GetRequest{Id: r.tasksOf(0)[0].Bytes(), Consistency: &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_COUNT, Replicas: 3}})
	r.settle()
	if e := r.peers[0].replies[get].Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || !e.Lasting {
		t.Fatalf("three replicas of two: %+v", e)
	}
	get = r.send(0, &nornv1.GetRequest{Id: r.tasksOf(0)[0].Bytes(), Consistency: &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_COUNT, Replicas: 4}})
	r.settle()
	if e := r.peers[0].replies[get].Err; e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_INVALID_ARGUMENT {
		t.Fatalf("more replicas than there ever are: %+v", e)
	}
	r = newTrio(t)
	cell := r.state().Cells[0]
	next := register.Cell{Epoch: cell.Epoch + 1, Leader: cell.Leader, Nonce: r.rand.Uint64(), Cohort: cell.Cohort[:2]}
	r.register.Do(register.Request{Changes: []register.Change{{Partition: 0, Old: cell, New: next}}}, func(register.Result) {})
	r.tell()
	for task = r.ids.Next(r.now.Wall); ring.Of(task, testPartitions) != 0; task = r.ids.Next(r.now.Wall) {
	}
	from = r.enqueue(0, task, three)
	r.settle()
	r.pass(0)
	r.settle()
	res := r.result(0, from)
	if e := res.GetError(); e.GetKind() != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || !e.GetLasting() || e.GetEffect() != nornv1.Effect_EFFECT_UNKNOWN {
		t.Fatalf("three copies of two, with three elsewhere: %v", res)
	}
	if r.copies(task) != 2 {
		t.Fatalf("%d copies", r.copies(task))
	}
}

// TestWithoutAMajorityTheOutcomeIsUnknown: not failed, for the facts are here;
// and a repetition with both peers back is acknowledged once they have it.
func TestWithoutAMajorityTheOutcomeIsUnknown(t *testing.T) {
	r := newTrio(t)
	r.kill(1)
	r.kill(2)
	task := r.ids.Next(r.now.Wall)
	from := r.enqueue(0, task, nil)
	for range 11 {
		r.settle()
		r.pass(500 * time.Millisecond)
	}
	res := r.result(0, from)
	if res == nil || res.Error.GetKind() != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || res.Error.GetEffect() != nornv1.Effect_EFFECT_UNKNOWN || res.Receipt != nil {
		t.Fatalf("%v", res)
	}
	if r.copies(task) != 1 {
		t.Fatal("it is not even here")
	}
	r.open(1)
	r.tell()
	r.settle()
	again := r.enqueue(0, task, nil)
	if r.result(0, again) != nil {
		t.Fatal("acknowledged as known, though nobody else has it")
	}
	r.settle()
	if res := r.result(0, again); res == nil || !res.Receipt.GetExisted() || res.Receipt.GetDurableCopies() != 2 || r.copies(task) != 2 {
		t.Fatalf("%v, %d copies", res, r.copies(task))
	}
	if n := len(r.peers[0].core.replication.Writes.Open); n > 1 {
		t.Fatalf("%d writes are still open", n)
	}
}

func TestLostFactsAreSentAgain(t *testing.T) {
	r := newTrio(t)
	task := r.ids.Next(r.now.Wall)
	from := r.enqueue(0, task, nil)
	r.post = nil // lost
	r.pass(replication.ResendAfter)
	r.unmarked()
	if len(r.post) != 0 {
		t.Fatal("sent again to who may be just slow")
	}
	r.pass(replication.ResendSlow - replication.ResendAfter)
	r.settle()
	if res := r.result(0, from); res == nil || res.Receipt.GetDurableCopies() < 2 {
		t.Fatalf("%v", res)
	}
	r.settle()
	r.pass(time.Second)
	if w := r.peers[0].core.replication.Writes; len(w.Open) != 0 || w.Bytes != 0 || w.Due() != clock.Never {
		t.Fatalf("%d writes with %d bytes are still open", len(w.Open), w.Bytes)
	}
}

// TestWhatIsMissingBetweenAnswersIsSentAgainSoon: who has answered a later write
// has not got the earlier one.
func TestWhatIsMissingBetweenAnswersIsSentAgainSoon(t *testing.T) {
	r := newTrio(t)
	task := r.ids.Next(r.now.Wall)
	r.enqueue(0, task, nil)
	r.post = nil // lost
	r.enqueue(0, r.ids.Next(r.now.Wall), nil)
	r.settle()
	r.pass(replication.ResendAfter + replication.LookEvery)
	r.settle()
	if n := r.copies(task); n != 3 {
		t.Fatalf("%d copies", n)
	}
}

// TestAckOfAnotherLifeCountsNothing: a coordinator that has crashed numbers its
// writes anew.
func TestAckOfAnotherLifeCountsNothing(t *testing.T) {
	r := newTrio(t)
	r.enqueue(0, r.ids.Next(r.now.Wall), nil)
	r.deliver(0) // one peer answers
	late := r.post[len(r.post)-1]
	r.post = nil
	r.kill(0)
	r.open(0)
	r.tell()
	r.live(2*time.Second, 250*time.Millisecond, nothing) // its own copy counts again
	r.cut[[2]int{0, 1}], r.cut[[2]int{0, 2}] = true, true
	from := r.enqueue(0, r.ids.Next(r.now.Wall), nil)
	r.post = append(r.post, late)
	r.settle()
	if res := r.result(0, from); res != nil {
		t.Fatalf("acknowledged by an answer to something else: %v", res)
	}
}

// TestARefusalIsNoAck: an answer that names the partition as refused.
func TestARefusalIsNoAck(t *testing.T) {
	r := newTrio(t)
	task := r.ids.Next(r.now.Wall)
	from := r.enqueue(0, task, nil)
	facts := r.post[0].message.(*message.Facts)
	no := &message.FactsTaken{Write: facts.Write, Refused: []ring.Partition{facts.Parts[0].Partition}}
	r.post = []letter{{1, 0, no}, {2, 0, no}}
	r.settle()
	r.pass(time.Millisecond)
	if res := r.result(0, from); res == nil || res.Error == nil || res.Receipt != nil {
		t.Fatalf("%v", res)
	}
}

// TestTwoTasksUnderOneIDOnTwoSides: both were accepted; one of them is everywhere
// once the sides have met, and whoever finds that out says which task it is. The
// client of the other one hears of it when it asks again.
func TestTwoTasksUnderOneIDOnTwoSides(t *testing.T) {
	r := newTrio(t)
	for i := range 2 {
		r.cut[[2]int{i, 2}], r.cut[[2]int{2, i}] = true, true
	}
	task := r.ids.Next(r.now.Wall)
	for _, i := range []int{0, 2} {
		s := spec("q")
		s.Id, s.Payload = task.Bytes(), []byte{byte(i)}
		from := r.send(i, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}, Durability: &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}})
		if res := r.result(i, from); res.GetReceipt() == nil {
			t.Fatalf("through node %d: %v", i, res)
		}
		r.settle()
	}
	clear(r.cut)
	r.live(5*time.Second, 250*time.Millisecond, nothing)
	told, payloads := 0, map[string]int{}
	for i, p := range r.peers {
		if s := p.core.Stats(); s.Clashes > 0 {
			told++
			if s.Clashed != task {
				t.Errorf("node %d names %s, not %s", i, s.Clashed, task)
			}
		}
		ask := r.send(i, &nornv1.GetRequest{Id: task.Bytes()})
		r.settle()
		payloads[string(p.replies[ask].Message.(*nornv1.GetReply).Task.Payload)]++
	}
	if told == 0 || len(payloads) != 1 {
		t.Errorf("%d nodes tell of it, and there are %v", told, payloads)
	}
	for i := range 3 {
		s := spec("q")
		s.Id, s.Payload = task.Bytes(), []byte{byte(i)}
		from := r.send(i, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
		r.settle()
		res, stays := r.result(i, from), payloads[string(s.Payload)] > 0
		if stays && !res.GetReceipt().GetExisted() || !stays && res.GetError().GetKind() != nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS {
			t.Errorf("what stays: %v; asked again: %v", stays, res)
		}
	}
}

// TestWhatLosesAgainstWhatIsHereWaitsForCopiesToo: a fact with another content under
// the same key had come before, and no other node had it. The one that came now loses,
// so nothing was written for it, nothing sent, and it was acknowledged at once: a
// completed task was granted again (track record, simulator, seed 158).
func TestWhatLosesAgainstWhatIsHereWaitsForCopiesToo(t *testing.T) {
	for name, write := range map[string]func(task []byte, content string) gproto.Message{
		"complete": func(task []byte, content string) gproto.Message {
			return &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task, Token: 1<<32 + 1, Result: []byte(content)}}}
		},
		"update": func(task []byte, content string) gproto.Message {
			return &nornv1.UpdateRequest{Id: task, Token: 1<<32 + 1, Data: []byte(content)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrio(t)
			task := r.put(0, 1)
			r.cut[[2]int{0, 1}], r.cut[[2]int{0, 2}] = true, true
			var asks []message.Origin
			for _, content := range []string{"b", "a", "b", "c"} { // the smaller one wins
				asks = append(asks, r.send(0, write(task.Bytes(), content)))
				r.settle()
			}
			for n, ask := range asks {
				if reply, answered := r.peers[0].replies[ask]; answered {
					t.Errorf("number %d is acknowledged with one copy: %v %v", n, reply.Message, reply.Err)
				}
			}
			clear(r.cut)
			r.live(replication.ResendSlow+2*replication.LookEvery, 100*time.Millisecond, nothing)
			for n, ask := range asks {
				res := r.peers[0].replies[ask].Message.(*nornv1.WriteReply).GetResults()[0]
				if res.GetReceipt().GetCopies() < 2 {
					t.Errorf("number %d, when the others are in reach: %v", n, res)
				}
			}
			for i, p := range r.peers {
				facts, err := vnode.Facts(p.store, 1, task)
				if r.check(err); len(facts) != 2 {
					t.Errorf("node %d has %d facts", i, len(facts))
				}
			}
		})
	}
}

// TestFactsOfAnotherPartitionAreRefused: they would never be found.
func TestFactsOfAnotherPartitionAreRefused(t *testing.T) {
	r := newTrio(t)
	task := r.ids.Next(r.now.Wall)
	r.enqueue(0, task, nil)
	facts := *r.post[0].message.(*message.Facts)
	wrong := (facts.Parts[0].Partition + 1) % testPartitions
	bad := facts.Parts[0].Facts[0]
	bad.Body = append([]byte{}, 0)
	facts.Parts = []message.PartFacts{{Partition: wrong, Facts: facts.Parts[0].Facts}, {Partition: testPartitions}, {Partition: facts.Parts[0].Partition, Facts: []crdt.Fact{bad}}}
	r.post = []letter{{0, 1, &facts}}
	r.deliver(0)
	answer := r.post[0].message.(*message.FactsTaken)
	if len(answer.Refused) != 3 || r.copies(task) != 1 {
		t.Fatalf("%+v, %d copies", answer, r.copies(task))
	}
}

// TestATaskFromAnotherNodeIsKnownHere: its queue is listed, and it waits for
// what it depends on where it is led.
func TestATaskFromAnotherNodeIsKnownHere(t *testing.T) {
	r := newTrio(t)
	first, second := r.ids.Next(r.now.Wall), r.ids.Next(r.now.Wall)
	s := spec("q")
	s.Id, s.Dependencies = second.Bytes(), [][]byte{first.Bytes()}
	r.send(1, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	r.settle()
	for i := range r.peers {
		ask := r.send(i, &nornv1.QueuesRequest{})
		r.settle()
		if q := r.peers[i].replies[ask].Message.(*nornv1.QueuesReply).Queues; len(q) != 1 || q[0].Count.GetWaiting() != 1 {
			t.Fatalf("node %d lists %v", i, q)
		}
	}
	r.enqueue(2, first, nil)
	r.settle()
	claim := func() []*nornv1.Grant {
		ask := r.send(0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 5, Worker: "w"})
		r.settle()
		return r.peers[0].replies[ask].Message.(*nornv1.ClaimReply).Grants
	}
	g := claim()
	if len(g) != 1 || g[0].Task.Id != first.String() {
		t.Fatalf("%v", g)
	}
	r.send(2, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: first.Bytes(), Token: g[0].Token}}})
	r.settle()
	if g = claim(); len(g) != 1 || g[0].Task.Id != second.String() {
		t.Fatalf("%v", g)
	}
}

// TestTheLeaderHandsOutWhatOthersTookIn: a task enqueued at one node is claimed
// at the one that leads, and its completion anywhere ends it everywhere.
func TestTheLeaderHandsOutWhatOthersTookIn(t *testing.T) {
	r := newTrio(t)
	task := r.ids.Next(r.now.Wall)
	r.enqueue(2, task, nil)
	r.settle()
	ask := r.send(0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, Worker: "w"})
	r.settle()
	grants := r.peers[0].replies[ask].Message.(*nornv1.ClaimReply).Grants
	if len(grants) != 1 || grants[0].Task.Id != task.String() {
		t.Fatalf("%v", grants)
	}
	done := r.send(1, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: grants[0].Token, AutoSeq: true}}})
	r.settle()
	if res := r.peers[1].replies[done].Message.(*nornv1.WriteReply).Results[0]; res.Error != nil || res.Receipt.GetDurableCopies() < 2 {
		t.Fatalf("%v", res)
	}
	for i, p := range r.peers {
		d, err := vnode.ReadTask(p.store, ring.Of(task, testPartitions), task, vnode.ReadOptions{})
		if err != nil || d.State != crdt.StateCompleted || p.core.vnodes.Claimed() > 0 {
			t.Fatalf("node %d: %v %v", i, err, d.State)
		}
	}
}

// TestAcknowledgedIsOnAMajority: whatever is lost, delayed or crashes, what was
// acknowledged at quorum is on two disks at that moment, and the indexes of
// all nodes follow from their facts.
func TestAcknowledgedIsOnAMajority(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newTrio(t)
		type sent struct {
			at   int
			task id.ID
			from message.Origin
			done bool
		}
		var all []*sent
		look := func() {
			for _, s := range all {
				res := r.result(s.at, s.from)
				if s.done || res == nil {
					continue
				}
				s.done = true
				if res.Error == nil && r.copies(s.task) < 2 {
					rt.Fatalf("acknowledged with %d copies", r.copies(s.task))
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue": func(t *rapid.T) {
				i, task := rapid.IntRange(0, 2).Draw(t, "node"), r.ids.Next(r.now.Wall)
				if len(all) > 0 && rapid.Bool().Draw(t, "again") {
					task = rapid.SampledFrom(all).Draw(t, "known").task
				}
				if !r.peers[i].down {
					all = append(all, &sent{at: i, task: task, from: r.enqueue(i, task, nil)})
				}
			},
			"deliver": func(t *rapid.T) {
				if len(r.post) > 0 {
					r.deliver(rapid.IntRange(0, len(r.post)-1).Draw(t, "letter"))
				}
			},
			"lose": func(t *rapid.T) {
				if len(r.post) > 0 {
					n := rapid.IntRange(0, len(r.post)-1).Draw(t, "letter")
					r.post = slices.Delete(r.post, n, n+1)
				}
			},
			"pass": func(*rapid.T) { r.pass(300 * time.Millisecond) },
			"crash": func(t *rapid.T) {
				i := rapid.IntRange(0, 2).Draw(t, "node")
				if r.peers[i].down {
					r.open(i)
				} else {
					r.kill(i)
				}
			},
			"": func(*rapid.T) { look() },
		})
		for i, p := range r.peers {
			for n := range testPartitions {
				if err := audit.Partition(p.store, ring.Partition(n)); err != nil {
					rt.Fatalf("node %d, partition %d: %v", i, n, err)
				}
			}
		}
	})
}

// facts are all facts of a node, in order.
func (p *peer) facts(t testing.TB) (all []string) {
	for n := range testPartitions {
		v := p.core.vnodes.Use(ring.Partition(n))
		for f := range vnode.FactsAfter(v.Partition, p.store, antientropy.Position{}, id.ID{}) {
			all = append(all, fmt.Sprint(f))
		}
		if err := audit.Partition(p.store, ring.Partition(n)); err != nil {
			t.Fatalf("%s, partition %d: %v", p.self.Node, n, err)
		}
	}
	return all
}

// TestReplicasHealEachOther: after a storm of losses and crashes everybody has
// everything that anybody has, and nothing is left to be sent.
func TestReplicasHealEachOther(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := newRepairingTrio(t, 2*time.Second)
		var tasks []id.ID
		rt.Repeat(map[string]func(*rapid.T){
			"enqueue": func(t *rapid.T) {
				i, task := rapid.IntRange(0, 2).Draw(t, "node"), r.ids.Next(r.now.Wall)
				if !r.peers[i].down {
					r.enqueue(i, task, &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE})
					tasks = append(tasks, task)
				}
			},
			"complete": func(t *rapid.T) {
				i := rapid.IntRange(0, 2).Draw(t, "node")
				if len(tasks) > 0 && !r.peers[i].down {
					task := rapid.SampledFrom(tasks).Draw(t, "task")
					r.send(i, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: 1<<32 + 1}}})
				}
			},
			"deliver": func(t *rapid.T) {
				if len(r.post) > 0 {
					r.deliver(rapid.IntRange(0, len(r.post)-1).Draw(t, "letter"))
				}
			},
			"lose": func(*rapid.T) { r.post = nil },
			"pass": func(*rapid.T) { r.pass(700 * time.Millisecond) },
			"crash": func(t *rapid.T) {
				if i := rapid.IntRange(0, 2).Draw(t, "node"); r.peers[i].down {
					r.open(i)
				} else {
					r.kill(i)
				}
			},
		})
		for i, p := range r.peers {
			if p.down {
				r.open(i)
			}
		}
		for range 90 {
			r.pass(time.Second)
			r.settle()
		}
		want := r.peers[0].facts(t)
		for i, p := range r.peers {
			if got := p.facts(t); !slices.Equal(got, want) {
				rt.Fatalf("node %d has %d facts, the first one %d; rounds: %d well, %d failed", i, len(got), len(want), p.core.repairs.Well, p.core.repairs.Failed)
			}
			if n := p.core.repairs.Begun(); n != 0 {
				rt.Fatalf("node %d: %d rounds never end", i, n)
			}
		}
		for _, task := range tasks {
			if n := r.copies(task); n != 3 {
				rt.Fatalf("%s is on %d disks", task, n)
			}
		}
		if r.peers[0].core.repairs.Well+r.peers[0].core.repairs.Roots.Equal == 0 {
			rt.Fatal("nothing was compared")
		}
	})
}

// TestAStrangerIsNotRepaired: who is not in the cohort gets nothing.
func TestAStrangerIsNotRepaired(t *testing.T) {
	r := newRepairingTrio(t, time.Second)
	stranger := register.Member{Node: "n9", Incarnation: register.Incarnation{9}}
	m := &antientropy.Message{Kind: antientropy.KindHello, Session: 1, Seq: 1, Hash: antientropy.HashVersion}
	p := r.peers[2].core
	r.check(p.Step(r.now, &message.FromPeer{From: stranger, Message: &message.Repair{Partition: 0, Message: m}}))
	ready, err := p.Ready(r.now)
	r.check(err)
	if len(ready.Send) != 1 || ready.Send[0].Message.(*message.Repair).Message.Kind != antientropy.KindRefusal {
		t.Fatalf("%v", ready.Send)
	}
	r.check(p.Step(r.now, &message.FromPeer{From: stranger, Message: &message.Repair{Partition: testPartitions, Message: m}}))
}
