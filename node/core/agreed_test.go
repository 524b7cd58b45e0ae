package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/jepsen/hunt/policies"
	"github.com/norn-dev/norn/node/core/arrivals"
	"github.com/norn-dev/norn/node/core/leadership"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/repair"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// TestWhatIsNoAgreement: after a comparison that left something nobody knows that the other
// side has it.
func TestWhatIsNoAgreement(t *testing.T) {
	for what, spoil := range map[string]func(*antientropy.Result){
		"":                        func(*antientropy.Result) {},
		"it failed":               func(r *antientropy.Result) { r.Err = antientropy.ErrTimeout },
		"a part was left out":     func(r *antientropy.Result) { r.Skipped = 1 },
		"a tree is wrong":         func(r *antientropy.Result) { r.Suspects = make([]antientropy.Path, 1) },
		"not everything is taken": func(r *antientropy.Result) { r.Refused = 1 },
	} {
		r := &antientropy.Result{Pulled: 3, Pushed: 2, Young: 1}
		if spoil(r); policies.Chosen().Retention.Agreed(r) != (what == "") {
			t.Errorf("%q: agreed %v", what, policies.Chosen().Retention.Agreed(r))
		}
	}
}

// TestWhatAComparisonProves: what was there when it began, but for what it left alone because
// its ID is young, which may be eta ahead of a clock that is eta behind, and all of it in one
// epoch.
func TestWhatAComparisonProves(t *testing.T) {
	r := newTrio(t)
	r.now = r.now.Add(time.Minute)
	c := r.peers[0].core
	p, k := c.retention.Tombstones, message.Pair{Partition: 1, Peer: r.peers[1].self}
	proves := r.now.Mono - int64(repair.Settle) - 2*int64(eta)
	p.Began(r.now, k, 7)
	p.Ended(r.now.Add(time.Second), k, &antientropy.Result{})
	if m := p.Marks[k]; m == nil || m.Latest != proves || m.Waiting != proves {
		t.Errorf("it began at %d, and proves what was there at %+v", r.now.Mono, m)
	}
	p.Began(r.now.Add(2*time.Second), k, 7)
	p.Ended(r.now.Add(3*time.Second), k, &antientropy.Result{Skipped: 1})
	p.Began(r.now.Add(2*time.Second), k, 7)
	c.view.Cells[1].Epoch++
	p.Ended(r.now.Add(3*time.Second), k, &antientropy.Result{})
	if m := p.Marks[k]; m.Latest != proves {
		t.Errorf("one that left something, or went on into another epoch, proves what was there at %d", m.Latest)
	}
}

// TestWhatIsKnownOfAllMembers: nothing is, while one has not been compared with. A new leader
// knows what a majority has acknowledged once it has been compared with enough of them since.
func TestWhatIsKnownOfAllMembers(t *testing.T) {
	r := newTrio(t)
	r.now = r.now.Add(time.Minute)
	c := r.peers[0].core
	p := c.retention.Tombstones
	c.dependency.Watches.Needs.Led[1] = r.now.Mono
	compared := func(i int, began time.Duration) {
		k := message.Pair{Partition: 1, Peer: r.peers[i].self}
		p.Began(r.now.Add(began), k, 7)
		p.Ended(r.now.Add(began+time.Second), k, &antientropy.Result{})
	}
	compared(1, -time.Second)
	if p.CaughtUp(1) {
		t.Error("a comparison of before it led has shown what was acknowledged until then")
	}
	if compared(1, 0); !p.CaughtUp(1) {
		t.Error("it is never known")
	}
	if at := p.AgreedSince(r.now, 1); at > 0 {
		t.Errorf("one member was not compared with, and it is known of %d", at)
	}
	if compared(2, 0); p.AgreedSince(r.now, 1) != r.now.Wall-p.Margin() {
		t.Errorf("all were, and it is known of %d", p.AgreedSince(r.now, 1))
	}
}

// TestARetryShortlyBeforeTheRetentionIsOver: another node's clock may say that it is, and that
// node have collected the task already.
func TestARetryShortlyBeforeTheRetentionIsOver(t *testing.T) {
	r := newTrio(t)
	i := r.leader(1)
	task := r.put(0, 1)
	ask[*nornv1.WriteReply](r, i, &nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}})
	r.settle()
	c := r.peers[i].core
	d, err := vnode.ReadTask(c.round.Tx, 1, task, vnode.ReadOptions{NoLog: true})
	r.check(err)
	c.retention.Interval = time.Second
	early := time.Hour - leadership.Lonely - 2*eta
	for after, refused := range map[time.Duration]bool{early - time.Second: false, early + time.Second: true} {
		if e := c.retention.Buried(r.now.Add(after), c.vnodes.Use(1), d); (e != nil) != refused {
			t.Errorf("after %v of an hour: %v", after, e)
		}
	}
}

// TestARetryIsNotBuriedWithoutAnArchive: where this node has no directory to archive to, it keeps
// what is to be archived; another one may have one, and have collected the task already.
func TestARetryIsNotBuriedWithoutAnArchive(t *testing.T) {
	r := newTrio(t)
	i := r.leader(1)
	task := r.put(0, 1)
	ask[*nornv1.WriteReply](r, i, &nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}})
	r.settle()
	c := r.peers[i].core
	d, err := vnode.ReadTask(c.round.Tx, 1, task, vnode.ReadOptions{NoLog: true})
	r.check(err)
	c.retention.Interval, c.retention.HasArchive = time.Second, false
	c.sharedConfig.Retention.What = nornv1.Retention_RETENTION_ARCHIVE
	if e := c.retention.Buried(r.now.Add(2*time.Hour), c.vnodes.Use(1), d); e == nil {
		t.Error("a retry of a task that another node may have archived is taken")
	}
	if got := c.retention.Rule(d.Task.Enqueued.Queue).What; got != nornv1.Retention_RETENTION_KEEP {
		t.Errorf("by itself it goes by %v", got)
	}
}

// TestAnOrphanOfAKeyStays: its ID does not say how old it is, so that its task may come yet.
func TestAnOrphanOfAKeyStays(t *testing.T) {
	r := newTrio(t).collecting()
	r.elect()
	task := id.UniqueKey([16]byte(r.peers[0].core.cfg.Cluster.ID), "q", "k", 0, 0)
	p := ring.Of(task, testPartitions)
	fact := crdt.Completed{Token: 1<<32 + 1, At: r.now.Wall}.Fact(task)
	for i := range r.peers {
		r.say((i+1)%3, i, &message.Facts{Write: 1, Parts: []message.PartFacts{{Partition: p, Epoch: r.state().Cells[p].Epoch, Facts: []crdt.Fact{fact}}}})
	}
	r.settle()
	purged := func() {
		for _, l := range r.post {
			if m, is := l.message.(*message.Purge); is {
				t.Errorf("a leader has let it go: %v", m)
			}
		}
	}
	if r.until(2*time.Minute, func() bool { return false }, purged); !r.known(task) {
		t.Error("it is gone")
	}
}

// TestAnEndThatCameLateStays (seed 180 of fierce clusters): the leader hears of it from the one
// member that knows after it was compared with the other one, which has gone by then. That one
// does not know that the task has ended, so it stays until that one is compared with again.
func TestAnEndThatCameLateStays(t *testing.T) {
	r := newTrio(t).collecting()
	r.elect()
	i := r.leader(1)
	knows, other := (i+1)%3, (i+2)%3
	task := r.put(i, 1)
	r.until(5*time.Second, func() bool { return false })
	cut := func(l letter) bool { return l.from == knows || l.to == knows }
	r.send(knows, &nornv1.CancelRequest{Ids: [][]byte{task.Bytes()}})
	r.settleBut(cut)
	stands := func(at int) crdt.State {
		end, err := vnode.Outcome(r.peers[at].store, 1, task)
		r.check(err)
		return end
	}
	if stands(knows) != crdt.StateCancelled || stands(i) != crdt.StateUnknown {
		t.Fatalf("it is %v at the one that was asked, and %v at the leader", stands(knows), stands(i))
	}
	r.live(time.Minute, time.Second, cut) // its retention is over, and the other two are compared
	r.kill(other)
	if _, heard := r.until(30*time.Second, func() bool { return stands(i) == crdt.StateCancelled }); !heard {
		t.Fatal("the leader does not hear of it")
	}
	if took, gone := r.until(time.Minute, func() bool { return r.peers[i].stones() > 0 }); gone {
		t.Fatalf("it is collected %v after that, and node %d does not know that it has ended", took, other)
	}
	r.open(other)
	r.wantCollected(1)
}

// TestWhatIsThereAlreadyCountsAsTaken: a comparison that pushed facts which their receiver had by
// then from others counted as one in which they were refused, and hand-overs ended for it.
func TestWhatIsThereAlreadyCountsAsTaken(t *testing.T) {
	r := newTrio(t)
	task := r.put(0, 1)
	r.settle()
	c := r.peers[1].core
	f, ok := vnode.FactOf(c.round.Tx, 1, task, crdt.Key{Kind: crdt.KindEnqueued})
	if !ok {
		t.Fatal("it does not have the task")
	}
	elsewhere := r.at(2)
	for name, x := range map[string]struct {
		facts []crdt.Fact
		want  arrivals.Kept
	}{
		"known":             {[]crdt.Fact{f}, arrivals.Kept{Taken: 1}},
		"another partition": {[]crdt.Fact{crdt.Enqueued{Queue: "q"}.Fact(elsewhere)}, arrivals.Kept{}},
		"new":               {[]crdt.Fact{crdt.Enqueued{Queue: "q"}.Fact(r.at(1))}, arrivals.Kept{Changed: 1, Taken: 1}},
	} {
		if got, _, _ := c.arrivals.Keep(r.now, r.peers[0].self, &message.PartFacts{Partition: 1, Facts: x.facts}, false); got != x.want {
			t.Errorf("%s: %+v, not %+v", name, got, x.want)
		}
	}
}
