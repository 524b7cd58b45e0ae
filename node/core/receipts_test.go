package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/call"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// TestAnAnswerCountsForWhatWasAskedOnly: a write is about two partitions. A node of
// the second one's cohort is found to be of a cohort that the first one needs, too,
// and is sent that one's facts as well. What it answered before it got them says
// nothing of them: it counted, and when the facts were lost nobody sent them again.
func TestAnAnswerCountsForWhatWasAskedOnly(t *testing.T) {
	r := newCluster(t, 5, 0)
	const through, voter = 2, 1
	cell := r.state().Cells[0]
	next := []register.Member{r.peers[2].self, r.peers[3].self, r.peers[4].self}
	r.say(4, voter, &message.Ballots{Ballots: []message.Ballot{{Partition: 0, Epoch: cell.Epoch + 40, Nonce: 9, Old: cell.Epoch, From: cell.Cohort, To: next, Transfer: true}}})
	r.post = nil
	first, second := r.at(0), r.at(2)
	a, b := spec("q"), spec("q")
	a.Id, b.Id = first.Bytes(), second.Bytes()
	from := r.send(through, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{a, b}})
	deliver := func(which func(letter) bool) {
		for n := slices.IndexFunc(r.post, which); n >= 0; n = slices.IndexFunc(r.post, which) {
			r.deliver(n)
		}
	}
	facts := func(l letter) bool { _, is := l.message.(*message.Facts); return is }
	deliver(func(l letter) bool { return facts(l) && l.to != 0 })
	deliver(func(l letter) bool { return l.from == voter && l.to == through })
	r.post = slices.DeleteFunc(r.post, facts) // also those that take the first one to its next cohort
	r.settleBut(facts)
	have := func() (n int) {
		for _, m := range next {
			i := slices.IndexFunc(r.peers, func(p *peer) bool { return p.self == m })
			if vnode.Known(r.peers[i].store.Crash(0), 0, first) {
				n++
			}
		}
		return n
	}
	if reply, answered := r.peers[through].replies[from]; answered || have() != 1 {
		t.Errorf("answered: %t, %v; of the next cohort %d have it", answered, reply.Message, have())
	}
	r.live(4*time.Second, 100*time.Millisecond, nothing)
	if _, answered := r.peers[through].replies[from]; !answered || have() < 2 {
		t.Errorf("when nothing is lost any more: answered: %t; of the next cohort %d have it", answered, have())
	}
}

// TestMoreCohortsThanAWriteCanReach: of those that are not counted it is not known
// whether they have it, so that it is never acknowledged; one copy is one.
func TestMoreCohortsThanAWriteCanReach(t *testing.T) {
	for _, extra := range []int{0, 1} {
		r := newTrio(t)
		task := r.at(1)
		ask, one := r.enqueue(0, task, nil), r.enqueue(0, r.at(1), &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE})
		w := r.peers[0].core.replication.Writes
		f := message.Fence{Partition: 1}
		for n := range call.MaxFences + extra {
			f.Cohorts = append(f.Cohorts, []register.Member{r.peers[0].self, r.peers[1].self, {Node: "later", Incarnation: register.Incarnation{99, byte(n)}}})
		}
		r.post = nil
		r.say(1, 0, &message.FactsTaken{Write: w.Open[0].Number, Fences: []message.Fence{f}})
		if _, answered := r.peers[0].replies[ask]; answered != (extra == 0) {
			t.Errorf("with %d cohorts too many: answered: %t", extra, answered)
		}
		if _, answered := r.peers[0].replies[one]; !answered {
			t.Errorf("with %d cohorts too many one copy is not acknowledged", extra)
		}
	}
}

// TestAllIsAllOfEachCohort: who is asked to write does not know that the cohort is another
// one now, or is about to be. Whoever is of the old one alone drops what it has when a
// majority of the new one has it: its disk is none of those that were asked for, and none
// that the receipt may count.
func TestAllIsAllOfEachCohort(t *testing.T) {
	for _, c := range []struct {
		need   *nornv1.Durability
		after  int // answers of the new cohort
		copies uint32
	}{
		{nil, 1, 2},
		{&nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ALL}, 2, 3},
		{&nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_COUNT, Copies: 3}, 2, 3},
		{&nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_COUNT, Copies: 2}, 1, 2},
	} {
		r := newCluster(t, 5, time.Second)
		next := []register.Member{r.peers[0].self, r.peers[3].self, r.peers[4].self}
		w := r.peers[0].core.replication.Writes
		r.post = nil
		ask := r.enqueue(0, r.at(0), c.need)
		taken := func(from int, fences ...message.Fence) {
			r.say(from, 0, &message.FactsTaken{Write: w.Open[len(w.Open)-1].Number, Fences: fences})
		}
		taken(1, message.Fence{Partition: 0, Cohorts: [][]register.Member{next}})
		taken(2)
		for n := range c.after {
			if res := r.result(0, ask); res != nil {
				t.Fatalf("%v: acknowledged with %d of the next cohort: %v", c.need, n+1, res)
			}
			taken(3 + n)
		}
		if res := r.result(0, ask).GetReceipt(); res.GetDurableCopies() != c.copies {
			t.Errorf("%v: %v, want %d copies", c.need, res, c.copies)
		}
	}
}

// TestACohortFromAnOldDiskIsNoMajority: a disk was set back, the register's with it,
// so that nothing on it tells that its node has had company since. Before the register
// has answered this process, its own copy must not pass for a majority, and what it
// does not know not for what a majority does not know. One copy may be asked for.
func TestACohortFromAnOldDiskIsNoMajority(t *testing.T) {
	all := nornv1.WriteLevel_WRITE_LEVEL_ALL
	done := func(task []byte, l nornv1.WriteLevel) *nornv1.CompleteRequest {
		return &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task, Token: 1<<32 + 1}}, Durability: &nornv1.Durability{Level: l}}
	}
	for name, write := range map[string]func(task []byte) gproto.Message{
		"complete":      func(task []byte) gproto.Message { return done(task, nornv1.WriteLevel_WRITE_LEVEL_QUORUM) },
		"complete, all": func(task []byte) gproto.Message { return done(task, all) },
		"update":        func(task []byte) gproto.Message { return &nornv1.UpdateRequest{Id: task, Token: 1<<32 + 1} },
		"read":          func(task []byte) gproto.Message { return &nornv1.GetRequest{Id: task} },
		"read, all": func(task []byte) gproto.Message {
			return &nornv1.GetRequest{Id: task, Consistency: &nornv1.Consistency{Level: nornv1.ReadLevel(all)}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrio(t)
			task := r.put(0, 1)
			r.live(2*time.Second, 100*time.Millisecond, nothing)
			p := r.peers[0]
			p.mute = true
			r.setBack(0, memstore.New())
			r.check(p.core.Step(r.clock(0), message.Changed{State: r.atFirst(0)}))
			r.turn(0)
			from := r.send(0, write(task.Bytes()))
			reply, answered := p.replies[from]
			if e := refusedWith(reply.Message, reply.Err); !answered || e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || e.Effect != nornv1.Effect_EFFECT_NONE || e.RetryAfter == 0 {
				t.Errorf("with 1 of 3 nodes: %t, %v %v", answered, reply.Message, reply.Err)
			}
			from = r.send(0, done(task.Bytes(), nornv1.WriteLevel_WRITE_LEVEL_ONE))
			if reply := p.replies[from]; refusedWith(reply.Message, reply.Err) != nil || reply.Message == nil {
				t.Errorf("one copy: %v %v", reply.Message, reply.Err)
			}
		})
	}
}

// TestWhoIsAloneIsBelievedOnceTheRegisterHasAnswered: a node that really is alone
// starts again, and refuses what it cannot be sure of for no longer than that.
func TestWhoIsAloneIsBelievedOnceTheRegisterHasAnswered(t *testing.T) {
	r := newGrowing(t)
	task := r.in(1)
	done := &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: 1<<32 + 1}}}
	r.enqueue(0, task, nil)
	p := r.peers[0]
	r.kill(0)
	p.mute = true
	r.open(0)
	r.check(p.core.Step(r.clock(0), message.Changed{State: *r.state()}))
	r.turn(0)
	ask := func(m gproto.Message) (gproto.Message, *proto.Error) {
		reply := p.replies[r.send(0, m)]
		return reply.Message, refusedWith(reply.Message, reply.Err)
	}
	for _, m := range []gproto.Message{done, &nornv1.GetRequest{Id: task.Bytes()}} {
		if _, e := ask(m); e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
			t.Errorf("%T before the register has answered: %v", m, e)
		}
	}
	r.check(p.core.Step(r.clock(0), message.Registered{Result: register.Result{Tag: 1, State: *r.state()}}))
	for _, m := range []gproto.Message{done, &nornv1.GetRequest{Id: task.Bytes()}} {
		if reply, e := ask(m); e != nil || reply == nil {
			t.Errorf("%T after: %v %v", m, reply, e)
		}
	}
}

// discarded makes a cluster that keeps dead tasks for half a minute, and a dead task of
// partition 1, which node i leads.
func discarded(t *testing.T, nodes int) (r *trio, task id.ID, i int) {
	r = newCluster(t, nodes, 0)
	r.beside = func(c *Config) { c.Retention.Dead = 30 * time.Second }
	r.collecting().elect()
	task, i = r.put(1, 1), r.leader(1)
	ask := r.send(i, claimUpTo(1))
	r.settle()
	grants, _ := r.granted(i, ask)
	r.send(i, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: grants[0].Token, Discard: true}}})
	r.settle()
	return r, task, i
}

// collectedUnheard makes one that node i has collected, which died before anybody heard
// of that. Another node leads.
func collectedUnheard(t *testing.T, nodes int) (r *trio, task id.ID, i int) {
	r, task, i = discarded(t, nodes)
	stones := func() bool { n, _ := r.peers[i].have(); return n > 0 }
	for n := 0; n < 200 && !stones(); n++ {
		r.settle()
		r.pass(time.Second)
	}
	if !stones() {
		t.Fatalf("of %d nodes its leader does not collect it", nodes)
	}
	r.post = slices.DeleteFunc(r.post, func(l letter) bool { return l.from == i })
	r.kill(i)
	r.elect()
	return r, task, i
}

// retry asks a node to give a task a new run.
func (r *trio) retry(node int, task id.ID) *proto.Error {
	from := r.send(node, &nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}})
	r.settle()
	reply := r.peers[node].replies[from]
	return refusedWith(reply.Message, reply.Err)
}

// TestARetryIsNotBuried: a leader collects a dead task and dies before anybody hears
// of it. The next one still has the task, gave it a new run, and that was taken back by
// the tombstone when the first one returned. Whoever may not have heard who needs it says
// neither.
func TestARetryIsNotBuried(t *testing.T) {
	for _, nodes := range []int{3, 5} {
		r, task, i := collectedUnheard(t, nodes)
		next := r.leader(1)
		retry := func() *proto.Error { return r.retry(next, task) }
		if s := r.stateOf(next, task); s != nornv1.State_STATE_DEAD {
			t.Fatalf("of %d nodes the next leader says it is %v", nodes, s)
		}
		if e := retry(); nodes == 5 && (e == nil || e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || e.RetryAfter == 0) {
			t.Errorf("when it is not known who needs it: %v", e)
		}
		r.live(time.Duration(r.peers[next].core.dependency.Watches.Remember()), time.Second, nothing)
		e := retry()
		if e != nil && e.Kind != nornv1.ErrorKind_ERROR_KIND_CONFLICT {
			t.Errorf("of %d nodes: %v", nodes, e)
		}
		r.open(i)
		r.elect()
		r.live(30*time.Second, time.Second, nothing)
		if s := r.stateOf(next, task); e == nil && s != nornv1.State_STATE_READY {
			t.Errorf("of %d nodes: the retry was acknowledged, and it is %v", nodes, s)
		}
	}
}

// TestARetryOfWhatIsNeededSinceIsNotBuried: as above, and a task comes to depend on the
// collected one only then. Who collected it did not know that.
func TestARetryOfWhatIsNeededSinceIsNotBuried(t *testing.T) {
	r, task, i := collectedUnheard(t, 3)
	next := r.leader(1)
	s := after("q", onFailWait, task)
	s.Id = r.at(1).Bytes()
	r.send(next, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	r.settle()
	e := r.retry(next, task)
	if e != nil && (e.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || e.RetryAfter == 0) {
		t.Errorf("while the one that may have collected it is away: %v", e)
	}
	r.open(i)
	r.elect()
	r.live(30*time.Second, time.Second, nothing)
	if got := r.stateOf(next, task); e == nil && got != nornv1.State_STATE_READY {
		t.Errorf("the retry was acknowledged, and it is %v", got)
	}
}

// TestWhatIsNeededIsRetriedAfterItsRetention: nobody has collected it, as all can tell
// who have been compared with since.
func TestWhatIsNeededIsRetriedAfterItsRetention(t *testing.T) {
	r, task, i := discarded(t, 3)
	s := after("q", onFailWait, task)
	s.Id = r.at(1).Bytes()
	r.send(i, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	r.settle()
	r.live(3*time.Minute, time.Second, nothing)
	if e := r.retry(i, task); e != nil {
		t.Errorf("with all members there: %v", e)
	}
	if got := r.stateOf(i, task); got != nornv1.State_STATE_READY {
		t.Errorf("after its retry it is %v", got)
	}
}

// TestAPausedLeaderBuriesNoRetry: a process stands still, while the others elect and
// the next leader gives a dead task a new run. When it goes on, the first thing that it
// sees is that the retention of that task is over.
func TestAPausedLeaderBuriesNoRetry(t *testing.T) {
	r := newTrio(t)
	r.beside = func(c *Config) { c.Retention.Dead = time.Minute }
	r.collecting().elect()
	task, i := r.put(1, 1), r.leader(1)
	ask := r.send(i, claimUpTo(1))
	r.settle()
	grants, _ := r.granted(i, ask)
	r.send(i, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: grants[0].Token, Discard: true}}})
	r.settle()
	r.live(30*time.Second, time.Second, nothing) // all have compared what they have
	r.peers[i].down = true
	r.elect()
	next := r.leader(1)
	from := r.send(next, &nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}})
	r.settle()
	if reply := r.peers[next].replies[from]; refusedWith(reply.Message, reply.Err) != nil {
		t.Fatal(refusedWith(reply.Message, reply.Err))
	}
	r.live(time.Minute, time.Second, nothing)
	r.goesOn(i, 1)
	for range 10 {
		r.pass(100 * time.Millisecond)
	}
	r.tell()
	r.live(30*time.Second, time.Second, nothing)
	for n, p := range r.peers {
		if s := r.stateOf(n, task); s != nornv1.State_STATE_READY {
			t.Errorf("the retry was acknowledged, and by %s it is %v", p.self.Node, s)
		}
	}
}

// TestAComparisonIsAsOldAsItsQuestion: the others asked a leader to compare before it
// stood still, and before a dead task had a new run, and it hears of that when it goes on.
// They agree about what they had in the beginning.
func TestAComparisonIsAsOldAsItsQuestion(t *testing.T) {
	r := newTrio(t)
	r.beside = func(c *Config) {
		c.Retention.Dead, c.Eta, c.CollectInterval = time.Minute, 100*time.Millisecond, 100*time.Millisecond
	}
	r.collecting().elect()
	const last = 2 // the others ask it
	const p = ring.Partition(1)
	r.lead(last)
	task := r.put(last, p)
	ask := r.send(last, claimUpTo(1))
	r.settle()
	grants, _ := r.granted(last, ask)
	r.send(last, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: grants[0].Token, Discard: true}}})
	r.settle()
	r.live(53*time.Second, 100*time.Millisecond, nothing)
	asked := map[int]letter{}
	for i := range last {
		r.peers[i].core.repairs.Demand(r.now, p)
	}
	r.live(3*time.Second, 100*time.Millisecond, func(l letter) bool {
		m, is := l.message.(*message.Repair)
		if is = is && l.to == last && m.Partition == p && m.Message.Kind == antientropy.KindHello; is {
			asked[l.from] = l
		}
		return is
	})
	if len(asked) != last {
		t.Fatalf("%d have asked", len(asked))
	}
	r.peers[last].down = true
	r.elect()
	next := r.leader(p)
	from := r.send(next, &nornv1.RetryRequest{Ids: [][]byte{task.Bytes()}})
	r.settle()
	if reply := r.peers[next].replies[from]; refusedWith(reply.Message, reply.Err) != nil {
		t.Fatal(refusedWith(reply.Message, reply.Err))
	}
	r.live(12*time.Second, 100*time.Millisecond, nothing)
	r.peers[last].down = false
	r.post = append(r.post, asked[0], asked[1])
	for range 20 { // it is not told of the election
		r.settle()
		r.pass(100 * time.Millisecond)
	}
	r.tell()
	r.live(30*time.Second, time.Second, nothing)
	for n, o := range r.peers {
		if s := r.stateOf(n, task); s != nornv1.State_STATE_READY {
			t.Errorf("the retry was acknowledged, and by %s it is %v", o.self.Node, s)
		}
	}
}

// TestWhoIsDeposedCollectsNothing: an archive was under way when its node was cut off
// from the others, and is safe when they have another leader, which alone decides.
func TestWhoIsDeposedCollectsNothing(t *testing.T) {
	r := newTrio(t)
	r.beside = func(c *Config) { c.Archive, c.Retention.What = true, nornv1.Retention_RETENTION_ARCHIVE }
	r.collecting().elect()
	task, i := r.put(1, 1), r.leader(1)
	r.done(i, task)
	archives := &r.peers[i].core.retention.Archiving
	if _, begun := r.until(time.Minute, func() bool { return archives.Tag != 0 }); !begun {
		t.Fatal("nothing is archived")
	}
	tag := archives.Tag
	for other := range r.peers {
		r.cut[[2]int{i, other}], r.cut[[2]int{other, i}] = true, true
	}
	r.tell()
	r.live(leadership.Lonely+time.Second, 100*time.Millisecond, nothing)
	if r.peers[i].core.vnodes.See(1).Leading() != 0 {
		t.Fatal("it leads all by itself")
	}
	r.check(r.peers[i].core.Step(r.clock(i), message.Archived{Tag: tag, Tasks: 1}))
	r.live(2*time.Second, 100*time.Millisecond, nothing)
	if stones, live := r.peers[i].have(); stones != 0 || live != 1 {
		t.Fatalf("it has %d tombstones and %d tasks", stones, live)
	}
}

// TestATombstoneIsNoCopy: a node has not heard yet that a task was collected, and takes
// what a worker or an operator says of it. Nobody else keeps that, and the node does not
// either when it hears: it is not acknowledged, and asked again the node says why. What
// the tombstone says as well is: that the task has been, and that it is completed.
func TestATombstoneIsNoCopy(t *testing.T) {
	update := func(task id.ID) gproto.Message {
		return &nornv1.UpdateRequest{Id: task.Bytes(), Token: 1<<32 + 1, Seq: 7, Data: []byte("late")}
	}
	complete := func(task id.ID) gproto.Message {
		return &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: task.Bytes(), Token: 1<<32 + 7, Result: []byte("late")}}}
	}
	enqueue := func(task id.ID) gproto.Message {
		s := spec("q")
		s.Id = task.Bytes()
		return &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}
	}
	for name, c := range map[string]struct {
		request func(id.ID) gproto.Message
		knows   bool // the node has the task
		kept    bool
	}{
		"update":                       {update, true, false},
		"update of what is not known":  {update, false, false},
		"complete":                     {complete, true, true},
		"complete what is not known":   {complete, false, true},
		"enqueue":                      {enqueue, true, true},
		"enqueue of what is not known": {enqueue, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			const late = 0
			r := newTrio(t)
			task := r.buriesBehind(late, c.knows)
			first := r.says(late, c.request(task))
			if _, live := r.peers[1].have(); live != 0 {
				t.Fatalf("%d facts have come back", live)
			}
			switch {
			case c.kept && first != nil:
				t.Fatal(first)
			case c.kept:
				return
			case first == nil || first.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || first.Effect != nornv1.Effect_EFFECT_UNKNOWN:
				t.Fatalf("without any other copy: %+v", first)
			}
			if again := r.says(late, c.request(task)); again == nil || again.Kind != nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST {
				t.Fatalf("asked again: %+v", again)
			}
			if stones, live := r.peers[late].have(); stones != 1 || live != 0 {
				t.Fatalf("it has %d tombstones and %d tasks", stones, live)
			}
		})
	}
}

// buriesBehind has a completed task collected at all nodes but one, which has it, or
// knows nothing of it.
func (r *trio) buriesBehind(late int, knows bool) id.ID {
	r.t.Helper()
	if !knows {
		r.kill(late)
		r.elect()
	}
	task := r.put(1, 1)
	r.done(1, task)
	if !knows {
		r.live(replication.WriteTimeout+time.Second, time.Second, nothing) // nobody sends it any more
		r.open(late)
		r.elect()
	}
	if known := r.copies(task) == 3; known != knows {
		r.t.Fatalf("it knows the task: %t", known)
	}
	stone := crdt.Tombstone{Outcome: crdt.StateCompleted, At: r.now.Wall, Collected: r.now.Wall}.Fact(task)
	for i := range r.peers {
		if i != late {
			r.say(late, i, &message.Facts{Write: 1, Parts: []message.PartFacts{{Partition: 1, Facts: []crdt.Fact{stone}}}})
		}
	}
	r.settle()
	return task
}

// says gives what a node says to a request, nil when it does it.
func (r *trio) says(i int, m gproto.Message) *proto.Error {
	r.t.Helper()
	from := r.send(i, m)
	r.settle()
	r.pass(0)
	reply, answered := r.peers[i].replies[from]
	if !answered {
		r.t.Fatal("no answer")
	}
	return refusedWith(reply.Message, reply.Err)
}

// TestAReadDoesNotOutliveItsPartition: while a read of several waited for the others,
// its node left the cohort and began to delete what it had. It said that the task was
// unknown, in the name of a majority that knows it.
func TestAReadDoesNotOutliveItsPartition(t *testing.T) {
	r := newCluster(t, 5, 0)
	task := r.put(1, 1)
	r.live(2*time.Second, 100*time.Millisecond, nothing)
	c := r.peers[1].core
	from := r.send(1, &nornv1.GetRequest{Id: task.Bytes()})
	s := *r.state()
	s.Cells = slices.Clone(s.Cells)
	s.Cells[1].Epoch++
	s.Cells[1].Cohort = []register.Member{r.peers[2].self, r.peers[3].self, r.peers[4].self}
	r.check(c.Step(r.clock(1), message.Changed{State: s}))
	c.transfer.Forget(1)
	r.turn(1)
	c.view.Dropping[1] = true // there is more of it
	r.settle()
	reply, answered := r.peers[1].replies[from]
	if !answered || reply.Err == nil || reply.Err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE {
		t.Errorf("answered: %t, %v %v", answered, reply.Message, reply.Err)
	}
}

// TestAMajorityOfAnEvenCohort: half of two, or of four while a member is replaced, is
// none.
func TestAMajorityOfAnEvenCohort(t *testing.T) {
	for _, size := range []int{2, 4} {
		r := newCohorts(t, size, 0, func(int) (all []int) {
			for i := range size {
				all = append(all, i)
			}
			return all
		})
		from := r.enqueue(0, r.ids.Next(r.now.Wall), nil)
		for n := range size / 2 {
			if r.result(0, from) != nil {
				t.Fatalf("a cohort of %d: answered after %d acks of others", size, n)
			}
			r.deliver(0)               // the facts
			r.deliver(len(r.post) - 1) // the answer
		}
		if res := r.result(0, from); res.GetReceipt().GetDurableCopies() != uint32(size/2+1) {
			t.Fatalf("a cohort of %d: %v", size, res)
		}
	}
}
