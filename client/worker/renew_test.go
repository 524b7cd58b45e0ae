package worker

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// TestOneClaimThatCannotBeRenewedTakesNoOtherWithIt: a partition that has no leader for
// minutes, and another that has one, whatever the Grace.
func TestOneClaimThatCannotBeRenewedTakesNoOtherWithIt(t *testing.T) {
	for _, grace := range []time.Duration{0, 10 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t)
			q.add(30, 2)
			time.AfterFunc(8900*time.Millisecond, func() { q.add(30, 1) }) // right before a renewal
			q.set(func(q *queue) {
				q.refuse[id.ID{1}] = proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "no leader")
			})
			r := start(t, q, Config{Slots: 2, Grace: grace}, func(ctx context.Context, task *Task) error {
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Minute):
				}
				return context.Cause(ctx)
			})
			for range 2 {
				e := r.ended()
				if want := map[id.ID]EventKind{{1}: Lost, {2}: Completed}[e.Task.ID()]; e.Kind != want {
					t.Errorf("grace %v: task %v: %s (%v), want %s", grace, e.Task.ID(), e.Kind, e.Err, want)
				}
			}
		})
	}
}

// TestARenewalIsTriedAgainAtOnce: an outage that ends in time for one more attempt costs
// nothing, whenever it begins.
func TestARenewalIsTriedAgainAtOnce(t *testing.T) {
	for begins := 2 * time.Second; begins < 14*time.Second; begins += time.Second {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t)
			q.add(30, 1)
			r := start(t, q, Config{Grace: 10 * time.Second}, func(ctx context.Context, task *Task) error {
				time.Sleep(begins)
				q.node.Stop()
				time.Sleep(8 * time.Second)
				q.node.Start()
				time.Sleep(time.Minute)
				return context.Cause(ctx)
			})
			if e := r.ended(); e.Kind != Completed {
				t.Errorf("an outage of 8 s that begins after %v: %s (%v)", begins, e.Kind, e.Err)
			}
		})
	}
}

// TestAReportThatTakesLongKeepsNoTask: while the copies of one partition are away, so that
// what came of a task is not acknowledged, tasks of others run. Of as many as there is room
// for, and all are reported before Run ends.
func TestAReportThatTakesLongKeepsNoTask(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1, 2, 3)
		override(q, func(m *nornv1.CompleteRequest) *fakenode.Answer {
			if m.GetCompletions()[0].GetId()[0] != 3 {
				return refusing(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE)
			}
			return nil
		})
		began := time.Now()
		r := start(t, q, Config{}, func(context.Context, *Task) error { return nil })
		var ran []id.ID
		for len(ran) < 2 {
			if e := <-r.events; e.Kind == Started {
				ran = append(ran, e.Task.ID())
			}
		}
		if took := time.Since(began); took > 2*slowReport || ran[1] != (id.ID{2}) {
			t.Errorf("%v began after %v", ran, took)
		}
		time.Sleep(time.Minute)
		if all := q.log(); len(all) != 0 { // task 3 is for who has room
			t.Errorf("heard %v", all)
		}
		go r.Stop(t.Context())
		time.Sleep(time.Minute)
		q.set(func(q *queue) { q.override = nil })
		<-r.finished
		if all := q.log(); len(all) != 2 {
			t.Errorf("heard %v", all)
		}
	})
}

// TestAReportThatTakesLongKeepsNoTaskOfASession: its machine has room for a task while ends
// are not acknowledged, so the worker has too, however many there are.
func TestAReportThatTakesLongKeepsNoTaskOfASession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{Slots: 1}, still)
		p.w.Handle("q", func(context.Context, *Task) error { return nil })
		var running sync.WaitGroup
		running.Go(p.w.dispatch)
		running.Go(func() {
			_ = p.w.fetch(t.Context())
			close(p.w.queue)
		})
		var all []client.Ref
		for n := byte(1); n <= 4; n++ {
			c := p.push(n, 30*time.Second)
			all = append(all, c)
			if e := p.end(c); e == nil || e.Kind != session.EndCompleted {
				t.Errorf("task %d: its node was told %+v", n, e)
			}
			time.Sleep(2 * slowReport)
		}
		p.w.soft()
		for _, c := range all {
			p.say(&session.StatusAck{Claim: claimOfRef(c)})
		}
		if left := p.w.drain(); left != 0 {
			t.Errorf("%d are left", left)
		}
		running.Wait()
	})
}
