package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/node/core/message"
	"github.com/norn-dev/norn/node/core/query"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
)

// newLimited is twelve nodes of which each keeps one partition of the four, and a queue that
// takes so many tasks.
func newLimited(t *testing.T, most uint64) *trio {
	r := newCohorts(t, 12, 0, func(p int) []int { return []int{3 * p, 3*p + 1, 3*p + 2} })
	ask[*nornv1.QueuesReply](r, 0, &nornv1.SetQueueRequest{Name: "q", Settings: &nornv1.QueueSettings{MaxTasks: most}, Fields: []string{"max_tasks"}})
	r.tell()
	r.settle()
	return r
}

// adds enqueues a task in a partition through a node, and tells whether it was taken.
func (r *trio) adds(i int, p ring.Partition) bool {
	r.t.Helper()
	from := r.enqueue(i, r.in(p), nil)
	r.settle()
	res := r.result(i, from)
	if e := res.GetError(); e != nil && e.Kind != nornv1.ErrorKind_ERROR_KIND_OVERLOADED {
		r.t.Fatalf("%v", e)
	}
	return res.GetError() == nil
}

// TestALimitHoldsForTheWholeQueue: each node keeps a part of the queue's tasks, and counts
// what is in the others' parts as well.
func TestALimitHoldsForTheWholeQueue(t *testing.T) {
	const limit = 100
	r := newLimited(t, limit)
	taken := 0
	for n := range 5 * limit {
		if r.adds(n%12, ring.Partition(r.rand.IntN(testPartitions))) {
			taken++
		} else if taken < limit {
			t.Fatalf("refused with %d tasks of %d", taken, limit)
		}
		r.pass(10 * time.Millisecond) // 100 tasks a second
	}
	if taken > limit+limit/4 {
		t.Errorf("%d tasks are in a queue that takes %d", taken, limit)
	}
}

// TestALimitIsNoShare: all tasks may be in few partitions, as those of a client are for a
// while. The nodes that keep those take as many as the queue does.
func TestALimitIsNoShare(t *testing.T) {
	const limit = 40
	r := newLimited(t, limit)
	for n := range limit {
		if !r.adds(n%12, 1) {
			t.Fatalf("refused with %d tasks of %d, all in one partition", n, limit)
		}
		r.pass(10 * time.Millisecond)
	}
	if r.adds(0, 1) {
		t.Error("one more is taken there")
	}
	r.adds(9, 3) // who keeps no other has not asked yet
	r.pass(time.Second)
	if r.adds(9, 3) {
		t.Error("more is taken where nothing of it is kept")
	}
	for range 5 { // once some are finished there is room for as many, everywhere
		r.finish(3, "q")
	}
	r.adds(9, 3) // asks again
	r.pass(time.Second)
	r.settle()
	if !r.adds(9, 3) {
		t.Error("nothing is taken with room for some")
	}
}

// TestALimitWithNodesThatDoNotAnswer: what is not known is not counted, and an answer that
// is old is not, either.
func TestALimitWithNodesThatDoNotAnswer(t *testing.T) {
	const limit = 10
	r := newLimited(t, limit)
	for range limit {
		r.adds(3, 1)
	}
	r.adds(0, 0)
	r.pass(time.Second)
	r.settle()
	if r.adds(0, 0) {
		t.Fatal("a full queue takes a task")
	}
	for i := range 3 {
		for j := range 9 {
			r.cut[[2]int{i, 3 + j}], r.cut[[2]int{3 + j, i}] = true, true
		}
	}
	for range 2 * limit {
		r.live(time.Second, 250*time.Millisecond, nothing)
		r.adds(0, 0)
	}
	c := r.peers[0].core
	if n := c.queues.Count("q", query.About(c.view, c.vnodes, &message.Request{})).Total(); n != limit {
		t.Errorf("%d tasks are in what is left of the cluster, where %d may be", n, limit)
	}
}

// TestALimitAsksSeldom: the enqueues of an instant are one question to each of the others.
func TestALimitAsksSeldom(t *testing.T) {
	r := newLimited(t, 1000)
	asked := func() (n int) {
		for _, l := range r.post {
			if f, ok := l.message.(*message.Forward); ok {
				if _, is := f.Body.(*nornv1.QueuesRequest); is {
					n++
				}
			}
		}
		return n
	}
	for range 20 {
		r.enqueue(0, r.in(0), nil)
	}
	if n := asked(); n != testPartitions-1 {
		t.Errorf("%d questions for the partitions of %d others", n, testPartitions-1)
	}
	r.settle()
	r.pass(time.Second) // for what came after the question
	if n := asked(); n != testPartitions-1 {
		t.Errorf("%d questions", n)
	}
	r.settle()
	r.pass(time.Minute)
	if n := asked(); n != 0 {
		t.Errorf("%d questions though nothing comes in", n)
	}
}
