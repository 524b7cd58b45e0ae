package core

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/clock"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/register"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/store"
	"github.com/norn-dev/norn/store/memstore"
	"github.com/norn-dev/norn/vnode"
	"github.com/norn-dev/norn/vnode/audit"
)

// newGrowing is a cluster of one that others may join.
func newGrowing(t testing.TB) *trio { return newGrowingTrio(t, 5*time.Second) }

func newGrowingTrio(t testing.TB, interval time.Duration) *trio {
	r := &trio{repair: interval, bare: true, t: t, now: clock.Time{Wall: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano(), Mono: 1}, rand: rand.New(rand.NewPCG(1, 2)), cut: map[[2]int]bool{}}
	r.ids = id.NewGenerator(7, r.rand.Uint64)
	cells := memstore.New()
	first := register.Member{Node: "n1", Incarnation: register.Incarnation{1}}
	r.check(register.Format(cells, register.Cluster{ID: register.UUID{9}, Partitions: testPartitions, Replicas: 3}, first))
	var err error
	r.register, err = register.OpenLocal(cells)
	r.check(err)
	r.peers = []*peer{{self: first, store: memstore.New(), replies: map[message.Origin]message.Reply{}}}
	r.open(0)
	r.set(first, register.Active)
	r.tell()
	return r
}

// set changes a node's record.
func (r *trio) set(m register.Member, s register.NodeStatus) {
	r.t.Helper()
	for range 2 {
		var won bool
		r.register.Do(register.Request{}, func(res register.Result) {
			n, _ := res.State.Find(m)
			if n.Status == s && n.Weight > 0 {
				won = true
				return
			}
			old := n.Version
			n.Member, n.Status, n.Weight = m, s, 1
			r.register.Do(register.Request{Nodes: []register.NodeChange{{Old: old, New: n}}}, func(res register.Result) { won = res.NodesWon[0] })
		})
		if !won {
			r.t.Fatalf("%s does not become %v", m.Node, s)
		}
	}
}

// join adds a node.
func (r *trio) join() int {
	i := len(r.peers)
	m := register.Member{Node: fmt.Sprintf("n%d", i+1), Incarnation: register.Incarnation{byte(i + 1)}}
	r.peers = append(r.peers, &peer{self: m, store: memstore.New(), replies: map[message.Origin]message.Reply{}})
	r.open(i)
	r.set(m, register.Joining)
	r.set(m, register.Active)
	return i
}

// state is what the register says.
func (r *trio) state() *register.State {
	var s register.State
	r.register.Do(register.Request{}, func(res register.Result) { s = res.State })
	return &s
}

// run lets time pass until every partition has a cohort of so many living
// members, and nobody else has anything of it.
func (r *trio) run(replicas int) {
	r.t.Helper()
	why := ""
	for range 600 {
		r.pass(100 * time.Millisecond)
		r.settle()
		r.tell()
		r.settle()
		if why = r.unsettled(replicas); why == "" {
			r.tell() // of the last one that came in
			r.settle()
			return
		}
	}
	r.t.Fatal(why)
}

func (r *trio) unsettled(replicas int) string {
	for p, cell := range r.state().Cells {
		if len(cell.Cohort) != replicas {
			return fmt.Sprintf("partition %d has a cohort of %d", p, len(cell.Cohort))
		}
		for i, o := range r.peers {
			if o.down {
				if slices.Contains(cell.Cohort, o.self) {
					return fmt.Sprintf("node %d is dead and keeps partition %d", i+1, p)
				}
				continue
			}
			in := slices.Contains(cell.Cohort, o.self)
			if in != (vnode.Tree(o.core.vnodes.See(ring.Partition(p))) != nil && !vnode.Empty(o.store, ring.Partition(p))) {
				return fmt.Sprintf("node %d in the cohort of %d: %v", i+1, p, in)
			}
		}
	}
	return r.differs()
}

// differs tells where replicas of a partition do not hold the same.
func (r *trio) differs() string {
	for p, cell := range r.state().Cells {
		p := ring.Partition(p)
		var first *peer
		for _, o := range r.peers {
			if o.down || !slices.Contains(cell.Cohort, o.self) {
				continue
			}
			if first == nil {
				first = o
				continue
			}
			a, b := vnode.Root(first.core.vnodes.See(p), first.store), vnode.Root(o.core.vnodes.See(p), o.store)
			if a != b {
				return fmt.Sprintf("partition %d: %v on %s, %v on %s", p, a, first.self.Node, b, o.self.Node)
			}
		}
	}
	return ""
}

// audit checks what is stored on every node.
func (r *trio) audit() {
	r.t.Helper()
	for p := range testPartitions {
		for _, o := range r.peers {
			if o.down {
				continue
			}
			if err := audit.Partition(o.store, ring.Partition(p)); err != nil {
				r.t.Fatalf("%s, partition %d: %v", o.self.Node, p, err)
			}
		}
	}
}

// TestAClusterGrowsAndShrinks: one node, three, five, three; every task is
// where it belongs after each step, and nowhere else.
func TestAClusterGrowsAndShrinks(t *testing.T) {
	r := newGrowing(t)
	total := uint64(0)
	add := func(through int) {
		t.Helper()
		var tasks []*nornv1.TaskSpec
		for range 50 {
			tasks = append(tasks, spec("q"))
		}
		for _, res := range ask[*nornv1.EnqueueReply](r, through, &nornv1.EnqueueRequest{Tasks: tasks}).Results {
			if res.Error != nil {
				t.Fatal(res.Error)
			}
		}
		total += 50
	}
	check := func(replicas int) {
		t.Helper()
		r.run(replicas)
		r.audit()
		for i, o := range r.peers {
			if o.down {
				continue
			}
			if n := ask[*nornv1.CountReply](r, i, &nornv1.CountRequest{}).Total.Total; n != total {
				t.Fatalf("node %d counts %d tasks of %d", i+1, n, total)
			}
		}
	}
	add(0)
	r.join()
	check(2)
	add(1)
	r.join()
	check(3)
	add(2)
	r.join()
	r.join()
	check(3)
	add(4)
	r.set(r.peers[3].self, register.Leaving)
	add(3)
	check(3)
	if n, _ := r.state().Find(r.peers[3].self); n.Status != register.Removed {
		for range 100 {
			r.pass(time.Second)
			r.tell()
			r.settle()
		}
		if n, _ = r.state().Find(r.peers[3].self); n.Status != register.Removed {
			t.Errorf("the node that left is %v", n.Status)
		}
	}
	r.kill(4)
	r.set(r.peers[4].self, register.Removed)
	r.tell()
	check(3)
	add(0)
	check(3)
}

// TestCohortsChangeWithoutAntiEntropy: what hands partitions over is the copy and
// the election, not the repair that comes round now and then.
func TestCohortsChangeWithoutAntiEntropy(t *testing.T) {
	r := newGrowingTrio(t, 0)
	for range 60 { // in all partitions
		r.enqueue(0, r.ids.Next(r.now.Wall), nil)
	}
	r.settle()
	for n := 2; n <= 4; n++ {
		r.join()
		r.run(min(n, 3))
		r.audit()
	}
	r.set(r.peers[0].self, register.Leaving) // who had everything, alone
	r.run(3)
	r.audit()
	for i := 1; i < 4; i++ {
		if n := ask[*nornv1.CountReply](r, i, &nornv1.CountRequest{}).Total.Total; n != 60 {
			t.Errorf("node %d counts %d tasks of 60", i+1, n)
		}
		if n := r.peers[i].core.repairs.Asked(); n != clock.Never {
			t.Errorf("node %d repairs", i+1)
		}
	}
	for p := range testPartitions {
		if !vnode.Empty(r.peers[0].store, ring.Partition(p)) {
			t.Errorf("the node that left still has something of partition %d", p)
		}
	}
}

// TestATreeThatIsWrongIsPutRight: a node of the tree that is not what the facts
// say, which nobody wrote, makes two replicas differ without end until the
// scrubber has been there.
func TestATreeThatIsWrongIsPutRight(t *testing.T) {
	r := newRepairingTrio(t, time.Second)
	for range 30 {
		task := r.ids.Next(r.now.Wall)
		from := r.enqueue(0, task, nil)
		r.settle()
		if r.result(0, from).GetReceipt() == nil {
			t.Fatal("refused")
		}
	}
	c := r.peers[1].core
	vnode.Settled(c.vnodes.Use(1), c.round.Tx) // the tree is written
	r.turn(1)
	var b store.Batch
	for key := range r.peers[1].store.Scan([]byte{'m', 0, 1}, []byte{'m', 0, 2}) {
		b.Delete(key)
		break
	}
	r.peers[1].store.Apply(&b)
	if b.Len() == 0 || audit.Partition(r.peers[1].store, 1) == nil {
		t.Fatal("nothing is wrong")
	}
	for range 60 {
		r.pass(time.Second)
		r.settle()
		r.tell()
	}
	if err := audit.Partition(r.peers[1].store, 1); err != nil || r.peers[1].core.Stats().Scrubbed == 0 {
		t.Errorf("%v after %d repairs", err, r.peers[1].core.Stats().Scrubbed)
	}
}
