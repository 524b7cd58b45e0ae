package worker

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client"
	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// refusing answers a write with an error of the task's.
func refusing(kind nornv1.ErrorKind) *fakenode.Answer {
	return &fakenode.Answer{Message: &nornv1.WriteReply{Results: []*nornv1.WriteResult{{Error: proto.Refused(kind, "no").Proto()}}}}
}

// override answers one kind of request instead of the queue.
func override[M any](q *queue, answer func(m M) *fakenode.Answer) {
	q.set(func(q *queue) {
		q.override = func(r fakenode.Request) *fakenode.Answer {
			if m, is := r.Message.(M); is {
				return answer(m)
			}
			return nil
		}
	})
}

// TestARenewalThatFailsOnceLosesNothing: only an answer that says so does.
func TestARenewalThatFailsOnceLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		q.set(func(q *queue) { q.refuse[id.ID{1}] = proto.Refused(nornv1.ErrorKind_ERROR_KIND_INTERNAL, "bug") })
		time.AfterFunc(15*time.Second, func() { q.set(func(q *queue) { delete(q.refuse, id.ID{1}) }) })
		r := start(t, q, Config{}, func(ctx context.Context, _ *Task) error {
			time.Sleep(time.Minute)
			return ctx.Err()
		})
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
	})
}

// TestAClaimIsRenewedUntilItsHandlerReturns: one whose time is over may still save what it has.
func TestAClaimIsRenewedUntilItsHandlerReturns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		r := start(t, q, Config{Timeout: 5 * time.Second, Grace: 2 * time.Minute}, func(ctx context.Context, task *Task) error {
			<-ctx.Done()
			time.Sleep(time.Minute)
			if err := task.Update(context.WithoutCancel(ctx), []byte("x")); err != nil {
				t.Error(err)
			}
			return ctx.Err()
		})
		if e := r.ended(); e.Kind != Failed {
			t.Errorf("got %+v", e)
		}
	})
}

// TestASuspendWhileANodeAnswersCounts: what is granted or renewed counts from before it was
// asked for, on all clocks.
func TestASuspendWhileANodeAnswersCounts(t *testing.T) {
	for _, method := range []nornv1.Method{nornv1.Method_METHOD_CLAIM, nornv1.Method_METHOD_RENEW} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t)
			q.add(30, 1)
			var ahead atomic.Int64
			q.set(func(q *queue) {
				q.override = func(r fakenode.Request) *fakenode.Answer {
					if r.Method == method {
						ahead.Store(int64(time.Minute))
					}
					return nil
				}
			})
			began := time.Now()
			r := start(t, q, Config{}, untilDone, func(w *Worker) {
				w.stamp = func() stamp { s := readClocks(); s.boot += time.Duration(ahead.Load()); return s }
			})
			if e := r.ended(); !errors.Is(e.Err, ErrClaimLost) || time.Since(began) > 12*time.Second {
				t.Errorf("%v: after %v got %+v", method, time.Since(began), e)
			}
		})
	}
}

// TestATaskFailsOnce: that its time is over is told while its handler hangs, and not again.
func TestATaskFailsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		free := make(chan struct{})
		r := start(t, q, Config{Timeout: time.Minute}, func(context.Context, *Task) error {
			<-free
			return errors.New("at last")
		})
		for _, want := range []EventKind{Stuck, Failed} {
			if e := r.ended(); e.Kind != want {
				t.Errorf("got %+v, want %s", e, want)
			}
		}
		close(free)
		synctest.Wait()
		time.Sleep(time.Second)
		if got := q.log(); !slices.Equal(got, []string{"fail 1@101"}) {
			t.Errorf("heard %v", got)
		}
	})
}

// TestUpdatesAndTheEnd: one that may be there comes before the end, whose number is given only
// where it is certain, and none comes after.
func TestUpdatesAndTheEnd(t *testing.T) {
	perhaps := &fakenode.Answer{Err: &proto.Error{Kind: nornv1.ErrorKind_ERROR_KIND_INTERNAL, Message: "bug", Effect: nornv1.Effect_EFFECT_UNKNOWN}}
	for name, tt := range map[string]struct {
		fails int // updates, after the first one
		heard []string
		auto  bool
	}{
		"sent again":  {1, []string{`update 0 "a" 1@101`, `update 1 "b" 1@101`, "complete 1@101"}, false},
		"not certain": {99, []string{`update 0 "a" 1@101`, "complete 1@101"}, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t)
			q.add(30, 1)
			n := 0
			override(q, func(m *nornv1.UpdateRequest) *fakenode.Answer {
				if n++; n > 1 && n <= 1+tt.fails {
					return perhaps
				}
				if m.GetOutput() != (string(m.GetData()) == "b") {
					t.Errorf("%s: %q is sent as output: %v", name, m.GetData(), m.GetOutput())
				}
				return nil
			})
			r := start(t, q, Config{}, func(ctx context.Context, task *Task) error {
				if err := task.Update(ctx, []byte("a")); err != nil {
					t.Error(err)
				}
				wantIs(t, task.Output(ctx, []byte("b")), client.ErrUnknown)
				return nil
			})
			if e := r.ended(); e.Kind != Completed || !slices.Equal(q.log(), tt.heard) || q.done[0].GetAutoSeq() != tt.auto || !tt.auto && q.done[0].GetSeq() != 2 {
				t.Errorf("%s: got %+v, heard %v, completed with %v", name, e, q.log(), q.done)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		override(q, func(*nornv1.CompleteRequest) *fakenode.Answer {
			time.Sleep(5 * time.Second)
			return nil
		})
		late := make(chan error, 1)
		r := start(t, q, Config{}, func(_ context.Context, task *Task) error {
			time.AfterFunc(time.Second, func() {
				ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
				defer cancel()
				late <- task.Update(ctx, []byte("late"))
			})
			return nil
		})
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
		if err := <-late; err == nil || !slices.Equal(q.log(), []string{"complete 1@101"}) {
			t.Errorf("an update after the end: %v, heard %v", err, q.log())
		}
	})
}

// TestARefusedEndIsTold: a claim that is over is lost, whatever was to be said of it.
func TestARefusedEndIsTold(t *testing.T) {
	lost := nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST
	for name, h := range map[string]Handler{
		"completed": func(context.Context, *Task) error { return nil },
		"failed":    func(context.Context, *Task) error { return errors.New("no") },
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t)
			q.add(30, 1)
			q.set(func(q *queue) {
				q.override = func(r fakenode.Request) *fakenode.Answer {
					if r.Method == nornv1.Method_METHOD_COMPLETE || r.Method == nornv1.Method_METHOD_FAIL {
						return refusing(lost)
					}
					return nil
				}
			})
			if e := start(t, q, Config{}, h).ended(); e.Kind != Lost || !errors.Is(e.Err, ErrClaimLost) {
				t.Errorf("%s: got %+v", name, e)
			}
		})
	}
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		override(q, func(*nornv1.ReleaseRequest) *fakenode.Answer { return refusing(lost) })
		r := start(t, q, Config{}, untilDone)
		<-r.events
		r.StopNow()
		if e := r.ended(); e.Kind != Lost {
			t.Errorf("released: got %+v", e)
		}
	})
}

// held is a job of a worker that does not run.
func held(t *testing.T, prepare ...func(*Worker)) (*Worker, *job) {
	w := New(nil, Config{Slots: 1, Queues: []string{"q"}})
	w.Handle("q", untilDone)
	for _, f := range prepare {
		f(w)
	}
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	now := w.stamp()
	c := claimOf("q")
	c.Deadline, c.Token = now.at.Add(time.Minute), 1
	w.room.take("q")
	return w, w.adopt(t.Context(), granted{c, now})
}

// TestNothingBeginsThatIsToStop, also where there is a slot.
func TestNothingBeginsThatIsToStop(t *testing.T) {
	w, j := held(t)
	if cause := w.slotFor(j); cause != nil {
		t.Fatal(cause)
	}
	<-w.slots
	j.end(ErrCancelled)
	for range 100 { // select takes any case that is ready
		wantIs(t, w.slotFor(j), ErrCancelled)
	}
	w, j = held(t)
	w.soft()
	for range 100 {
		wantIs(t, w.slotFor(j), ErrShutdown)
	}
}

// TestTheEndOfAClaim never comes nearer, is known on each clock, and leaves nothing behind.
func TestTheEndOfAClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead time.Duration
		w, j := held(t, func(w *Worker) {
			now := time.Now()
			w.stamp = func() stamp { return stamp{at: now.Add(ahead), wall: now, boot: 0} } // the others stand still
		})
		left := j.left()
		j.extend(w.stamp().at.Add(time.Second), w.stamp())
		if got := j.left(); got != left {
			t.Errorf("%v are left, after a later end was known %v", got, left)
		}
		j.expire() // its timer fires late, after a renewal
		if j.claim.Err() != nil {
			t.Error("a claim that was extended has ended")
		}
		ahead = 2 * time.Minute
		if j.left() > 0 || j.claim.Err() == nil {
			t.Error("the claim outlives its time")
		}
		w.drop(j)
		if len(w.jobs)+len(w.byClaim)+len(w.byTask) != 0 {
			t.Errorf("%d, %d and %d are remembered", len(w.jobs), len(w.byClaim), len(w.byTask))
		}
	})
}

// TestOfTwoClaimsTheOlderEnds, in whatever order they come.
func TestOfTwoClaimsTheOlderEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		r := start(t, q, Config{Slots: 2}, untilDone)
		for _, token := range []uint64{202, 201} {
			q.set(func(q *queue) {
				q.ready = append(q.ready, &nornv1.Grant{Task: &nornv1.Task{Id: id.ID{1}.String(), Queue: "q"}, Token: token, LeaseSeconds: 30})
				q.change()
			})
			synctest.Wait()
		}
		if e := r.ended(); !errors.Is(e.Err, ErrClaimLost) || e.Task.Token() != 201 {
			t.Errorf("got %+v", e)
		}
	})
}

// TestTheLockOutlivesRun while a handler runs on: nobody else may take it for over.
func TestTheLockOutlivesRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, path := newQueue(t), filepath.Join(t.TempDir(), "lock")
		q.add(30, 1)
		free := make(chan struct{})
		r := start(t, q, Config{Pull: true, LockFile: path}, func(context.Context, *Task) error {
			<-free
			return nil
		})
		<-r.events
		r.StopNow()
		wantIs(t, <-r.ran, ErrAbandoned)
		if l, err := openLock(path); !errors.Is(err, ErrLocked) {
			t.Errorf("a lock %v, %v", l, err)
		}
		close(free)
		r.locked.close()
	})
}

// TestATaskOfAnotherQueueIsGivenBack: nobody here can run it.
func TestATaskOfAnotherQueueIsGivenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		override(q, func(m *nornv1.ClaimRequest) *fakenode.Answer {
			m.Queues = append(m.Queues, "other")
			return nil
		})
		q.add(30, 1)
		q.set(func(q *queue) { q.ready[0].Task.Queue = "other" })
		start(t, q, Config{}, untilDone)
		synctest.Wait()
		if got := q.log(); !slices.Equal(got, []string{"release 1@101"}) {
			t.Errorf("heard %v", got)
		}
	})
}

// TestWhatWasGrantedRunsThoughTheNextAnswerFails: of several questions each stands for itself.
func TestWhatWasGrantedRunsThoughTheNextAnswerFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		override(q, func(m *nornv1.ClaimRequest) *fakenode.Answer {
			if strings.Join(m.GetQueues(), "") == "b" {
				return &fakenode.Answer{Err: &proto.Error{Kind: nornv1.ErrorKind_ERROR_KIND_INTERNAL, Message: "bug"}}
			}
			return nil
		})
		q.backlog("a", 1, 1)
		r := start(t, q, Config{Queues: []string{"a", "b"}, Slots: 2, PerQueue: map[string]QueueConfig{"a": {Slots: 1}}}, nil, func(w *Worker) {
			w.Handle("*", func(context.Context, *Task) error { return nil })
		})
		if e := r.ended(); e.Kind != Completed || e.Task.Queue() != "a" {
			t.Errorf("got %+v", e)
		}
	})
}

// TestAnAlarmMayStopTheWorker: whoever hears of a double start, by the log, may want that
// nothing goes on. No lock is held then.
func TestAnAlarmMayStopTheWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		grant := func(token uint64) {
			q.set(func(q *queue) {
				q.ready = append(q.ready, &nornv1.Grant{Task: &nornv1.Task{Id: id.ID{1}.String(), Queue: "q"}, Token: token, LeaseSeconds: 30})
				q.change()
			})
		}
		alarm := &hook{heard: make(chan struct{})}
		r := start(t, q, Config{Slots: 2, Logger: slog.New(alarm)}, untilDone, func(w *Worker) { alarm.then = w.StopNow })
		grant(201)
		synctest.Wait()
		grant(202)
		<-alarm.heard
		if err := <-r.ran; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// hook is a log that does something about an error.
type hook struct {
	slog.Handler
	then  func()
	heard chan struct{}
}

func (h *hook) Enabled(context.Context, slog.Level) bool { return true }

func (h *hook) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelError {
		h.then()
		close(h.heard)
	}
	return nil
}
