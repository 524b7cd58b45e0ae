package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/election"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"
)

// lost is a cluster of three whose fourth member was thought dead and removed.
// All of its tasks were finished, collected and forgotten since; it has them as
// they were.
func lost(t *testing.T) (r *trio, all, old []id.ID) {
	t.Helper()
	r = newGrowing(t)
	for range 3 {
		r.join()
	}
	r.collecting()
	r.stock(0, 40)
	r.run(3)
	all = r.tasksOf(0, 1, 2, 3)
	r.until(10*time.Second, func() bool { return false })
	const gone = 3
	if old = r.tasksOf(gone); len(old) == 0 {
		t.Fatal("the fourth node has nothing")
	}
	r.before = r.state()
	r.kill(gone)
	r.done(0, all...)
	r.set(r.peers[gone].self, register.Removed)
	r.tell()
	r.run(3)
	r.wantGone(3 * shortGrace)
	return r, all, old
}

// apart gives the tasks that nodes keep aside, with how many do.
func (r *trio) apart(nodes ...int) map[id.ID]int {
	all := map[id.ID]int{}
	for _, i := range nodes {
		for p := range testPartitions {
			some, err := vnode.Asides(r.peers[i].store, ring.Partition(p), id.ID{}, 1000)
			r.check(err)
			for _, a := range some {
				all[a.Task]++
			}
		}
	}
	return all
}

// TestAZombieHandsOverWhatItMayAloneHave: what it has is below the horizon and
// unknown to the others. They keep it aside, a majority of each cohort does, and
// it deletes its own copies; nothing is back.
func TestAZombieHandsOverWhatItMayAloneHave(t *testing.T) {
	r, all, old := lost(t)
	const gone = 3
	r.open(gone)
	r.tell()
	if now := r.tasksOf(gone); len(now) != len(old) {
		t.Fatalf("it comes back with %d tasks of %d", len(now), len(old))
	}
	sent := 0
	if _, ok := r.until(10*time.Minute, func() bool { return r.peers[gone].idle() }, func() {
		r.never(all, 0, 1, 2)
		for _, l := range r.post {
			if _, ok := l.message.(*message.Repair); ok && l.from == gone {
				sent++
			}
		}
	}); !ok {
		t.Fatalf("it still has %d tasks, and keeps %d aside", len(r.tasksOf(gone)), len(r.apart(gone)))
	}
	if sent == 0 || sent > 1000 {
		t.Fatalf("%d messages of comparisons", sent)
	}
	r.wantApart(old, 2, 0, 1, 2)
	// Also after a restart, and for good.
	for i := range gone {
		r.peers[i].store = r.peers[i].store.Crash(0)
		r.open(i)
	}
	r.tell()
	r.until(2*shortGrace, func() bool { return false }, func() { r.never(all, 0, 1, 2) })
	r.wantApart(old, 2, 0, 1, 2)
	r.wantShown(old, 0, 1, 2, gone)
	r.audit()
	// What nobody can have collected yet is taken.
	r.check(r.peers[gone].core.Step(r.now, message.Alive{}))
	young := r.ids.Next(r.now.Wall)
	r.enqueue(gone, young, &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE})
	r.post = nil // only the hand-over brings it
	r.tell()
	if _, ok := r.until(10*time.Minute, func() bool { return r.copies(young) >= 2 }); !ok {
		t.Fatalf("%d copies of a young task", r.copies(young))
	}
}

// idle tells whether a node has nothing of any partition.
func (p *peer) idle() bool {
	for n := range testPartitions {
		if !vnode.Empty(p.store, ring.Partition(n)) || vnode.Dropping(p.store, ring.Partition(n)) {
			return false
		}
	}
	return true
}

// wantApart wants each of these tasks, and no other one, kept aside by so many of
// some nodes at least.
func (r *trio) wantApart(tasks []id.ID, least int, nodes ...int) {
	r.t.Helper()
	apart := r.apart(nodes...)
	if len(apart) != len(tasks) {
		r.t.Fatalf("%d tasks are kept aside, not %d", len(apart), len(tasks))
	}
	for _, task := range tasks {
		if apart[task] < least {
			r.t.Fatalf("%s is kept aside by %d", task, apart[task])
		}
	}
}

// wantShown wants an operator to be told of these tasks, and of no other one, that
// they are kept aside, whichever of some nodes is asked.
func (r *trio) wantShown(tasks []id.ID, nodes ...int) {
	r.t.Helper()
	apart := r.apart(nodes...)
	copies := uint32(0)
	for _, n := range apart {
		copies += uint32(n)
	}
	for _, i := range nodes {
		if r.peers[i].idle() {
			continue // it has left
		}
		named := map[string]int{}
		for _, p := range r.verify(i) {
			for _, s := range p.Replicas {
				if int(s.QuarantinedTasks) != len(s.Quarantined) {
					r.t.Errorf("through node %d: %d tasks are kept aside, %d are named", i+1, s.QuarantinedTasks, len(s.Quarantined))
				}
				for _, task := range s.Quarantined {
					named[task]++
				}
			}
		}
		for _, task := range tasks {
			if named[task.String()] != apart[task] || apart[task] == 0 {
				r.t.Errorf("through node %d: %s is kept aside by %d, not %d", i+1, task, named[task.String()], apart[task])
			}
		}
		if len(named) != len(tasks) {
			r.t.Errorf("through node %d: %d tasks are named, not %d", i+1, len(named), len(tasks))
		}
		told, bytes := uint32(0), uint64(0)
		for _, n := range r.status(i).Nodes {
			told, bytes = told+n.QuarantinedTasks, bytes+n.QuarantinedBytes
		}
		if told != copies || bytes == 0 {
			r.t.Errorf("node %d shows %d tasks kept aside on all nodes, with %d bytes, not %d", i+1, told, bytes, copies)
		}
	}
}

// again starts a node that is gone as another incarnation with what it had.
func (r *trio) again(gone int) int {
	i := len(r.peers)
	m := register.Member{Node: r.peers[gone].self.Node, Incarnation: register.Incarnation{byte(i + 1)}}
	r.peers = append(r.peers, &peer{self: m, store: r.peers[gone].store, replies: map[message.Origin]message.Reply{}})
	r.peers[gone].store = memstore.New()
	r.open(i)
	r.set(m, register.Joining)
	r.set(m, register.Active)
	return i
}

// TestOldFactsKeepNobodyOut: a node with facts below the horizon that nobody else
// knows is admitted all the same. It keeps them aside, and nothing is back.
func TestOldFactsKeepNobodyOut(t *testing.T) {
	r, all, old := lost(t)
	i := r.again(3)
	young := r.stock(0, 40) // something in every partition
	r.until(10*time.Minute, func() bool {
		r.tell()
		return r.unsettled(3) == ""
	}, func() { r.never(all, 0, 1, 2) })
	if why := r.unsettled(3); why != "" {
		t.Fatal(why)
	}
	in := 0
	for _, cell := range r.state().Cells {
		if slices.Contains(cell.Cohort, r.peers[i].self) {
			in++
		}
	}
	if in == 0 {
		t.Fatal("it is of no cohort")
	}
	r.never(all, 0, 1, 2, i)
	r.wantApart(old, 1, 0, 1, 2, i)
	if s := r.peers[i].core.Stats(); s.Quarantined != uint64(len(old)) || s.QuarantinedTasks != len(r.apart(i)) {
		t.Errorf("%d put aside, %d kept", s.Quarantined, s.QuarantinedTasks)
	}
	r.wantShown(old, 0, 1, 2, i)
	// Whoever leaves again hands over what it keeps aside.
	r.set(r.peers[i].self, register.Leaving)
	r.run(3)
	if !r.peers[i].idle() {
		t.Fatal("it has not handed over everything")
	}
	r.wantApart(old, 2, 0, 1, 2)
	for range 3 {
		r.until(shortGrace, func() bool { return false }, func() { r.never(all, 0, 1, 2) })
	}
	r.wantApart(old, 2, 0, 1, 2)
	for _, task := range young {
		if n := r.copies(task); n < 3 {
			t.Fatalf("%d copies of a young task", n)
		}
	}
	r.audit()
}

// TestWhatIsKnownAfterAllComesBack: a member that has missed a task old enough to
// be below the horizon has what is known of it elsewhere put aside; as soon as it
// hears of the task from a member, all of it counts, everywhere.
func TestWhatIsKnownAfterAllComesBack(t *testing.T) {
	r := newTrio(t).collecting()
	task := r.stock(1, 1)[0]
	p := ring.Of(task, testPartitions)
	r.now = r.now.Add(2 * shortGrace) // it is not finished, so not collected
	done := crdt.Completed{Token: 1<<32 + 1, At: r.now.Wall}.Fact(task)
	missing := r.peers[0]
	facts, err := vnode.Facts(missing.store, p, task)
	r.check(err)
	r.check(vnode.SetAside(missing.core.vnodes.Use(p), missing.core.round.Tx, task, append(facts, done), r.now.Wall))
	missing.core.transfer.Quarantine.At = r.now.Mono
	r.turn(0)
	if vnode.Known(missing.store, p, task) || len(r.apart(0)) != 1 {
		t.Fatal("it is not aside")
	}
	if _, ok := r.until(5*time.Minute, func() bool {
		for i := range 3 {
			if s, err := vnode.Outcome(r.peers[i].store, p, task); err != nil || s != crdt.StateCompleted {
				if stone := r.peers[i].remains()[task]; !stone {
					return false
				}
			}
		}
		return true
	}); !ok {
		t.Fatal("what was aside does not come back")
	}
	r.wantApart(nil, 0, 0, 1, 2)
	r.audit()
}

// TestQuarantineIsBounded: who is full takes no more, and who has such facts keeps
// them and goes on as no member of their cohort; there is room again when an
// operator has made some.
func TestQuarantineIsBounded(t *testing.T) {
	r, all, old := lost(t)
	for _, p := range r.peers[:3] {
		p.core.transfer.MaxAside = 1
	}
	const gone = 3
	r.open(gone)
	r.peers[gone].core.transfer.MaxAside = 1
	r.tell()
	r.until(3*time.Minute, func() bool { return false }, func() { r.never(all, 0, 1, 2) })
	if now := r.tasksOf(gone); len(now) != len(old) || len(r.apart(0, 1, 2, gone)) != 0 {
		t.Fatalf("%d tasks of %d are left, %d are aside", len(now), len(old), len(r.apart(0, 1, 2, gone)))
	}
	if r.peers[gone].core.Stats().QuarantineFull == 0 {
		t.Fatal("nobody is told")
	}
	if n := nodeOf(r.status(0), r.peers[gone].self.Node); n.GetQuarantineRefused() == 0 {
		t.Errorf("another node does not show that there is no room: %v", n)
	}
	r.peers[gone].core.transfer.MaxAside = 0
	if _, ok := r.until(20*time.Minute, func() bool { return len(r.tasksOf(gone)) == 0 }); !ok {
		t.Fatalf("%d tasks are left although there is room", len(r.tasksOf(gone)))
	}
	r.until(time.Minute, func() bool { return false })
	if n := len(r.apart(gone)); n != len(old) || len(r.apart(0, 1, 2)) != 0 || r.peers[0].core.Stats().QuarantineFull == 0 {
		t.Fatalf("%d are aside there, %d with the others, which are full", n, len(r.apart(0, 1, 2)))
	}
	for _, p := range r.peers[:3] {
		p.core.transfer.MaxAside = 0
	}
	if _, ok := r.until(20*time.Minute, func() bool { return r.peers[gone].idle() }); !ok {
		t.Fatal("it still keeps something")
	}
	r.wantApart(old, 2, 0, 1, 2)
}

// TestOnlyAMemberSetsAside: who says so is believed only about what it keeps, by
// the newest cell, and about what is old.
func TestOnlyAMemberSetsAside(t *testing.T) {
	r, _, old := lost(t)
	const gone = 3
	r.open(gone)
	r.tell()
	r.post = nil
	o := r.peers[gone]
	young := r.ids.Next(r.now.Wall)
	r.enqueue(gone, young, &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE})
	r.post = nil
	say := func(from register.Member, p ring.Partition, epoch uint64, tasks ...id.ID) {
		r.check(o.core.Step(r.now, &message.FromPeer{From: from, Message: &message.QuarantineFacts{Partition: p, Epoch: epoch, Tasks: tasks}}))
		r.turn(gone)
	}
	task := old[0]
	p := ring.Of(task, testPartitions)
	cell := r.state().Cells[p]
	say(register.Member{Node: "n9"}, p, cell.Epoch, task)
	say(cell.Cohort[0], p, cell.Epoch+1, task)
	say(cell.Cohort[0], p, cell.Epoch-1, task)
	say(cell.Cohort[0], testPartitions, cell.Epoch, task)
	say(cell.Cohort[0], (p+1)%testPartitions, r.state().Cells[(p+1)%testPartitions].Epoch, task)
	at := ring.Of(young, testPartitions)
	say(r.state().Cells[at].Cohort[0], at, r.state().Cells[at].Epoch, young)
	// After a vote for a cohort with it in, or a promise that the register has not overtaken,
	// somebody may count on what is here.
	acceptor := &o.core.acceptors.All[p]
	before := *acceptor
	acceptor.Promise = cell.Epoch + 5
	say(cell.Cohort[0], p, cell.Epoch, task)
	*acceptor = before
	acceptor.Open = []election.Proposal[register.Member]{{Epoch: cell.Epoch + 5, Old: cell.Epoch, To: []register.Member{o.self}}}
	say(cell.Cohort[0], p, cell.Epoch, task)
	*acceptor = before
	r.post = nil
	if n := len(r.apart(gone)); n != 0 {
		t.Fatalf("%d are aside", n)
	}
	say(cell.Cohort[0], p, cell.Epoch, task, task)
	if n := len(r.apart(gone)); n != 1 || vnode.Known(o.store, p, task) {
		t.Fatalf("%d are aside", n)
	}
	r.audit()
	member := r.peers[0]
	r.check(member.core.Step(r.now, &message.FromPeer{From: cell.Cohort[1], Message: &message.QuarantineFacts{Partition: p, Epoch: cell.Epoch, Tasks: []id.ID{task}}}))
	r.turn(0)
	if n := len(r.apart(0)); n != 0 {
		t.Fatal("a member sets something aside")
	}
}

// TestAsidesMayGetLost: what is said about facts below the horizon is lost, comes
// twice and comes late; in the end it is as if it had not.
func TestAsidesMayGetLost(t *testing.T) {
	r, all, old := lost(t)
	const gone = 3
	r.open(gone)
	r.tell()
	said, pages := 0, 0
	var late []letter
	lost := func(l letter) bool {
		switch m := l.message.(type) {
		case *message.QuarantineFacts:
			switch said++; said % 3 {
			case 0:
				r.deliver(0)
				r.post = append([]letter{l}, r.post...) // twice
			case 1:
				return true
			default:
				late = append(late, l)
				return true
			}
		case *message.Facts:
			if pages++; m.Aside && pages%2 == 0 {
				late = append(late, l)
				return true
			}
		}
		return false
	}
	for n := 0; !r.peers[gone].idle(); n++ {
		if n == 1800 {
			t.Fatalf("it still has %d tasks, and keeps %d aside", len(r.tasksOf(gone)), len(r.apart(gone)))
		}
		r.pass(time.Second)
		r.settleBut(lost)
		r.never(all, 0, 1, 2)
	}
	if said < 3 || len(late) == 0 {
		t.Fatalf("%d messages, %d of them late", said, len(late))
	}
	r.post = append(r.post, late...)
	r.settle()
	r.until(time.Minute, func() bool { return false })
	r.never(all, 0, 1, 2)
	r.wantApart(old, 2, 0, 1, 2)
	r.audit()
}
