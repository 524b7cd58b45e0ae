package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/replication"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"

	gproto "google.golang.org/protobuf/proto"
)

// outcomes gives how tasks have ended by the messages that are on their way from a node.
func (r *trio) outcomes(from int) (all []message.Outcome) {
	for _, l := range r.post {
		if m, is := l.message.(*message.Outcomes); is && l.from == from {
			all = append(all, m.Outcomes...)
		}
	}
	return all
}

// TestWhoSaysThatATaskHasFailed: its leader, once a majority has said since it was asked that it
// leads. What another one knows may be of before a retry.
func TestWhoSaysThatATaskHasFailed(t *testing.T) {
	r := newTrio(t)
	task, i := r.put(0, 1), r.leader(1)
	g := ask[*nornv1.ClaimReply](r, i, claimUpTo(1)).Grants[0]
	ask[*nornv1.WriteReply](r, i, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: task.Bytes(), Token: g.Token, Error: "e", Discard: true}}})
	r.settle()
	for range 2 { // once more, when it was confirmed before
		r.pass(time.Second)
		r.settle()
		for _, at := range []int{(i + 1) % 3, i} {
			if r.say((i+2)%3, at, &message.Watch{Tasks: []id.ID{task}}); len(r.outcomes(at)) > 0 {
				t.Errorf("node %d of leader %d says at once %v", at, i, r.outcomes(at))
			}
		}
		said := 0
		r.live(4*time.Second, 100*time.Millisecond, func(l letter) bool {
			if _, is := l.message.(*message.Outcomes); is && l.from == i {
				said++
			} else if is {
				t.Errorf("who does not lead says %v", l.message)
			}
			return false
		})
		if said == 0 {
			t.Error("its leader never says it")
		}
	}
}

// TestADoubtfulFailureCancelsNothing: a dependency is dead as far as is known here, and its
// leader has retried it. Neither a look through what waits nor the net below goes by that.
func TestADoubtfulFailureCancelsNothing(t *testing.T) {
	r := newTrio(t)
	r.leadOf(1, 0)
	r.leadOf(2, 1)
	c := r.peers[1].core
	dep, task := r.put(0, 1), r.at(2)
	g := ask[*nornv1.ClaimReply](r, 0, claimUpTo(1)).Grants[0]
	ask[*nornv1.WriteReply](r, 0, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: dep.Bytes(), Token: g.Token, Error: "e", Discard: true}}})
	r.settle()
	r.send(0, &nornv1.RetryRequest{Ids: [][]byte{dep.Bytes()}})
	r.settleBut(func(l letter) bool { return l.to == 1 && isFacts(l) })
	s := after("q", onFailCancel, dep)
	s.Id = task.Bytes()
	r.send(1, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	waits := func(when string) {
		t.Helper()
		r.turn(1)
		if w, err := vnode.LoadTask(c.round.Tx, 2, task); err != nil || w.Finished() || !w.Waiting() {
			t.Errorf("%s: it is %v (%v)", when, w.Outcome(), err)
		}
		r.post = nil
	}
	if known, err := vnode.LoadTask(c.round.Tx, 1, dep); err != nil || known.Outcome() != crdt.StateDead {
		t.Fatalf("it knows of %v (%v)", known.Outcome(), err)
	}
	waits("enqueued")
	c.dependency.Watches.Seek(vnode.Pair{Task: task, Dependency: dep})
	waits("looked at")
	c.dependency.Began(2)
	waits("when it begins to lead")
	c.dependency.Queue(dep)
	waits("when the end is heard of")
}

// TestANodeThatTellsOfAnEndIsToldOfAnother: of one that came after it: all dependents hear of
// that, and it is not known whether it stands.
func TestANodeThatTellsOfAnEndIsToldOfAnother(t *testing.T) {
	l := newRig(t).core.dependency
	task := id.ID{1}
	l.Hear(task, crdt.StateDead)
	l.News[0].Last, l.News[0].Sure = id.ID{9}, true
	l.Hear(task, crdt.StateCompleted)
	if n := l.News[0]; len(l.News) != 1 || n.Last != (id.ID{}) || n.Outcome != crdt.StateCompleted || n.Sure {
		t.Errorf("%+v", l.News)
	}
}

// TestManyDependentsThatAreGone: past as many as are looked at there may be one that is not.
func TestManyDependentsThatAreGone(t *testing.T) {
	r := newCluster(t, 5, 0)
	c := r.peers[0].core
	v, task := c.vnodes.Use(0), r.at(0)
	gone := func() {
		for range dependency.LookBatch {
			v.Edges.Add(c.round.Tx, task, r.at(1)) // not kept on this node, and unknown
		}
	}
	gone()
	if !c.dependency.Awaited(v, task) {
		t.Error("it is collected")
	}
	if c.dependency.Awaited(v, task) {
		t.Error("it is kept for ever")
	}
	gone()
	if c.dependency.WaitedFor(v, task) {
		t.Error("its tombstone stays for ever")
	}
	gone()
	waits := r.at(0)
	if _, err := v.Enqueue(c.round.Tx, waits, &crdt.Enqueued{Queue: "q", Dependencies: []id.ID{task}}, r.now); err != nil {
		t.Fatal(err)
	}
	v.Edges.Add(c.round.Tx, task, waits)
	for range 2 {
		if !c.dependency.WaitedFor(v, task) {
			t.Error("its tombstone goes")
		}
	}
}

// TestWhoAskedIsForgotten: after a while, as is how much is remembered bounded.
func TestWhoAskedIsForgotten(t *testing.T) {
	r := newTrio(t)
	c := r.peers[0].core
	w := c.dependency.Watches
	w.Swept = r.now.Mono
	w.Watched(r.now, r.peers[1].self, &message.Watch{Tasks: []id.ID{r.at(1)}})
	if len(w.Asked) != 1 {
		t.Fatalf("%d tasks are asked about", len(w.Asked))
	}
	if w.Sweep(r.now.Add(2 * dependency.WatchFor)); len(w.Asked) != 0 {
		t.Errorf("%d tasks are remembered", len(w.Asked))
	}
	var n uint32
	many := func() id.ID { n++; return id.ID{2, byte(n), byte(n >> 8), byte(n >> 16)} }
	for len(w.Asked) < dependency.MaxWatched {
		w.Asked[many()] = nil
	}
	for len(c.dependency.Unconfirmed.All) < dependency.MaxWatched {
		c.dependency.Unconfirmed.All[many()] = dependency.Failure{}
	}
	w.Watched(r.now, r.peers[1].self, &message.Watch{Tasks: []id.ID{r.at(1)}})
	c.dependency.Unconfirmed.Stands(r.at(1), crdt.StateDead)
	if len(w.Asked) > dependency.MaxWatched || len(c.dependency.Unconfirmed.All) > dependency.MaxWatched {
		t.Errorf("%d are asked about, %d doubted", len(w.Asked), len(c.dependency.Unconfirmed.All))
	}
}

// TestWhatNobodyKnowsIsJudgedAnew when the last one has answered: by who leads the task that
// waits, as long as it waits for that, and by how old it is.
func TestWhatNobodyKnowsIsJudgedAnew(t *testing.T) {
	r := newTrio(t)
	i := r.leader(1)
	dep, task := r.at(2), r.at(1)
	s := after("q", onFailWait, dep)
	s.Id = task.Bytes()
	r.send(i, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	r.settle()
	cancelled := func(at int, when time.Duration, dep id.ID, all bool) bool {
		c := r.peers[at].core
		c.round.Now = r.now.Add(when)
		c.dependency.Forgotten.Conclude(c.round.Now, task, dep, all)
		w, err := vnode.LoadTask(c.round.Tx, 1, task)
		r.check(err)
		return w.Finished()
	}
	const grace = 7 * 24 * time.Hour
	old := grace + 3*eta + time.Hour
	switch {
	case cancelled((i+1)%3, old, dep, true):
		t.Error("by who does not lead")
	case cancelled(i, old, r.at(3), true):
		t.Error("for what it does not wait for")
	case cancelled(i, grace+eta, dep, true):
		t.Error("before it is too old by all clocks")
	case cancelled(i, old, dep, false):
		t.Error("by the word of a majority, though it came of age while the task waited")
	case !cancelled(i, old, dep, true):
		t.Error("it waits for ever")
	}
}

// TestHowOldWhatNobodyKnowsHasToBe: by a clock that is ahead of the others' nothing is old, and a
// task that was retried counts from then.
func TestHowOldWhatNobodyKnowsHasToBe(t *testing.T) {
	r := newTrio(t)
	r.wrong = map[int]time.Duration{0: 10 * time.Minute}
	r.live(3*time.Second, 500*time.Millisecond, nothing)
	c := r.peers[0].core
	gone, known, task := r.at(2), r.put(1, 2), r.at(1)
	s := after("q", onFailWait, gone, known)
	s.Id = task.Bytes()
	r.send(1, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
	r.settle()
	const grace = 7 * 24 * time.Hour
	beyond := func(after time.Duration, dep id.ID) (beyond, old bool) {
		return c.dependency.Forgotten.Beyond(r.clock(0).Add(after), task, dep)
	}
	if is, _ := beyond(grace-5*time.Minute, gone); is {
		t.Error("a clock that is ahead makes it too old")
	}
	if is, old := beyond(grace+time.Hour, gone); !is || old {
		t.Errorf("an hour past the time it is %v, and was when the task came: %v", is, old)
	}
	if is, _ := beyond(grace+time.Hour, known); is {
		t.Error("it is known")
	}
	retried := crdt.Requeued{Generation: 1, At: r.now.Add(grace + time.Minute).Wall}.Fact(task)
	if _, ok := c.arrivals.Merge(r.now, c.vnodes.Use(1), []crdt.Fact{retried}); !ok {
		t.Fatal("not merged")
	}
	if is, old := beyond(grace+time.Hour, gone); !is || !old {
		t.Errorf("retried when it was too old already, it is %v, and was: %v", is, old)
	}
}

// TestHowLongANeedIsRemembered: for longer where it took long to be said again, and not shorter
// than it was silent; and who keeps a partition that nobody leads says what its tasks need.
func TestHowLongANeedIsRemembered(t *testing.T) {
	r := newTrio(t)
	i := r.leader(1)
	c := r.peers[i].core
	n, task := c.dependency.Watches.Needs, r.at(1)
	n.Heard(r.now, []id.ID{task})
	later := r.now.Add(10 * time.Minute)
	n.Heard(later, []id.ID{task})
	if left := n.Kept[task].Until - later.Mono; left != dependency.NeedFor*int64(10*time.Minute) {
		t.Errorf("after ten minutes for %v more", time.Duration(left))
	}
	n.Kept[task] = dependency.Reference{Said: later.Mono - int64(time.Second), Until: later.Mono - 1}
	if n.Forget(later, time.Minute); len(n.Kept) != 1 {
		t.Error("what was said a moment ago is forgotten")
	}
	if n.Forget(later, time.Second); len(n.Kept) != 0 {
		t.Error("it is never forgotten")
	}
	if n.Orphaned(1) {
		return // it has another leader in reach
	}
	c.elector.StepDown(1)
	if !n.Orphaned(1) {
		t.Error("its leader leads no more, and nobody says what its tasks need")
	}
}

// TestWaitsForWhoLeadsAreBounded: more are refused, and what was asked before a request came does
// not answer it.
func TestWaitsForWhoLeadsAreBounded(t *testing.T) {
	r := newTrio(t)
	i := r.leader(1)
	c := r.peers[i].core
	r.now = r.now.Add(time.Second)
	c.round.Now = r.now
	s, p := &c.replication.Confirms, ring.Partition(1)
	if s.Decided(message.ConfirmedSince{At: r.now.Mono + 1, Parts: []ring.Partition{p}}) || c.leases.AskDue() != r.now.Mono {
		t.Error("what was asked before a request came answers it, or nobody is asked again")
	}
	s.Waits = slices.Repeat([]*replication.ConfirmationWait{{}}, replication.MaxConfirmationWaits)
	full := &message.Request{From: message.Origin{Conn: 7}, Body: &nornv1.RetryRequest{Ids: [][]byte{r.at(1).Bytes()}}}
	c.round.Ready.Replies = nil
	if waits := s.ReadIndex(r.now, full); !waits || len(s.Waits) > replication.MaxConfirmationWaits || len(c.round.Ready.Replies) != 1 || c.round.Ready.Replies[0].Err == nil {
		t.Errorf("%d requests wait: %v", len(s.Waits), c.round.Ready.Replies)
	}
	s.Waits = nil
}

// TestAnOlderStateTakesNothingBack: of the register's cells, of settings, of what a removed node
// was told.
func TestAnOlderStateTakesNothingBack(t *testing.T) {
	r := newTrio(t)
	old := *r.state()
	r.leadOf(1, (r.leader(1)+1)%3)
	c := r.peers[0].core
	now := c.view.Cells[1].Epoch
	r.check(c.Step(r.now, message.Changed{State: old}))
	if c.view.Cells[1].Epoch != now || now <= old.Cells[1].Epoch {
		t.Errorf("epoch %d, then %d, after an old word of %d", now, c.view.Cells[1].Epoch, old.Cells[1].Epoch)
	}
	paused, err := gproto.Marshal(&nornv1.QueueSettings{Paused: true})
	r.check(err)
	newer := *r.state()
	newer.Revision++
	newer.Queues = map[string]register.Queue{"q": {Version: 2, Settings: paused}}
	r.check(c.Step(r.now, message.Changed{State: newer}))
	if r.check(c.Step(r.now, message.Changed{State: old})); c.dispatch.Held().Paused != 1 {
		t.Error("an older version of its settings resumes a queue")
	}
}

// TestALateWordOfAFailure: a task waits for one that is dead, so its leader is asked; what it says
// comes late. Meanwhile the dead one is retried, which a majority has, and then another task comes
// that depends on it: it waits for the retry, whoever keeps the dependency (track record).
func TestALateWordOfAFailure(t *testing.T) {
	for _, nodes := range []int{3, 6} { // of six those who keep the task keep no dependency
		r := newCluster(t, nodes, 0)
		dep := r.in(0)
		r.add(0, dep, spec("a"))
		of, at := r.leader(0), r.leader(3)
		if of == at {
			at = (of + 1) % 3
			r.leadOf(3, at)
		}
		g := ask[*nornv1.ClaimReply](r, of, &nornv1.ClaimRequest{Queues: []string{"a"}}).Grants[0]
		ask[*nornv1.WriteReply](r, of, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: dep.Bytes(), Token: g.Token, Error: "e", Discard: true}}})
		r.settle()
		var late []letter
		held := func(l letter) bool {
			_, says := l.message.(*message.Outcomes)
			if says = says && l.to == at; says {
				late = append(late, l)
			}
			return says
		}
		comes := func(policy nornv1.DependencyFailure) id.ID {
			s, task := after("b", policy, dep), r.in(3)
			s.Id = task.Bytes()
			r.send(at, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
			return task
		}
		comes(onFailWait)
		r.live(time.Second, 50*time.Millisecond, held)
		if len(late) == 0 {
			t.Fatal("nobody has said that it is dead")
		}
		from := r.send(of, &nornv1.RetryRequest{Ids: [][]byte{dep.Bytes()}})
		r.settleBut(func(l letter) bool { return held(l) || isFacts(l) && l.to == at })
		if reply, ok := r.peers[of].replies[from]; !ok || refusedWith(reply.Message, reply.Err) != nil {
			t.Fatalf("not retried: %v", reply)
		}
		task := comes(onFailCancel)
		r.post = append(late, r.post...)
		r.settleBut(func(l letter) bool { return isFacts(l) && l.from == of && l.to == at })
		r.live(3*time.Second, 250*time.Millisecond, nothing)
		if s := r.stateOf(at, task); s != nornv1.State_STATE_WAITING {
			t.Errorf("%d nodes: the dependency is %v, and the task that came after its retry was acknowledged is %v", nodes, r.stateOf(at, dep), s)
		}
	}
}

// TestALateWordOfAMajority: the same, where the one who leads the dependency leads the task, too. It
// stands still; that it leads a majority has said before the others have elected another one.
func TestALateWordOfAMajority(t *testing.T) {
	r := newTrio(t)
	r.lead(0)
	dep := r.in(0)
	r.add(0, dep, spec("a"))
	g := ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"a"}}).Grants[0]
	ask[*nornv1.WriteReply](r, 0, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: dep.Bytes(), Token: g.Token, Error: "e", Discard: true}}})
	r.settle()
	comes := func(policy nornv1.DependencyFailure) id.ID {
		s, task := after("b", policy, dep), r.in(1)
		s.Id = task.Bytes()
		r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
		return task
	}
	r.now = r.now.Add(time.Second)
	comes(onFailWait)
	var late []letter
	r.settleBut(func(l letter) bool {
		_, says := l.message.(*message.ClaimsTaken)
		if says = says && l.to == 0; says {
			late = append(late, l)
		}
		return says
	})
	if len(late) == 0 {
		t.Fatal("nobody is asked")
	}
	r.peers[0].down = true
	r.leadOf(0, 1)
	if e := r.retry(1, dep); e != nil {
		t.Fatal(e)
	}
	r.goesOn(0, 0)
	r.now = r.now.Add(time.Millisecond)
	task := comes(onFailCancel)
	r.post = append(late, r.post...)
	r.settleBut(func(l letter) bool { return l.to == 0 && isFacts(l) })
	r.tell()
	r.live(5*time.Second, 250*time.Millisecond, nothing)
	if s := r.stateOf(1, task); s != nornv1.State_STATE_WAITING {
		t.Errorf("the dependency is %v, and the task that came after its retry is %v", r.stateOf(1, dep), s)
	}
}

// TestTasksThatComeAllTheTime: each depends on one that is dead, and comes before the answer to
// the question that the one before has asked. They do not wait for an end of that.
func TestTasksThatComeAllTheTime(t *testing.T) {
	for _, same := range []bool{true, false} { // one node leads both, or two
		r := newTrio(t)
		r.lead(0)
		of := 0
		if !same {
			of = 1
			r.leadOf(0, of)
		}
		dep := r.in(0)
		r.add(of, dep, spec("a"))
		r.settle()
		g := ask[*nornv1.ClaimReply](r, of, &nornv1.ClaimRequest{Queues: []string{"a"}}).Grants[0]
		ask[*nornv1.WriteReply](r, of, &nornv1.FailRequest{Failures: []*nornv1.Failure{{Id: dep.Bytes(), Token: g.Token, Error: "e", Discard: true}}})
		r.settle()
		var first id.ID
		var late []letter
		slow := func(l letter) bool {
			_, is := l.message.(*message.Outcomes)
			if same {
				_, is = l.message.(*message.ClaimsTaken)
			}
			if is = is && l.to == 0; is {
				late = append(late, l)
			}
			return is
		}
		cancelled := func() bool {
			d, err := vnode.LoadTask(r.peers[0].core.round.Tx, 1, first)
			return err == nil && d.Finished()
		}
		for step := 0; first.IsZero() || !cancelled(); step++ {
			if step > 80 {
				t.Fatalf("one node leads both: %v; after %d of them the first one waits still", same, step)
			}
			s, task := after("b", onFailCancel, dep), r.in(1)
			s.Id = task.Bytes()
			r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
			if first.IsZero() {
				first = task
			}
			now := late
			late = nil
			r.settleBut(slow)
			r.pass(50 * time.Millisecond)
			s, task = after("b", onFailCancel, dep), r.in(1)
			s.Id = task.Bytes()
			r.send(0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}})
			r.post = append(now, r.post...)
			for range now {
				r.deliver(0)
			}
			r.settleBut(slow)
			r.pass(50 * time.Millisecond)
		}
	}
}
