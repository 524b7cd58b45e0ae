package worker

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
	"github.com/norn-dev/norn/session"
)

// TestAnUpdateStaysInDoubt: that a later call surely sent nothing says nothing of the
// earlier one, whose number must not go to other data.
func TestAnUpdateStaysInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		var sent atomic.Int32
		override(q, func(*nornv1.UpdateRequest) *fakenode.Answer {
			if sent.Add(1) == 1 {
				return &fakenode.Answer{Lose: true}
			}
			return nil
		})
		r := start(t, q, Config{}, func(ctx context.Context, task *Task) error {
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			wantIs(t, task.Update(short, []byte("lost")), client.ErrUnknown)
			for range 10 { // of two things that are ready select takes any
				if err := task.Update(short, []byte("not sent")); err == nil {
					t.Error("an update after the end of its context was sent")
				}
			}
			return task.Update(ctx, []byte("next"))
		})
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
		want := []string{`update 0 "lost" 1@101`, `update 1 "next" 1@101`, "complete 1@101"}
		if !slices.Equal(q.log(), want) {
			t.Errorf("heard %v, want %v", q.log(), want)
		}
	})
}

// TestWhatWasNotSentIsNotUnknown: an update that waits for one in doubt is neither there nor
// sent again, so whoever called has to.
func TestWhatWasNotSentIsNotUnknown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		var sent atomic.Int32
		override(q, func(*nornv1.UpdateRequest) *fakenode.Answer {
			if sent.Add(1) <= 2 {
				return &fakenode.Answer{Lose: true}
			}
			return nil
		})
		r := start(t, q, Config{}, func(ctx context.Context, task *Task) error {
			update := func(data string) error {
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				return task.Update(short, []byte(data))
			}
			wantIs(t, update("first"), client.ErrUnknown)
			err := update("second")
			wantIs(t, err, client.ErrDeadline)
			if errors.Is(err, client.ErrUnknown) {
				t.Errorf("an update that was not sent: %v", err)
			}
			return update("second")
		})
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
		want := []string{`update 0 "first" 1@101`, `update 1 "second" 1@101`, "complete 1@101"}
		if !slices.Equal(q.log(), want) {
			t.Errorf("heard %v, want %v", q.log(), want)
		}
	})
}

// TestAnUpdateAfterTheEndIsRefused: whoever calls too late, from a goroutine that the handler
// has left behind, must not wait for ever.
func TestAnUpdateAfterTheEndIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		late := make(chan error, 1)
		r := start(t, q, Config{}, func(_ context.Context, task *Task) error {
			go func() {
				time.Sleep(time.Minute)
				late <- task.Update(context.Background(), []byte("late"))
			}()
			return nil
		})
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
		select {
		case err := <-late:
			wantIs(t, err, ErrClaimLost)
			if !slices.Equal(q.log(), []string{"complete 1@101"}) {
				t.Errorf("heard %v", q.log())
			}
		case <-time.After(time.Hour):
			t.Error("an update after the end waits for ever")
		}
	})
}

// TestAnUpdateInDoubtKeepsNoSlot of a session's worker: while it is not known whether it is
// there, the end goes on its way without its number.
func TestAnUpdateInDoubtKeepsNoSlot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPushing(t, Config{Slots: 1}, still)
		var sent atomic.Int32
		override(p.q, func(*nornv1.UpdateRequest) *fakenode.Answer {
			if sent.Add(1) == 1 {
				return &fakenode.Answer{Lose: true}
			}
			return refusing(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE)
		})
		c := p.push(1, 30*time.Second)
		p.w.room.take("q")
		j := p.w.adopt(t.Context(), p.taken(1)[0])
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wantIs(t, j.task.Update(short, []byte("in doubt")), client.ErrUnknown)
		done := make(chan struct{})
		go func() {
			defer close(done)
			p.w.complete(j, 0)
		}()
		time.Sleep(2 * slowReport)
		if e := p.end(c); e == nil || e.Kind != session.EndCompleted || !e.AutoSeq {
			t.Errorf("after %v its node was told %+v", 2*slowReport, e)
		}
		p.say(&session.StatusAck{Claim: claimOfRef(c)})
		<-done
		p.w.drop(j)
	})
}
