package core

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	edges "github.com/norn-dev/norn/node/core/dependency"
	"github.com/norn-dev/norn/node/core/message"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// wantRun completes the last dependency of a task, in queue b, and wants the task, in queue
// c, to run then, and nothing to be left of all in the end.
func (r *trio) wantRun(task id.ID) {
	r.t.Helper()
	r.finish(0, "b")
	r.linger(3 * edges.WatchEvery)
	if s := r.stateOf(0, task); s != nornv1.State_STATE_READY {
		r.t.Fatalf("when all its dependencies are completed it is %v", s)
	}
	r.finish(1, "c")
	r.wantGone(3 * shortGrace)
}

// TestATombstoneStaysWhileATaskWaits: a task came when one that it depends on was
// completed and collected already, and waits for another one for longer than anything
// is remembered. Whoever is to lead it then still finds how the first one ended;
// afterwards the tombstone goes as well (track record).
func TestATombstoneStaysWhileATaskWaits(t *testing.T) {
	// Partition 0 is kept by the first three nodes, partition 3 by the last of five or
	// six and the next two: all of those of the dependency, some of them, or none.
	for _, nodes := range []int{3, 5, 6} {
		t.Run(fmt.Sprintf("%d nodes", nodes), func(t *testing.T) {
			r := newCluster(t, nodes, 0).collecting()
			r.elect()
			cohort := r.state().Cells[3].Cohort
			ended, open, task := r.in(0), r.in(0), r.in(3)
			r.add(0, ended, spec("a"))
			r.finish(0, "a")
			if _, ok := r.until(time.Minute, func() bool { return r.peers[0].remains()[ended] }); !ok {
				t.Fatal("it is not collected")
			}
			r.add(0, open, spec("b"))
			r.add(2, task, after("c", onFailWait, ended, open))
			r.linger(3 * shortGrace)
			for i := range r.peers {
				if r.peers[i].self == cohort[1] {
					r.leadOf(3, i)
				}
			}
			r.wantRun(task)
		})
	}
}

// TestNeedsWithoutALeader: two of the three that keep a task are away for longer than
// anything is remembered, so that it has no leader who could say what it needs, and the
// nodes that keep its dependency, done by then, keep nothing of it. The third one says
// so (track record).
func TestNeedsWithoutALeader(t *testing.T) {
	r := newCluster(t, 6, 0).collecting()
	r.elect()
	ended, open, task := r.in(0), r.in(0), r.in(3)
	r.add(0, ended, spec("a"))
	r.add(0, open, spec("b"))
	r.add(3, task, after("c", onFailWait, ended, open))
	r.settle()
	away := r.peersOf(3)[:2]
	for _, i := range away {
		r.kill(i)
	}
	r.tell()
	r.finish(0, "a")
	r.linger(3 * shortGrace)
	if !r.known(ended) {
		t.Fatal("nothing is left of what it depends on")
	}
	for _, i := range away {
		r.open(i)
	}
	r.elect()
	r.wantRun(task)
}

// TestATombstoneStaysWithWhoNeedsIt: its leader does not keep the task that waits, and
// was told nothing; a member that does keeps it, and gives it back (track record).
func TestATombstoneStaysWithWhoNeedsIt(t *testing.T) {
	r := newCluster(t, 5, 0).collecting() // node 0 keeps both, node 1 the dependency only
	r.elect()
	r.leadOf(0, 1)
	ended, open, task := r.in(0), r.in(0), r.in(3)
	r.add(0, ended, spec("a"))
	r.add(0, open, spec("b"))
	r.add(3, task, after("c", onFailWait, ended, open))
	r.finish(0, "a")
	deaf := func() {
		r.post = slices.DeleteFunc(r.post, func(l letter) bool { m, is := l.message.(*message.Watch); return is && len(m.Keep) > 0 })
	}
	r.until(3*shortGrace, func() bool { return false }, deaf)
	if stone := r.peers[0].remains()[ended]; !stone {
		t.Fatal("who keeps the task that waits has no tombstone of what it depends on")
	}
	r.leadOf(3, 0)
	r.wantRun(task)
}

// peersOf gives the nodes that keep a partition, its leader first.
func (r *trio) peersOf(p ring.Partition) (all []int) {
	all = append(all, r.leader(p))
	for i, o := range r.peers {
		if i != all[0] && slices.Contains(r.state().Cells[p].Cohort, o.self) {
			all = append(all, i)
		}
	}
	return all
}

// TestAnOrphanThatATaskDependsOnStays: a completion has come of a task that nobody
// has enqueued (yet). It counts for those that depend on it, whoever leads them.
func TestAnOrphanThatATaskDependsOnStays(t *testing.T) {
	for _, nodes := range []int{3, 5, 6} {
		r := newCluster(t, nodes, 0).collecting()
		r.elect()
		cohort := r.state().Cells[3].Cohort
		ended, open, task := r.in(0), r.in(0), r.in(3)
		r.done(0, ended)
		r.add(0, open, spec("b"))
		r.add(2, task, after("c", onFailCancel, ended, open))
		r.linger(4 * shortGrace)
		t.Log(nodes, "nodes: the completion is known:", r.known(ended))
		for i := range r.peers {
			if r.peers[i].self == cohort[1] {
				r.leadOf(3, i)
			}
		}
		r.finish(0, "b")
		r.linger(3 * edges.SearchEvery * (edges.SearchTimes + 2))
		if s := r.stateOf(0, task); s != nornv1.State_STATE_READY {
			t.Errorf("%d nodes: when all its dependencies are completed it is %v", nodes, s)
		}
	}
}

// TestManyNeeds: more tasks wait than a node goes through while needs are remembered.
func TestManyNeeds(t *testing.T) {
	r := newCluster(t, 6, 0)
	r.beside = func(c *Config) { c.WatchFor = time.Second } // of a minute: and a sixtieth of the tasks
	r.collecting()
	r.elect()
	r.leadOf(0, 1)
	r.leadOf(3, 4)
	soon, late, never, task := r.in(0), r.in(0), r.in(0), r.in(3)
	r.add(0, soon, spec("a"))
	r.add(0, late, spec("c"))
	r.add(3, task, after("b", onFailCancel, soon, late))
	m := &nornv1.EnqueueRequest{}
	for range 6000 {
		s := after("w", onFailWait, never)
		s.Id = r.in(3).Bytes()
		m.Tasks = append(m.Tasks, s)
	}
	ask[*nornv1.EnqueueReply](r, 3, m)
	r.settle()
	r.finish(0, "a")
	r.linger(3 * shortGrace)
	if !r.known(soon) {
		t.Errorf("a completed dependency of a task that waits is forgotten")
	}
	r.leadOf(3, 5)
	r.finish(0, "c")
	r.linger(time.Minute)
	if s := r.stateOf(3, task); s != nornv1.State_STATE_READY {
		t.Errorf("when both are completed it is %v", s)
	}
}

// TestATombstoneGoesThoughMuchHasMovedThatWaited: a member has left the cohort of many
// tasks that depended on one, and its copies of them. What it had noted of them kept the
// tombstone of that one there for good: it gave it back to the others again and again.
func TestATombstoneGoesThoughMuchHasMovedThatWaited(t *testing.T) {
	r := newCluster(t, 5, 0).collecting() // node 1 keeps partition 0, and no longer partition 3
	r.elect()
	ended := r.in(0)
	r.add(0, ended, spec("a"))
	c := r.peers[1].core
	for range 2 * edges.LookBatch {
		c.vnodes.Use(0).Edges.Add(c.round.Tx, ended, r.in(3))
	}
	if r.leader(0) == 1 {
		t.Fatal("it leads")
	}
	r.finish(0, "a")
	r.wantGone(4 * shortGrace)
	if c.vnodes.Use(0).Edges.Any(c.round.Tx, ended) {
		t.Error("it still has notes of them")
	}
}
