package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
	"github.com/norn-dev/norn/vnode/audit"

	gproto "google.golang.org/protobuf/proto"
)

// dropping is a cluster with a finished task and an open one in a partition that
// node 2, which does not lead it, has just begun to delete: in its next round
// everything goes.
func dropping(t *testing.T) (r *trio, p ring.Partition, done, open id.ID) {
	r = newTrio(t)
	for p = range testPartitions {
		if r.state().Cells[p].Leader != r.peers[1].self {
			break
		}
	}
	done, open = r.in(p), r.in(p)
	r.add(0, done, spec("q"))
	r.add(0, open, spec("q"))
	r.settle()
	ask[*nornv1.WriteReply](r, 0, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: done.Bytes(), Token: 1 << 32}}})
	if r.copies(done) != 3 || r.copies(open) != 3 {
		t.Fatal("not everything is everywhere")
	}
	return r, p, done, open
}

// blank tells what is left on a node of a partition that it has deleted.
func (r *trio) blank(i int, p ring.Partition) string {
	o := r.peers[i]
	if o.core.view.Deleting(p) || !vnode.Empty(o.store, p) {
		return "there are facts"
	}
	if err := audit.Partition(o.store, p); err != nil {
		return err.Error()
	}
	left := ""
	o.core.vnodes.See(p).Queues(func(name string, n *vnode.Counts) { left = fmt.Sprintf("queue %s has %v", name, *n) })
	return left
}

// forwarded is what a node answers to a request that another one has passed on.
func (r *trio) forwarded(i int, m gproto.Message, about ...ring.Partition) *message.Forwarded {
	from := (i + 1) % len(r.peers)
	r.check(r.peers[i].core.Step(r.now, &message.FromPeer{From: r.peers[from].self, Message: &message.Forward{Number: 77, Wait: time.Minute, Partitions: about, Body: m}}))
	r.post = nil
	r.turn(i)
	for _, l := range r.post {
		if f, ok := l.message.(*message.Forwarded); ok && f.Number == 77 {
			return f
		}
	}
	return nil
}

// refusedWith is the error of an answer, or of its only item.
func refusedWith(m gproto.Message, err *proto.Error) *proto.Error {
	var item *nornv1.Error
	switch m := m.(type) {
	case *nornv1.EnqueueReply:
		item = m.Results[0].GetError()
	case *nornv1.WriteReply:
		item = m.Results[0].GetError()
	}
	if err == nil && item != nil {
		return proto.FromProto(item)
	}
	return err
}

// dropped is what requests are about: a partition, a finished task of it, an open
// one and one that is not there.
type dropped struct {
	p                ring.Partition
	done, open, next id.ID
}

// aboutTasks are requests that write to a partition, or read of it.
func aboutTasks() map[string]func(*trio, dropped) gproto.Message {
	one := &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}
	old := func(task id.ID) *nornv1.TaskSpec { s := spec("q"); s.Id = task.Bytes(); return s }
	return map[string]func(*trio, dropped) gproto.Message{
		"enqueue": func(_ *trio, x dropped) gproto.Message {
			return &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{old(x.next)}, Durability: one}
		},
		"enqueue what is there": func(_ *trio, x dropped) gproto.Message {
			return &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{old(x.open)}}
		},
		"enqueue what is old": func(r *trio, x dropped) gproto.Message {
			wall := r.now.Wall - int64(r.peers[0].core.cfg.GCGrace+time.Hour)
			ids := id.NewGenerator(8, r.rand.Uint64)
			task := ids.Next(wall)
			for ring.Of(task, testPartitions) != x.p {
				task = ids.Next(wall)
			}
			return &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{old(task)}}
		},
		"enqueue a key": func(_ *trio, x dropped) gproto.Message {
			s := spec("q")
			s.Key = keyIn(x.p)
			return &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{s}}
		},
		"launch": func(r *trio, x dropped) gproto.Message {
			var task id.ID
			for n := int64(0); task.IsZero() || ring.Of(task, testPartitions) != x.p; n++ {
				task = id.Launch([16]byte{9}, [16]byte{1}, r.now.Wall-n)
			}
			return &nornv1.LaunchRequest{Tasks: []*nornv1.TaskSpec{old(task)}, Begun: []int64{r.now.Wall}}
		},
		"update": func(_ *trio, x dropped) gproto.Message {
			return &nornv1.UpdateRequest{Id: x.open.Bytes(), Token: 1 << 32, Durability: one}
		},
		"complete": func(_ *trio, x dropped) gproto.Message {
			return &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: x.open.Bytes(), Token: 1 << 32}}, Durability: one}
		},
		"complete again": func(_ *trio, x dropped) gproto.Message {
			return &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: x.done.Bytes(), Token: 1 << 32, AutoSeq: true}}}
		},
		"cancel": func(_ *trio, x dropped) gproto.Message {
			return &nornv1.CancelRequest{Ids: [][]byte{x.open.Bytes()}, Durability: one}
		},
		"cancel what is not there": func(_ *trio, x dropped) gproto.Message { return &nornv1.CancelRequest{Ids: [][]byte{x.next.Bytes()}} },
		"retry":                    func(_ *trio, x dropped) gproto.Message { return &nornv1.RetryRequest{Ids: [][]byte{x.open.Bytes()}} },
		"get": func(_ *trio, x dropped) gproto.Message {
			return &nornv1.GetRequest{Id: x.done.Bytes(), Consistency: &nornv1.Consistency{Level: nornv1.ReadLevel_READ_LEVEL_ONE}}
		},
		"get a quorum": func(_ *trio, x dropped) gproto.Message { return &nornv1.GetRequest{Id: x.done.Bytes()} },
		"explain":      func(_ *trio, x dropped) gproto.Message { return &nornv1.ExplainRequest{Id: x.open.Bytes()} },
		"log":          func(_ *trio, x dropped) gproto.Message { return &nornv1.LogRequest{Id: x.done.Bytes()} },
		"key":          func(_ *trio, x dropped) gproto.Message { return &nornv1.KeyRequest{Queue: "q", Key: keyIn(x.p)} },
		"list":         func(*trio, dropped) gproto.Message { return &nornv1.ListRequest{} },
		"count":        func(*trio, dropped) gproto.Message { return &nornv1.CountRequest{} },
		"queues":       func(*trio, dropped) gproto.Message { return &nornv1.QueuesRequest{} },
		"a queue":      func(*trio, dropped) gproto.Message { return &nornv1.QueuesRequest{Names: []string{"q"}} },
	}
}

// TestWhatIsBeingDeletedIsNotWrittenTo: nor is it read. A request that another
// node had passed on was counted, its fact was deleted with the rest, and its
// counter written after that; one copy was acknowledged that was gone. Whoever
// asks is to ask again, somebody else.
func TestWhatIsBeingDeletedIsNotWrittenTo(t *testing.T) {
	// What any node answers itself, when a client asks it. The rest is passed on.
	direct := []string{"enqueue", "enqueue what is there", "enqueue what is old", "update", "complete", "complete again", "cancel", "cancel what is not there"}
	for name, request := range aboutTasks() {
		ways := []bool{true}
		if slices.Contains(direct, name) {
			ways = append(ways, false)
		}
		for _, routed := range ways {
			t.Run(fmt.Sprintf("%s/routed=%v", name, routed), func(t *testing.T) {
				r, p, done, open := dropping(t)
				m := request(r, dropped{p, done, open, r.in(p)})
				r.peers[1].core.transfer.Forget(p)
				var err *proto.Error
				if routed {
					answer := r.forwarded(1, m, p)
					if answer == nil {
						t.Fatal("no answer")
					}
					err = refusedWith(answer.Message, answer.Err)
				} else {
					answer, ok := r.peers[1].replies[r.send(1, m)]
					if !ok {
						t.Fatal("no answer")
					}
					err = refusedWith(answer.Message, answer.Err)
				}
				if err == nil || err.Kind != nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE || err.Effect != nornv1.Effect_EFFECT_NONE || err.RetryAfter == 0 || err.Lasting {
					t.Errorf("answered %+v", err)
				}
				if left := r.blank(1, p); left != "" {
					t.Error(left)
				}
			})
		}
	}
}

// keyIn is a unique key of queue q that belongs to a partition.
func keyIn(p ring.Partition) (key string) {
	for n := 0; ; n++ {
		key = fmt.Sprintf("k%d", n)
		if ring.Of(id.UniqueKey([16]byte{9}, "q", key, 0, 0), testPartitions) == p {
			return key
		}
	}
}

// TestNobodyGivesFactsToWhatIsBeingDeleted: what other nodes say of such a
// partition changes nothing, and they hear nothing of it.
func TestNobodyGivesFactsToWhatIsBeingDeleted(t *testing.T) {
	type says map[string]func(r *trio, p ring.Partition, done, open id.ID) message.PeerMessage
	fresh := func(r *trio, p ring.Partition) []crdt.Fact {
		e := crdt.Enqueued{Queue: "q"}
		return []crdt.Fact{e.Fact(r.in(p))}
	}
	for name, say := range (says{
		"facts": func(r *trio, p ring.Partition, _, _ id.ID) message.PeerMessage {
			return &message.Facts{Write: 5, Parts: []message.PartFacts{{Partition: p, Epoch: 1, Facts: fresh(r, p)}}}
		},
		"the answer to a read": func(r *trio, p ring.Partition, _, open id.ID) message.PeerMessage {
			e := crdt.Enqueued{Queue: "elsewhere"}
			return &message.Fetched{Number: r.peers[1].core.replication.Reads.Number, Facts: []crdt.Fact{e.Fact(open)}}
		},
		"the answer to claims": func(r *trio, p ring.Partition, _, _ id.ID) message.PeerMessage {
			return &message.ClaimsTaken{Round: 5, Facts: []message.PartFacts{{Partition: p, Facts: fresh(r, p)}}}
		},
		"a comparison": func(_ *trio, p ring.Partition, _, _ id.ID) message.PeerMessage {
			return &message.Repair{Partition: p, Message: &antientropy.Message{Kind: antientropy.KindHello, Session: 5, Hash: antientropy.HashVersion}}
		},
		"pages of a comparison": func(r *trio, p ring.Partition, _, _ id.ID) message.PeerMessage {
			return &message.Repair{Partition: p, Message: &antientropy.Message{Kind: antientropy.KindRequest, Session: 5, Hash: antientropy.HashVersion, Push: fresh(r, p)}}
		},
		"a question for an end": func(_ *trio, _ ring.Partition, done, _ id.ID) message.PeerMessage {
			return &message.Watch{Tasks: []id.ID{done}}
		},
		"a question for facts": func(_ *trio, _ ring.Partition, done, _ id.ID) message.PeerMessage {
			return &message.Fetch{Number: 5, Task: done}
		},
	}) {
		t.Run(name, func(t *testing.T) {
			r, p, done, open := dropping(t)
			r.forwarded(1, &nornv1.GetRequest{Id: open.Bytes()}) // and nobody answers yet
			r.peers[1].core.transfer.Forget(p)
			r.post = nil
			r.check(r.peers[1].core.Step(r.now, &message.FromPeer{From: r.peers[0].self, Message: say(r, p, done, open)}))
			r.turn(1)
			if left := r.blank(1, p); left != "" {
				t.Error(left)
			}
			for _, l := range r.post {
				switch m := l.message.(type) {
				case *message.FactsTaken:
					if !slices.Contains(m.Refused, p) {
						t.Errorf("it says that it has them: %+v", m)
					}
				case *message.Repair:
					if m.Message.Kind != antientropy.KindRefusal {
						t.Errorf("it says %v", m.Message)
					}
				case *message.Outcomes, *message.Fetched:
					t.Errorf("it says %+v", m)
				}
			}
		})
	}
}

// TestWhoDoesNotKeepATaskIsNoPartOfAQuorum: asked for its facts by somebody who has
// not heard that its partition has moved, it says nothing.
func TestWhoDoesNotKeepATaskIsNoPartOfAQuorum(t *testing.T) {
	r := newCluster(t, 5, 0)
	task := r.stock(0, 1)[0]
	cohort := r.state().Cells[ring.Of(task, testPartitions)].Cohort
	for i, o := range r.peers {
		r.post = nil
		r.check(o.core.Step(r.now, &message.FromPeer{From: r.peers[(i+1)%5].self, Message: &message.Fetch{Number: 5, Task: task}}))
		r.turn(i)
		answers := slices.ContainsFunc(r.post, func(l letter) bool { _, ok := l.message.(*message.Fetched); return ok })
		if member := slices.Contains(cohort, o.self); answers != member {
			t.Errorf("%s, a member: %v, answers: %v", o.self.Node, member, answers)
		}
	}
}

// TestAHintIsHandedOverBeforeItsPartitionGoes: a node that is about to delete a
// partition, because it has compared it with a majority of those who keep it,
// takes in a task for it that nobody else has.
func TestAHintIsHandedOverBeforeItsPartitionGoes(t *testing.T) {
	r := newGrowing(t)
	for range 4 {
		r.join()
	}
	r.stock(0, 60)
	r.run(3)
	const p = 0
	cohort := r.state().Cells[p].Cohort
	late := slices.IndexFunc(r.peers, func(o *peer) bool { return !slices.Contains(cohort, o.self) })
	cut := func(is bool) {
		for i := range r.peers {
			r.cut[[2]int{i, late}], r.cut[[2]int{late, i}] = is, is
		}
		r.tell()
	}
	hint := func() id.ID {
		t.Helper()
		cut(true)
		task := r.in(p)
		res := r.result(late, r.enqueue(late, task, &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE}))
		if res.GetReceipt().GetHinted() != 3 {
			t.Fatalf("got %v", res)
		}
		r.settle() // what goes to the others is lost
		return task
	}
	first := hint()
	cut(false)
	var answers []letter // that nobody of the cohort is about to change it
	for range 100 {
		for n := 0; n < len(r.post); {
			move := r.peers[late].core.transfer.Outgoing[p]
			if m, ok := r.post[n].message.(*message.FactsTaken); ok && r.post[n].to == late && move != nil && m.Write == move.Probe {
				answers = append(answers, r.post[n])
				r.post = slices.Delete(r.post, n, n+1)
				continue
			}
			r.deliver(n)
			n = 0
		}
		if len(answers) >= 2 {
			break
		}
		r.pass(100 * time.Millisecond)
	}
	if len(answers) < 2 || r.copies(first) < 3 {
		t.Fatalf("%d answers, %d copies of the first task", len(answers), r.copies(first))
	}
	second := hint()
	for _, l := range answers {
		r.check(r.peers[late].core.Step(r.now, &message.FromPeer{From: r.peers[l.from].self, Message: l.message}))
		r.turn(late)
	}
	if r.copies(second) != 1 {
		t.Fatalf("it is on %d disks", r.copies(second))
	}
	cut(false)
	for range 40 {
		r.pass(time.Second)
		r.settle()
	}
	if n := r.copies(second); n != 3 || !vnode.Empty(r.peers[late].store, p) {
		t.Errorf("it is on %d disks, and gone from where it was: %v", n, vnode.Empty(r.peers[late].store, p))
	}
}

// TestAWaitingTaskThatHasMovedKeepsNothingHere: a task with an unfinished dependent is
// not collected. When the dependent's partition has been handed over nobody here hears
// of its end, and the task stayed for ever.
func TestAWaitingTaskThatHasMovedKeepsNothingHere(t *testing.T) {
	r := newTrio(t)
	p, q := ring.Partition(0), ring.Partition(1)
	here := r.leader(q)
	r.lead((here + 1) % 3) // so that another one leads p
	dependency, stays, moves := r.in(q), r.in(2), r.in(p)
	r.add(here, dependency, spec("q"))
	r.add(here, stays, after("q", onFailCancel, dependency))
	r.add(here, moves, after("q", onFailCancel, dependency))
	r.settle()
	c := r.peers[here].core
	awaited := func() bool { return c.dependency.Awaited(c.vnodes.Use(q), dependency) }
	if !awaited() {
		t.Fatal("nothing depends on it")
	}
	c.transfer.Forget(p)
	recohort(c, p, r.peers[(here+1)%3].self, r.peers[(here+2)%3].self)
	c.view.Look()
	r.turn(here)
	if !awaited() {
		t.Error("a task that is kept here depends on it")
	}
	ask[*nornv1.WriteReply](r, here, &nornv1.CancelRequest{Ids: [][]byte{stays.Bytes()}})
	r.settle()
	if awaited() {
		t.Error("a task that is kept by others keeps it")
	}
	r.pass(time.Millisecond)
	if left := c.vnodes.Use(q).Edges.Of(r.peers[here].store, dependency, id.ID{}, 9); len(left) > 0 {
		t.Errorf("there are edges of %v", left)
	}
}

// TestADependencyThatHasMovedHereIsSeen: the leader of a task that waits asked how its
// dependency had ended, and heard nothing; then it was let into the cohort of the
// dependency, whose end it had copied before it led the task.
func TestADependencyThatHasMovedHereIsSeen(t *testing.T) {
	r := newCluster(t, 5, 0)
	const p = 0
	here, q := r.leader(p), ring.Partition(1)
	for slices.Contains(r.state().Cells[q].Cohort, r.peers[here].self) {
		q++
	}
	dependency, waits := r.in(q), r.in(p)
	r.add(here, dependency, spec("d"))
	r.add(here, waits, after("q", onFailCancel, dependency))
	deaf := func(l letter) bool { _, tells := l.message.(*message.Outcomes); return tells && l.to == here }
	other := r.leader(q)
	r.send(other, &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: dependency.Bytes(), Token: 1 << 32}}})
	r.settleBut(deaf)
	facts, err := vnode.Facts(r.peers[other].store, q, dependency)
	r.check(err)
	c := r.peers[here].core
	r.check(c.Step(r.now, &message.FromPeer{From: r.peers[other].self, Message: &message.Facts{Write: 5, Parts: []message.PartFacts{{Partition: q, Epoch: c.view.Cells[q].Epoch, Facts: facts}}}}))
	c.dependency.News = nil // it did not lead the task then
	clear(c.dependency.Told)
	recohort(c, q, append(slices.Clone(c.view.Cells[q].Cohort), r.peers[here].self)...)
	c.view.Look()
	r.turn(here)
	for range 5 {
		r.pass(time.Second)
		r.settleBut(deaf)
	}
	d, err := vnode.ReadTask(r.peers[here].store, p, waits, vnode.ReadOptions{})
	r.check(err)
	if d.State != crdt.StateReady {
		t.Errorf("it is %v", d.State)
	}
}

// TestADependencyThatHasMovedAwayIsAskedAbout: it was kept here when a task that is led
// here began to wait for it. Then its partition was handed over and deleted here, and
// nobody brings its end any more.
func TestADependencyThatHasMovedAwayIsAskedAbout(t *testing.T) {
	r := newCluster(t, 5, 0)
	const p = 0
	here, q := r.leader(p), ring.Partition(1)
	self := r.peers[here].self
	for !slices.Contains(r.state().Cells[q].Cohort, self) || r.leader(q) == here {
		if q++; q == testPartitions {
			t.Fatal("no partition is kept here and led elsewhere")
		}
	}
	dependency, waits := r.in(q), r.in(p)
	r.add(here, dependency, spec("d"))
	r.add(here, waits, after("q", onFailCancel, dependency))
	r.settle()
	c := r.peers[here].core
	if !vnode.Known(r.peers[here].store, q, dependency) {
		t.Fatal("the dependency is not here")
	}
	c.transfer.Forget(q)
	recohort(c, q, slices.DeleteFunc(slices.Clone(c.view.Cells[q].Cohort), func(m register.Member) bool { return m == self })...)
	c.view.Look()
	r.turn(here)
	handed := func(l letter) bool { // to whoever keeps the partition
		switch l.message.(type) {
		case *message.Facts, *message.Repair:
			return l.to == here
		}
		return false
	}
	r.send(r.leader(q), &nornv1.CompleteRequest{Completions: []*nornv1.Completion{{Id: dependency.Bytes(), Token: 1 << 32}}})
	for range 5 {
		r.settleBut(handed)
		r.pass(time.Second)
	}
	r.settleBut(handed)
	if vnode.Known(r.peers[here].store, q, dependency) {
		t.Fatal("the dependency has come back")
	}
	d, err := vnode.ReadTask(r.peers[here].store, p, waits, vnode.ReadOptions{})
	r.check(err)
	if d.State != crdt.StateReady {
		t.Errorf("it is %v", d.State)
	}
}

// recohort has a node see other keepers of a partition, and nobody else.
func recohort(c *Core, p ring.Partition, cohort ...register.Member) {
	cell := c.view.Cells[p]
	cell.Cohort = cohort
	c.view.Set(p, cell)
}
