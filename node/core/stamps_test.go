package core

import (
	"testing"
	"time"

	"github.com/norn-dev/norn/id"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/ring"
	"github.com/norn-dev/norn/vnode"
)

// finished gives when a task was finished as one node has it, wall ns.
func (r *trio) finished(i int, task id.ID) int64 {
	r.t.Helper()
	d, err := vnode.ReadTask(r.peers[i].store, ring.Of(task, testPartitions), task, vnode.ReadOptions{NoClaims: true, NoLog: true})
	r.check(err)
	if d.Task.Enqueued == nil || !d.Task.Finished() {
		return 0
	}
	return d.Task.FinishedAt()
}

// TestAWrongClockEndsNoRetention: a task is finished through a node whose clock is
// far off, for a moment, for longer, while the node is cut off, and so that it is
// set wrong only then. The time that is written is that of the others' clocks, so
// that the task stays for as long as it is to, and no longer. It was the node's own
// before: a task finished through a node that was a day behind was deleted at once
// (track record, laboratory, clock-jump, seed 77).
func TestAWrongClockEndsNoRetention(t *testing.T) {
	second := func(r *trio, n int) { r.live(time.Duration(n)*time.Second, 200*time.Millisecond, nothing) }
	for _, how := range []struct {
		name string
		do   func(r *trio, off time.Duration)
		// vague: whether the wall clock is right cannot be known. One that is ahead
		// may be, after a suspension, so it is followed.
		vague bool
	}{
		{"at once", func(r *trio, off time.Duration) { r.wrong[0] = off }, true},
		{"after a while", func(r *trio, off time.Duration) { r.wrong[0] = off; second(r, 5) }, false},
		{"then cut off", func(r *trio, off time.Duration) { r.wrong[0] = off; second(r, 5); r.alone0(); second(r, 60) }, true},
		{"set when it was cut off", func(r *trio, off time.Duration) { r.alone0(); second(r, 60); r.wrong[0] = off; second(r, 5) }, true},
	} {
		for _, off := range []time.Duration{0, -time.Minute, -24 * time.Hour, 24 * time.Hour} {
			r := newTrio(t)
			r.collecting()
			r.retain, r.grace = time.Hour, 0
			for i := range r.peers {
				r.open(i)
			}
			r.elect()
			r.wrong = map[int]time.Duration{}
			var tasks []id.ID
			for range 2 {
				tasks = append(tasks, r.ids.Next(r.now.Wall-int64(30*time.Hour)))
				r.enqueue(0, tasks[len(tasks)-1], nil)
			}
			second(r, 5)
			how.do(r, off)
			r.done(0, tasks[0])
			r.send(0, &nornv1.CancelRequest{Ids: [][]byte{tasks[1].Bytes()}})
			r.settle()
			then := r.now.Wall
			latest := then + int64(eta)
			if how.vague {
				latest += max(0, int64(off))
			}
			for i, task := range tasks {
				if at := r.finished(0, task); at < then-int64(eta) || at > latest {
					t.Errorf("%s, %v ahead: task %d was finished %v after it was", how.name, off, i, time.Duration(at-then))
				}
			}
			clear(r.wrong)
			clear(r.cut)
			r.tell()
			second(r, 20)
			for i := range r.peers {
				for k, task := range tasks {
					if r.finished(i, task) == 0 {
						t.Errorf("%s, %v ahead: node %d does not have task %d any more after 20 s of an hour", how.name, off, i+1, k)
					}
				}
			}
			if off < 0 {
				r.pass(time.Hour)
				second(r, 20)
				if !r.every(collected(len(tasks))) {
					t.Errorf("%s, %v ahead: the tasks are kept for longer than an hour", how.name, off)
				}
			}
			r.audit()
		}
	}
}

// alone0 cuts the first node off.
func (r *trio) alone0() {
	for _, i := range []int{1, 2} {
		r.cut[[2]int{0, i}], r.cut[[2]int{i, 0}] = true, true
	}
	r.tell()
}
