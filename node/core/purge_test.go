package core

import (
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/antientropy"
	"github.com/norn-dev/norn/crdt"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/retention"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

const shortGrace = 2 * time.Minute

// collecting has the nodes of a cluster collect quickly.
func (r *trio) collecting() *trio {
	r.grace, r.retain, r.collect, r.repair = shortGrace, time.Second, time.Second, 2*time.Second
	for i, p := range r.peers {
		if !p.down {
			r.open(i) // the intervals are read at the start
		}
	}
	r.tell()
	return r
}

// remains is what a node has of each task: true for a tombstone and nothing else.
func (p *peer) remains() map[id.ID]bool {
	all := map[id.ID]bool{}
	for n := range testPartitions {
		for f := range vnode.FactsAfter(ring.Partition(n), p.store, antientropy.Position{}, id.ID{}) {
			stone, seen := all[f.Task]
			all[f.Task] = f.Key.Kind == crdt.KindTombstone && (stone || !seen)
		}
	}
	return all
}

// have gives how many tasks a node has tombstones, and how many other facts of.
func (p *peer) have() (stones, live int) {
	for _, stone := range p.remains() {
		if stone {
			stones++
		} else {
			live++
		}
	}
	return stones, live
}

// done completes tasks at a node.
func (r *trio) done(i int, tasks ...id.ID) {
	r.t.Helper()
	var all []*nornv1.Completion
	for _, task := range tasks {
		all = append(all, &nornv1.Completion{Id: task.Bytes(), Token: 1<<32 + 1})
	}
	r.send(i, &nornv1.CompleteRequest{Completions: all})
	r.settle()
}

// stock puts tasks in at a node, and has everybody who is up take them.
func (r *trio) stock(i, n int) (tasks []id.ID) {
	for range n {
		tasks = append(tasks, r.ids.Next(r.now.Wall))
		r.enqueue(i, tasks[len(tasks)-1], nil)
	}
	r.settle()
	return tasks
}

// until lets time pass, a second at a time, for at most as long as this, until
// something is so. It gives how long that took.
func (r *trio) until(most time.Duration, so func() bool, each ...func()) (took time.Duration, ok bool) {
	for ; took <= most; took += time.Second {
		if so() {
			return took, true
		}
		r.pass(time.Second)
		for _, f := range each {
			f()
		}
		r.settle()
	}
	return took, false
}

// every tells whether something is so at each node that is up.
func (r *trio) every(so func(p *peer) bool) bool {
	return !slices.ContainsFunc(r.peers, func(p *peer) bool { return !p.down && !so(p) })
}

func collected(n int) func(p *peer) bool {
	return func(p *peer) bool { stones, live := p.have(); return stones == n && live == 0 }
}

// wantCollected lets time pass until so many tasks are collected everywhere.
func (r *trio) wantCollected(n int) {
	r.t.Helper()
	if _, ok := r.until(30*time.Second, func() bool { return r.every(collected(n)) }); !ok {
		for _, p := range r.peers {
			if !p.down {
				stones, live := p.have()
				r.t.Logf("%s: %d tombstones, %d tasks", p.self.Node, stones, live)
			}
		}
		r.t.Fatalf("not all have %d tombstones and nothing else", n)
	}
}

// wantGone lets time pass until nothing is left anywhere, and everybody agrees.
func (r *trio) wantGone(most time.Duration, each ...func()) time.Duration {
	r.t.Helper()
	took, ok := r.until(most, func() bool { return r.every(collected(0)) }, each...)
	if !ok {
		for _, p := range r.peers {
			if !p.down {
				stones, live := p.have()
				r.t.Logf("%s: %d tombstones, %d tasks; marks %v", p.self.Node, stones, live, p.core.retention.Tombstones.Marks)
			}
		}
		r.t.Fatalf("after %v there is something left", took)
	}
	r.audit()
	if d := r.differs(); d != "" {
		r.t.Fatal(d)
	}
	return took
}

// TestTombstonesGoOnAllReplicas: not before their time, soon after it, and the
// trees are equal before and after.
func TestTombstonesGoOnAllReplicas(t *testing.T) {
	r := newTrio(t).collecting()
	tasks := append(append(r.stock(0, 20), r.stock(1, 20)...), r.stock(2, 20)...)
	r.done(1, tasks...)
	r.wantCollected(60)
	r.audit()
	if d := r.differs(); d != "" {
		t.Fatal(d)
	}
	if took, _ := r.until(shortGrace-10*time.Second, func() bool { return !r.every(collected(60)) }); took < shortGrace-10*time.Second {
		t.Fatalf("a tombstone goes after %v", took)
	}
	if took := r.wantGone(time.Minute); took > 40*time.Second {
		t.Errorf("they stay for %v over their time", took)
	}
	// Nobody has anything to look at again.
	for i, p := range r.peers {
		if n := p.core.retention.Tombstones.Comparisons(); n > 2*testPartitions {
			t.Errorf("node %d remembers %d comparisons", i, n)
		}
	}
}

// TestNothingGoesWhileAMemberIsDown: it may know more of a task than the others,
// so nothing is collected until it is back, however long that takes; then
// everything goes, and nothing reappears (K8).
func TestNothingGoesWhileAMemberIsDown(t *testing.T) {
	r := newTrio(t).collecting()
	tasks := r.stock(0, 30)
	r.until(10*time.Second, func() bool { return false })
	r.kill(2)
	r.elect()
	r.done(0, tasks...)
	if took, changed := r.until(4*shortGrace, func() bool { return !r.every(collected(0)) && r.peers[0].stones() > 0 }); changed {
		t.Fatalf("a task was collected after %v although one replica had not heard of its end", took)
	}
	r.until(30*time.Minute, func() bool { return false }) // however long its silence was
	r.open(2)
	if stones, live := r.peers[2].have(); stones != 0 || live != 30 {
		t.Fatalf("the one that was away has %d tombstones and %d tasks", stones, live)
	}
	r.elect()
	r.wantCollected(30)
	r.wantGone(3*time.Minute, func() { r.never(tasks, 0, 1, 2) })
}

func (p *peer) stones() int {
	stones, _ := p.have()
	return stones
}

// never fails when one of some nodes has anything but a tombstone of a task.
func (r *trio) never(tasks []id.ID, nodes ...int) {
	r.t.Helper()
	for _, i := range nodes {
		has := r.peers[i].remains()
		for _, task := range tasks {
			if stone, ok := has[task]; ok && !stone {
				r.t.Fatalf("%s is back on node %d", task, i)
			}
		}
	}
}

// tasksOf gives the tasks of some nodes, each once.
func (r *trio) tasksOf(nodes ...int) (all []id.ID) {
	for _, i := range nodes {
		for task := range r.peers[i].remains() {
			if !slices.Contains(all, task) {
				all = append(all, task)
			}
		}
	}
	slices.SortFunc(all, id.ID.Compare)
	return all
}

// TestPurgesMayGetLost: whoever misses one gives the tombstones back, and they go
// again, a few times a grace and not with each comparison.
func TestPurgesMayGetLost(t *testing.T) {
	r := newTrio(t).collecting()
	r.done(0, r.stock(0, 20)...)
	r.wantCollected(20)
	purges, lose := 0, true
	mangle := func() {
		var post []letter
		for _, l := range r.post {
			post = append(post, l)
			if _, ok := l.message.(*message.Purge); ok {
				if purges++; lose && l.to == 2 {
					post = post[:len(post)-1]
				} else {
					post = append(post, l) // twice
				}
			}
		}
		r.post = post
	}
	r.until(2*shortGrace, func() bool { return false }, mangle)
	if stones, live := r.peers[2].have(); stones != 20 || live != 0 {
		t.Fatalf("the one that hears of nothing has %d tombstones and %d tasks", stones, live)
	}
	// 4 partitions to 2 members each; about shortGrace/8 between two attempts.
	if purges == 0 || purges > 4*8 {
		t.Fatalf("%d messages", purges)
	}
	lose = false
	r.wantGone(shortGrace, mangle)
	purges = 0
	r.until(2*shortGrace, func() bool { return false }, mangle)
	if purges > 0 {
		t.Fatalf("%d messages about nothing", purges)
	}
}

// TestAnotherLeaderGoesOn: with what it knows itself, whatever the one before has
// done of it; and whom the register does not name any more is not heard.
func TestAnotherLeaderGoesOn(t *testing.T) {
	r := newTrio(t).collecting()
	r.done(0, r.stock(0, 20)...)
	r.wantCollected(20)
	var late []letter
	r.until(2*shortGrace, func() bool { return len(late) > 0 }, func() {
		r.post = slices.DeleteFunc(r.post, func(l letter) bool {
			_, ok := l.message.(*message.Purge)
			if ok {
				late = append(late, l)
			}
			return ok
		})
	})
	if len(late) == 0 {
		t.Fatal("nothing goes")
	}
	r.lead(1)
	r.settle()
	if r.peers[1].core.Leading() != testPartitions {
		t.Fatal("the second node does not lead")
	}
	before, _ := r.peers[2].have()
	r.post = append(r.post, late...)
	r.settle()
	if after, _ := r.peers[2].have(); after != before {
		t.Fatal("who leads no more is heard")
	}
	r.wantGone(shortGrace)
}

// TestAPurgeIsNotTrusted: nothing goes but tombstones whose time is over, when
// the leader says so.
func TestAPurgeIsNotTrusted(t *testing.T) {
	r := newTrio(t).collecting()
	live := r.stock(0, 8)
	ended := r.stock(0, 8)
	r.done(0, ended...)
	if _, ok := r.until(30*time.Second, func() bool {
		return r.every(func(p *peer) bool { n, _ := p.have(); return n == 8 })
	}); !ok {
		t.Fatal("not collected")
	}
	p := r.peers[2]
	before := p.facts(t)
	purge := func(from int, about []id.ID, wrong ring.Partition) {
		t.Helper()
		for _, task := range about {
			at := ring.Of(task, testPartitions)
			r.post = append(r.post, letter{from, 2, &message.Purge{Partition: at + wrong, Epoch: 9, Tasks: []id.ID{task, task}}})
		}
		r.settle()
	}
	purge(0, append(live, ended...), 0)
	if got := p.facts(t); !slices.Equal(got, before) {
		t.Fatalf("%d facts of %d are left", len(got), len(before))
	}
	r.now = r.now.Add(2 * shortGrace) // and nobody has noticed yet
	purge(0, live, 0)
	purge(0, ended, 1)
	purge(0, ended, testPartitions)
	r.check(p.core.Step(r.now, &message.FromPeer{From: register.Member{Node: "n9"}, Message: &message.Purge{Partition: ring.Of(ended[0], testPartitions), Epoch: 9, Tasks: ended}}))
	r.turn(2)
	if got := p.facts(t); !slices.Equal(got, before) {
		t.Fatalf("%d facts of %d are left", len(got), len(before))
	}
	purge(0, ended, 0)
	if stones, n := p.have(); stones != 0 || n != 8 {
		t.Fatalf("%d tombstones and %d tasks are left", stones, n)
	}
	p.facts(t)
}

// TestWhoLeftHasNothingToShow: what is known of a member ends when it may have
// left the cohort and come back, for then it has deleted everything in between;
// that another one leads ends nothing.
func TestWhoLeftHasNothingToShow(t *testing.T) {
	r := newTrio(t).collecting()
	r.stock(0, 4)
	knows := func() bool {
		_, ok := r.peers[0].core.retention.Tombstones.ProvenUpTo(r.now, 0)
		return ok
	}
	change := func(cohort ...int) {
		cell := r.state().Cells[0]
		next := register.Cell{Epoch: cell.Epoch + 1, Leader: cell.Leader, Nonce: r.rand.Uint64()}
		for _, i := range cohort {
			next.Cohort = append(next.Cohort, r.peers[i].self)
		}
		r.register.Do(register.Request{Changes: []register.Change{{Partition: 0, Old: cell, New: next}}}, func(register.Result) {})
	}
	if _, ok := r.until(3*time.Minute, knows); !ok {
		t.Fatal("nothing is known of the others")
	}
	r.lead(1)
	r.tell()
	if !knows() {
		t.Fatal("forgotten because another one leads")
	}
	change(0, 1)
	change(0, 1, 2) // before anybody hears of it
	r.tell()
	if knows() {
		t.Fatal("who left and came back is believed to have everything")
	}
	if _, ok := r.until(3*time.Minute, knows); !ok {
		t.Fatal("nothing is known of the others any more")
	}
	r.tell()
	if !knows() {
		t.Fatal("forgotten because everybody hears of the same again")
	}
	change(0, 1)
	r.tell()
	if knows() {
		t.Fatal("of another cohort the same is known")
	}
}

// TestALateWordIsAboutItsComparison: that a comparison has ended well is about
// what was here when it began, whenever that is heard, and however often.
func TestALateWordIsAboutItsComparison(t *testing.T) {
	r := newTrio(t).collecting()
	p, from := r.peers[1].core.retention.Tombstones, r.peers[0].self
	k, began := message.Pair{Partition: 0, Peer: from}, r.now
	const session = 7
	p.Heard(began, k, session)
	later := began.Add(time.Minute)
	p.Heard(later, k, session) // sent again
	p.Completed(later, from, &message.RepairCompleted{Partition: 0, Session: 8})
	if p.Marks[k] != nil {
		t.Fatal("a comparison counts that was never begun")
	}
	for range 2 {
		p.Completed(later, from, &message.RepairCompleted{Partition: 0, Session: 7})
		later = later.Add(time.Hour)
	}
	if m := p.Marks[k]; m == nil || !m.Waits || m.Known || m.Waiting >= began.Mono {
		t.Fatalf("%+v after a comparison begun at %d", m, began.Mono)
	}
	stranger := register.Member{Node: "n9"}
	p.Heard(began, message.Pair{Partition: 0, Peer: stranger}, session)
	p.Completed(began, stranger, &message.RepairCompleted{Partition: 0, Session: 7})
	if len(p.Marks) != 1 || p.Comparisons() != 0 {
		t.Fatal("who is no member counts")
	}
}

// TestOrphansGo: facts of a task that nobody has enqueued, and nobody can any
// more, go on all replicas; not while one is down that may have the enqueue.
func TestOrphansGo(t *testing.T) {
	r := newTrio(t).collecting()
	if _, ok := r.until(3*time.Minute, func() bool { _, ok := r.peers[0].core.retention.Tombstones.ProvenUpTo(r.now, 0); return ok }); !ok {
		t.Fatal("nothing is known of the others")
	}
	task, lost := r.ids.Next(r.now.Wall), r.ids.Next(r.now.Wall)
	r.enqueue(2, lost, &nornv1.Durability{Level: nornv1.WriteLevel_WRITE_LEVEL_ONE})
	r.post = nil // nobody else has it
	r.kill(2)
	r.tell()
	r.done(0, task, lost)
	orphans := func(n int) func() bool {
		return func() bool {
			return r.every(func(p *peer) bool { _, live := p.have(); return live == n })
		}
	}
	if took, changed := r.until(4*shortGrace, func() bool { return !orphans(2)() }); changed {
		t.Fatalf("something goes after %v", took)
	}
	r.open(2)
	r.tell()
	// It has the enqueue of one of them, which is collected as completed then.
	if _, ok := r.until(time.Minute, func() bool { return r.every(func(p *peer) bool { n, _ := p.have(); return n == 1 }) }); !ok {
		t.Fatal("the task of which one replica had the enqueue is not collected")
	}
	r.wantGone(3 * shortGrace)
}

// TestAKeyMovesOnEverywhere: as long as anything is known of a task with a unique
// key, no node gives its ID again, nor an older one; and then the key is forgotten
// everywhere.
func TestAKeyMovesOnEverywhere(t *testing.T) {
	r := newTrio(t).collecting()
	var used []id.ID
	use := func() {
		t.Helper()
		res := ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{keyed("q", "k", 0)}}).Results[0]
		used = append(used, parse(t, res.Receipt.Id))
		r.done(0, used[len(used)-1])
	}
	use()
	r.wantCollected(1)
	r.until(shortGrace/2, func() bool { return false })
	use()
	r.wantCollected(2)
	r.kill(2)
	r.tell()
	// The third has the older tombstone, which goes, and not the other one for sure.
	r.until(3*shortGrace, func() bool { return false })
	if !r.every(collected(1)) {
		t.Fatal("not one tombstone is left")
	}
	check := func() {
		t.Helper()
		for i := range 2 {
			r.lead(i)
			r.settle()
			got := id.ID(ask[*nornv1.KeyReply](r, i, &nornv1.KeyRequest{Queue: "q", Key: "k"}).Id)
			if slices.Contains(used, got) {
				t.Errorf("node %d gives the ID of a collected task again", i+1)
			}
		}
	}
	check()
	r.open(2)
	r.tell()
	records := func() (n int) {
		for _, p := range r.peers {
			for at := range testPartitions {
				n += len(vnode.Keys(p.store, ring.Partition(at), id.ID{}, 10))
			}
		}
		return n
	}
	if records() != 3 {
		t.Errorf("%d records of the key", records())
	}
	r.wantGone(3 * shortGrace)
	if _, ok := r.until(2*shortGrace, func() bool { return records() == 0 }); !ok {
		t.Fatalf("%d records are left", records())
	}
}

// TestALeaderThatMissedACompletionCollectsNothing: a task that looks cancelled to
// a leader that was cut off was completed on a majority meanwhile. Only what all
// members agree on is collected (track record, simulator of clusters, seed 49).
func TestALeaderThatMissedACompletionCollectsNothing(t *testing.T) {
	r := newTrio(t).collecting()
	r.elect()
	tasks := r.stock(0, 4)
	leads := func(task id.ID) int {
		for i, p := range r.peers {
			if p.core.vnode(task).Leading() != 0 {
				return i
			}
		}
		t.Fatal("no leader")
		return -1
	}
	alone := leads(tasks[0])
	for i := range r.peers {
		r.cut[[2]int{i, alone}], r.cut[[2]int{alone, i}] = true, true
	}
	r.done((alone+1)%3, tasks[0])
	from := r.send(alone, &nornv1.CancelRequest{Ids: [][]byte{tasks[0].Bytes()}})
	if _, ok := r.until(20*time.Second, func() bool { stones, _ := r.peers[alone].have(); return stones > 0 }); ok {
		t.Fatalf("a leader that is cut off has collected a task, after %v", r.peers[alone].replies[from])
	}
	clear(r.cut)
	r.elect()
	if _, ok := r.until(30*time.Second, func() bool { return r.every(func(p *peer) bool { stones, _ := p.have(); return stones == 1 }) }); !ok {
		t.Fatal("it is not collected after healing")
	}
	for i := range r.peers {
		if s := r.stateOf(i, tasks[0]); s != nornv1.State_STATE_COMPLETED {
			t.Errorf("node %d says that it is %v", i+1, s)
		}
	}
}

// TestWhoIsFurthestBehindCounts: what the whole cohort knows is what each of its members
// has been compared about, whichever of them is behind.
func TestWhoIsFurthestBehindCounts(t *testing.T) {
	const early, late = int64(time.Minute), int64(time.Hour)
	for behind := range 3 {
		r := newTrio(t)
		c := r.peers[r.leader(1)].core
		p, cohort := c.retention.Tombstones, c.view.Cells[1].Cohort
		if cohort[behind] == c.cfg.Self {
			continue
		}
		p.Follow(1)
		for i, m := range cohort {
			at := late
			if i == behind {
				at = early
			}
			p.Marks[message.Pair{Partition: 1, Peer: m}] = &retention.Mark{Proven: at, Latest: at, Known: true}
		}
		now := r.now.Add(2 * time.Hour)
		if got, want := p.AgreedSince(now, 1), now.Wall-(now.Mono-early); got != want {
			t.Errorf("member %d is behind: all agree up to %d, not %d", behind, got, want)
		}
		if got, ok := p.ProvenUpTo(now, 1); !ok || got != early {
			t.Errorf("member %d is behind: all have what came up to %d, not %d (%t)", behind, got, early, ok)
		}
	}
}

// TestCohortsAreRememberedWhereSomethingIsKept: each of 20 nodes with 4,096 partitions
// remembered all of them, 0.7 MiB, and looked at all with each change of the register.
func TestCohortsAreRememberedWhereSomethingIsKept(t *testing.T) {
	r := newCluster(t, 5, 0)
	r.settle()
	for _, p := range r.peers {
		kept := 0
		for range p.core.vnodes.Each() {
			kept++
		}
		if n := p.core.retention.Tombstones.Cohorts(); n > kept || kept == testPartitions {
			t.Errorf("%s remembers %d cohorts and keeps %d of %d partitions", p.self.Node, n, kept, testPartitions)
		}
	}
}
