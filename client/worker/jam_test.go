package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/clock"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// TestWhatWaitsBehindHungHandlersIsGivenBack, and nothing is taken, until one has returned.
func TestWhatWaitsBehindHungHandlersIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1, 2)
		free := make(chan struct{})
		r := start(t, q, Config{Pull: true, Timeout: time.Minute, Prefetch: 2}, func(_ context.Context, task *Task) error {
			if task.Token() == 101 {
				<-free
			}
			return nil
		})
		got := map[EventKind]uint64{}
		for range 3 {
			e := r.ended()
			got[e.Kind] = e.Task.Token()
		}
		if got[Stuck] != 101 || got[Failed] != 101 || got[Released] != 102 {
			t.Errorf("got %v", got)
		}
		time.Sleep(30 * time.Second) // the claim that is waited with
		synctest.Wait()
		q.add(30, 3)
		time.Sleep(time.Hour)
		if n := len(q.log()); n != 2 {
			t.Errorf("heard %v", q.log())
		}
		q.set(func(q *queue) {
			if len(q.ready) != 1 {
				t.Error("a task was taken that nobody can run")
			}
		})
		close(free)
		for _, token := range []uint64{101, 103} {
			if e := r.ended(); e.Kind != Completed || e.Task.Token() != token {
				t.Errorf("got %+v", e)
			}
		}
	})
}

// TestAHandlerThatCameBackIsNotHung, also while its failure is not acknowledged; that is
// reported before Run ends.
func TestAHandlerThatCameBackIsNotHung(t *testing.T) {
	for name, after := range map[string]error{"has done it": nil, "has failed": errors.New("at last")} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				q.add(30, 1)
				override(q, func(*nornv1.FailRequest) *fakenode.Answer { return refusing(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE) })
				free := make(chan struct{})
				r := start(t, q, Config{Pull: true, Timeout: time.Minute}, func(_ context.Context, task *Task) error {
					if task.Token() == 101 {
						<-free
						return after
					}
					return nil
				})
				time.Sleep(2 * time.Minute)
				close(free)
				q.add(30, 2)
				back := time.Now()
				for e := r.ended(); e.Kind != Completed || e.Task.Token() != 102; e = r.ended() {
				}
				if took := time.Since(back); took > 5*time.Second {
					t.Errorf("the next task is done %v after its return", took)
				}
				go r.Stop(t.Context())
				time.Sleep(time.Minute)
				q.set(func(q *queue) { q.override = nil })
				<-r.finished
				if all := q.log(); !slices.Contains(all, "fail 1@101") {
					t.Errorf("heard %v", all)
				}
			})
		})
	}
}

// TestASlotThatHangsIsNotOneForOthers: what its session takes has to fit in the others.
func TestASlotThatHangsIsNotOneForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{Slots: 2}, still)
		c := p.push(1, 30*time.Second)
		p.taken(1)
		p.stuck(c, true)
		p.over(c) // its failure was told
		d := p.push(2, 30*time.Second)
		if got := p.taken(1); len(got) != 1 {
			t.Fatal("the other slot is free")
		}
		p.push(3, 30*time.Second)
		if r := p.refused(); r != session.RefusedFull || len(p.starts) != 0 {
			t.Errorf("a third task is refused with %v, %d wait", r, len(p.starts))
		}
		p.stuck(d, true)
		p.over(d)
		p.push(4, 30*time.Second)
		if r := p.refused(); r != session.RefusedFull || p.beat() == nil || len(p.beat().Capacity.Queues) != 0 {
			t.Errorf("a fourth task is refused with %v, the node was told of %+v", r, p.beat())
		}
		p.use(func(*session.Worker, clock.Time) { _ = p.rebirth() }) // also by another session
		p.use(func(m *session.Worker, now clock.Time) { m.Turn(now) })
		p.look()
		if len(p.beat().Capacity.Queues) != 0 {
			t.Errorf("the next session says %+v", p.beat())
		}
		p.stuck(c, false)
		p.look()
		if b := p.beat(); b.Capacity.Slots != 1 || len(b.Capacity.Queues) != 1 {
			t.Errorf("with one slot again: %+v", b)
		}
	})
}

// TestWhatASessionHasQueuedIsGivenBack once every slot hangs.
func TestWhatASessionHasQueuedIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{Slots: 1, Prefetch: 1}, still)
		c, d := p.push(1, 30*time.Second), p.push(2, 30*time.Second)
		p.taken(1)
		p.stuck(c, true)
		if e := p.end(d); e == nil || e.Kind != session.EndReleased {
			t.Errorf("of a task that waits: %+v", e)
		}
	})
}

// refused is why the newest push was refused.
func (p *pushing) refused() (r session.Refusal) {
	p.look()
	for _, b := range p.sent {
		if reply, is := b.(*session.RunReply); is {
			r = reply.Refused
		}
	}
	return r
}

// beat is the newest heartbeat.
func (p *pushing) beat() (newest *session.Heartbeat) {
	for _, b := range p.sent {
		if h, is := b.(*session.Heartbeat); is {
			newest = h
		}
	}
	return newest
}
