package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/dispatch"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// spread has each node lead something.
func (r *trio) spread() *trio {
	r.t.Helper()
	for p := range ring.Partition(testPartitions) {
		if old, heir := r.leader(p), int(p)%len(r.peers); old != heir {
			r.depose(p, old, heir)
		}
		if r.leader(p) != int(p)%len(r.peers) {
			r.t.Fatalf("partition %d is led by node %d", p, r.leader(p)+1)
		}
	}
	return r
}

// line enqueues tasks through all nodes and gives them in the order of the queue.
func (r *trio) line(n int) (order []string) {
	r.t.Helper()
	for i := range n {
		reply := ask[*nornv1.EnqueueReply](r, i%len(r.peers), &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}})
		order = append(order, reply.Results[0].Receipt.Id)
		r.now = r.now.Add(time.Millisecond)
	}
	slices.Sort(order)
	return order
}

// TestFewBetterTasksArePassedOver: whoever asks where, what is handed out is near
// the beginning of the queue, and mostly without asking another node.
func TestFewBetterTasksArePassedOver(t *testing.T) {
	for name, at := range map[string]func(n int) int{
		"one node is asked": func(int) int { return 1 },
		"all are":           func(n int) int { return n % 3 },
		"one and another":   func(n int) int { return n / 60 % 2 },
	} {
		t.Run(name, func(t *testing.T) {
			r := newTrio(t).spread()
			left := r.line(300)
			var errors []int
			for n := 0; len(left) > 0; n++ {
				if n > 1000 {
					t.Fatalf("%d tasks are left", len(left))
				}
				for _, g := range ask[*nornv1.ClaimReply](r, at(n), &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, LeaseSeconds: 300}).Grants {
					place := slices.Index(left, g.Task.Id)
					if place < 0 {
						t.Fatalf("%s is granted, and was not waiting", g.Task.Id)
					}
					errors, left = append(errors, place), slices.Delete(left, place, place+1)
				}
				r.pass(time.Millisecond)
				r.settle()
			}
			slices.Sort(errors)
			if p99 := errors[len(errors)*99/100]; p99 > 64 {
				t.Errorf("%d better tasks are passed over, p99", p99)
			}
			counted, most := uint64(0), uint64(0)
			for _, p := range r.peers {
				e := p.core.Stats().RankErrors
				for i, n := range e.Counts {
					if counted += n; i > 5 { // over 256
						most += n
					}
				}
			}
			if counted != 300 || most != 0 {
				t.Errorf("the nodes count %d grants, %d of them far behind", counted, most)
			}
		})
	}
}

// TestNewsEndsWithTheClaims: nobody is told of queues that nobody asks for.
func TestNewsEndsWithTheClaims(t *testing.T) {
	r := newTrio(t).spread()
	r.line(30)
	r.live(3*time.Second, time.Second, nothing) // the clocks have been compared
	r.post = nil
	r.pass(time.Minute)
	r.settle()
	news := func(l letter) bool { _, ok := l.message.(*message.QueueHeads); return ok }
	ask[*nornv1.EnqueueReply](r, 0, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{spec("q")}})
	r.pass(time.Second)
	if slices.ContainsFunc(r.post, news) {
		t.Fatal("news of a queue that nobody has asked for")
	}
	ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, LeaseSeconds: 300})
	r.pass(10 * time.Millisecond)
	r.settle()
	if h := r.peers[0].core.dispatch.Held(); h.Known == 0 {
		t.Fatalf("what is known of another node: %+v", h)
	}
	told := 0
	for range 100 {
		r.pass(100 * time.Millisecond)
		for len(r.post) > 0 {
			if news(r.post[0]) {
				told++
			}
			r.deliver(0)
		}
	}
	if told > 30 {
		t.Fatalf("%d news in ten seconds after the last claim", told)
	}
}

// TestAWaitingClaimHearsAtOnce: a claim that waits where nobody has asked for a
// while is known to all leaders, and hears of a task as soon as there is one, not
// when it asks again. It was: whoever was told that a leader has nothing did not
// ask it, and a leader without tasks did not remember who waits.
func TestAWaitingClaimHearsAtOnce(t *testing.T) {
	r := newTrio(t).spread()
	for n := range 24 {
		r.line(3)
		for left := 3; left > 0; { // node 2's workers take all there is
			grants := ask[*nornv1.ClaimReply](r, 1, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, LeaseSeconds: 300}).Grants
			if len(grants) == 0 {
				t.Fatalf("round %d: %d tasks are not to be had", n, left)
			}
			left -= len(grants)
			r.pass(10 * time.Millisecond)
			r.settle()
		}
		r.live(3*time.Second, 100*time.Millisecond, nothing)
		from := r.send(0, &nornv1.ClaimRequest{Queues: []string{"q"}, WaitSeconds: 20, LeaseSeconds: 300})
		for range 2 {
			r.settle()
			r.pass(10 * time.Millisecond)
		}
		id := r.line(1)[0]
		for range 2 {
			r.settle()
			r.pass(10 * time.Millisecond)
		}
		r.settle()
		if reply, ok := r.peers[0].replies[from]; !ok {
			t.Fatalf("round %d: the task of node %d is not handed out to who waits at node 1", n, r.leader(ring.Of(parse(t, id), testPartitions))+1)
		} else if grants := reply.Message.(*nornv1.ClaimReply).Grants; len(grants) != 1 || grants[0].Task.Id != id {
			t.Fatalf("round %d: granted %v", n, grants)
		}
	}
}

// TestALoneBetterTaskElsewhereIsNotPassedOverForLong: a node asked others only when
// these had sixteen better tasks, so that fewer waited for as long as there was
// anything here. Whoever has waited for longest is to be granted within a second
// of the first that passed it over, without each request being sent there.
func TestALoneBetterTaskElsewhereIsNotPassedOverForLong(t *testing.T) {
	for _, c := range []struct{ better, each int }{{1, 10}, {1, 200}, {dispatch.MaxLead - 1, 20}, {dispatch.MaxLead - 1, 100}} {
		t.Run(fmt.Sprintf("%d better, %d requests a second", c.better, c.each), func(t *testing.T) {
			r := newTrio(t).spread()
			waits := make(map[string]bool)
			for range c.better {
				waits[r.put(0, 1).String()] = true // of node 2
			}
			for range 2 * c.each {
				r.put(0, 0) // of node 1, where all workers ask
			}
			asked := 0
			for n := 0; len(waits) > 0; n++ {
				if n > c.each {
					t.Fatalf("%d better tasks wait after a second", len(waits))
				}
				was := r.peers[1].core.Stats().Claimed
				for _, g := range ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, LeaseSeconds: 300}).Grants {
					delete(waits, g.Task.Id)
				}
				asked += int(r.peers[1].core.Stats().Claimed - was)
				r.pass(time.Second / time.Duration(c.each))
				r.settle()
			}
			if asked != c.better {
				t.Errorf("%d tasks are granted elsewhere", asked)
			}
		})
	}
}

// TestRareRequestsPassNothingOver: of requests that come further apart than anything better
// may be passed over for, each first one was granted what was here, and only the next one
// sent to where the better task was: one after the other, for as long as requests were rare
// (seed 423,262 of the simulator: a task was passed over for 5.2 s).
func TestRareRequestsPassNothingOver(t *testing.T) {
	for _, apart := range []time.Duration{2 * dispatch.MaxBehind, time.Second, 5 * time.Second} {
		t.Run(apart.String(), func(t *testing.T) {
			r := newTrio(t).spread()
			var better []string
			for n := range 6 {
				better = append(better, r.put(0, ring.Partition(1+n%2)).String()) // of node 2 and node 3, in turns
			}
			for range 20 {
				r.put(0, 0) // of node 1, where the worker asks
			}
			for n := range 1 + len(better) {
				grants := ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, LeaseSeconds: 300}).Grants
				r.pass(20 * time.Millisecond) // others hear that tasks are wanted, and tell theirs
				r.settle()
				r.pass(apart - 20*time.Millisecond)
				r.settle()
				switch {
				case n == len(better):
					if len(grants) != 1 || slices.Contains(better, grants[0].Task.Id) {
						t.Errorf("the last request is granted %v", grants)
					}
				case len(grants) != 1 || grants[0].Task.Id != better[n]:
					t.Errorf("request %d is granted %v, not %s", n, grants, better[n])
				}
			}
		})
	}
}

// TestLostNewsIsMadeUpForWithinASecond: with the claim requests of two queues waiting and
// two other leaders, each queue's were sent to one and the same of them when they were
// sent out again, once a second; what the other had told of, and was lost, they never got.
func TestLostNewsIsMadeUpForWithinASecond(t *testing.T) {
	r := newTrio(t).spread()
	r.live(3*time.Second, time.Second, nothing)
	news := func(l letter) bool { _, is := l.message.(*message.QueueHeads); return is }
	var asked []message.Origin
	for _, queue := range []string{"p", "q"} {
		for range 2 {
			asked = append(asked, r.send(0, &nornv1.ClaimRequest{Queues: []string{queue}, MaxTasks: 1, WaitSeconds: 60, LeaseSeconds: 300}))
		}
	}
	r.live(3*time.Second, 10*time.Millisecond, nothing)
	for _, queue := range []string{"p", "q"} {
		for _, p := range []ring.Partition{1, 2} { // of node 2 and node 3
			r.send(1, &nornv1.EnqueueRequest{Tasks: []*nornv1.TaskSpec{{Id: r.at(p).Bytes(), Queue: queue}}})
		}
	}
	r.live(time.Second+50*time.Millisecond, 10*time.Millisecond, news)
	for i, from := range asked {
		if got := r.got(0, from); len(got) != 1 {
			t.Errorf("request %d is granted %v", i, got)
		}
	}
}

// TestTheBestOfAllIsAskedFirst: while there is much at the node with the best tasks, and
// requests are on their way there, the next ones do not go to one that is only better than
// this one. One in 50 ms did when fewer than sixteen were no longer passed over for long:
// they were granted what came hundreds of tasks later.
func TestTheBestOfAllIsAskedFirst(t *testing.T) {
	r := newTrio(t).spread()
	first := make(map[string]bool)
	for i, p := range []ring.Partition{1, 2, 0} { // of node 2, 3 and 1
		for range 60 {
			if task := r.put(0, p).String(); i == 0 {
				first[task] = true
			}
		}
	}
	ask[*nornv1.ClaimReply](r, 0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, LeaseSeconds: 300})
	r.pass(20 * time.Millisecond)
	r.settle()
	var asked []message.Origin
	for n := range 40 {
		asked = append(asked, r.send(0, &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, LeaseSeconds: 300}))
		if r.pass(10 * time.Millisecond); n%10 == 9 {
			r.settle()
		}
	}
	r.settle()
	for n, from := range asked {
		if got := r.got(0, from); len(got) != 1 || !first[got[0].Task.Id] {
			t.Errorf("request %d is granted %v", n, got)
		}
	}
}

// TestWhatIsFarBehindIsNotGrantedInPassing: tasks that are enqueued one after the other
// mostly share a partition. When the best ones of a node had been granted, the requests
// that were on their way to it were granted what came there after all that another node
// had: a hundredth of all, each hundreds of tasks too early. Though no news comes after
// them those that are declined are granted something.
func TestWhatIsFarBehindIsNotGrantedInPassing(t *testing.T) {
	for _, c := range []struct {
		wait float64
		lost bool
	}{{0, false}, {10, false}, {0, true}, {10, true}} {
		t.Run(fmt.Sprintf("waiting for %v s, news is lost %v", c.wait, c.lost), func(t *testing.T) {
			r := newTrio(t)
			r.beside = func(cfg *Config) { cfg.HeadSize = 256 } // as servers have it
			for i := range r.peers {
				r.kill(i)
				r.open(i)
			}
			r.elect()
			r.spread()
			const many = 120
			order := make(map[string]int)
			for _, p := range []ring.Partition{1, 2, 1, 0} { // of node 2, 3, 2 and 1
				for range many {
					order[r.put(0, p).String()] = len(order)
				}
			}
			claim := &nornv1.ClaimRequest{Queues: []string{"q"}, MaxTasks: 1, LeaseSeconds: 300, WaitSeconds: c.wait}
			for n := range many - 20 { // they go to node 2, which hears from node 3
				r.pass(20 * time.Millisecond)
				r.settle()
				if got := order[ask[*nornv1.ClaimReply](r, 0, claim).Grants[0].Task.Id]; got != n {
					t.Fatalf("task %d is granted after %d", got, n)
				}
			}
			var asked []message.Origin
			for range 30 { // all at once: of those that go to node 2 ten come too late
				asked = append(asked, r.send(0, claim))
			}
			r.live(time.Second, 10*time.Millisecond, func(l letter) bool {
				_, news := l.message.(*message.QueueHeads)
				return news && c.lost
			})
			for n, from := range asked {
				got := r.got(0, from)
				if len(got) != 1 {
					t.Fatalf("request %d is granted %v", n, got)
				}
				if place := order[got[0].Task.Id]; place >= 2*many && !c.lost {
					t.Errorf("request %d is granted task %d though of the first %d only %d are gone", n, place, 2*many, many-20+n)
				}
			}
		})
	}
}
