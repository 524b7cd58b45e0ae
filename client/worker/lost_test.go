package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
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

var invalidLease = proto.Invalid("lease")

// untilDone waits for the end of its context and gives its cause.
func untilDone(ctx context.Context, _ *Task) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestRenewalKeepsTheClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1, 2, 3)
		r := start(t, q, Config{Slots: 3}, func(ctx context.Context, _ *Task) error {
			time.Sleep(10 * time.Minute)
			return ctx.Err()
		})
		for range 3 {
			if e := r.ended(); e.Kind != Completed {
				t.Errorf("got %+v", e)
			}
		}
		if n := len(q.renewed); n < 60 || n > 67 || slices.Min(q.renewed[:59]) != 3 {
			t.Errorf("%d renewals, of %v claims", n, q.renewed)
		}
	})
}

// What the server says of the task tells why the claim is lost.
func TestACancelledTaskEndsTheContextAsCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		q.set(func(q *queue) {
			q.refuse[id.ID{1}] = proto.Refused(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, "cancelled")
			q.refused = nornv1.State_STATE_CANCELLED
		})
		r := start(t, q, Config{}, untilDone)
		if e := r.ended(); e.Kind != Lost || !errors.Is(e.Err, ErrCancelled) {
			t.Errorf("got %+v", e)
		}
	})
}

func TestRefusedRenewalEndsTheContext(t *testing.T) {
	for kind, want := range map[nornv1.ErrorKind]error{
		nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST: ErrClaimLost,
		nornv1.ErrorKind_ERROR_KIND_NOT_FOUND:  ErrClaimLost,
		nornv1.ErrorKind_ERROR_KIND_CANCELLED:  ErrCancelled,
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newQueue(t)
			q.add(30, 1)
			q.set(func(q *queue) { q.refuse[id.ID{1}] = proto.Refused(kind, "no") })
			r := start(t, q, Config{}, untilDone)
			began := time.Now()
			e := r.ended()
			if e.Kind != Lost || !errors.Is(e.Err, want) || time.Since(began) > 11*time.Second {
				t.Errorf("%v: got %+v after %v", kind, e, time.Since(began))
			}
			if len(q.log()) != 0 {
				t.Errorf("heard %v", q.log())
			}
		})
	}
}

// The network swallows everything: the context ends before the deadline.
func TestSilenceEndsTheContextInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		sent := time.Now()
		r := start(t, q, Config{Grace: 2 * time.Second}, untilDone)
		if e := <-r.events; e.Kind != Started {
			t.Fatalf("got %+v", e)
		}
		q.hush()
		e := r.ended()
		took := time.Since(sent)
		if e.Kind != Lost || !errors.Is(e.Err, ErrClaimLost) {
			t.Errorf("got %+v", e)
		}
		if want := 28*time.Second - 30*time.Millisecond - 1; took != want {
			t.Errorf("the context ended after %v, want %v", took, want)
		}
	})
}

// What is done is reported, even if the claim was lost on the way, and however
// long the server is away.
func TestLateCompletion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		r := start(t, q, Config{}, func(ctx context.Context, _ *Task) error {
			<-ctx.Done()
			return nil
		})
		<-r.events
		q.node.Stop()
		time.AfterFunc(8*time.Minute, q.node.Start)
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
		if !slices.Equal(q.log(), []string{"complete 1@101"}) {
			t.Errorf("heard %v", q.log())
		}
	})
}

func TestRestartedServerIsRenewedAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		r := start(t, q, Config{}, func(ctx context.Context, _ *Task) error {
			time.Sleep(2 * time.Minute)
			return ctx.Err()
		})
		time.AfterFunc(15*time.Second, q.node.Stop)
		time.AfterFunc(25*time.Second, q.node.Start)
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
	})
}

// A suspended machine: only the boot clock has gone on. Or somebody has set the
// wall clock: which one is wrong nobody knows.
func TestTheEarliestClockCounts(t *testing.T) {
	for name, move := range map[string]func(s *stamp, d time.Duration){
		"boot": func(s *stamp, d time.Duration) { s.boot += d },
		"wall": func(s *stamp, d time.Duration) { s.wall = s.wall.Add(d) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(t)
				q.add(30, 1)
				var ahead atomic.Int64
				begin, causes := time.Now(), make(chan error, 1)
				r := start(t, q, Config{}, func(ctx context.Context, _ *Task) error {
					ahead.Store(int64(time.Minute))
					<-ctx.Done()
					causes <- context.Cause(ctx)
					return context.Cause(ctx)
				}, func(w *Worker) {
					w.stamp = func() stamp { s := readClocks(); move(&s, time.Duration(ahead.Load())); return s }
				})
				wantIs(t, <-causes, ErrClaimLost)
				if took := time.Since(begin); took > 2*time.Second {
					t.Errorf("noticed after %v", took)
				}
				if e := r.ended(); e.Kind != Lost {
					t.Errorf("got %+v", e)
				}
			})
		})
	}
}

// An update that may have arrived keeps its number, and comes first.
func TestUpdatesStayInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.add(30, 1)
		q.set(func(q *queue) {
			q.override = func(r fakenode.Request) *fakenode.Answer {
				if m, ok := r.Message.(*nornv1.UpdateRequest); ok {
					switch string(m.GetData()) {
					case "lost":
						if len(q.node.Seen(nornv1.Method_METHOD_UPDATE)) == 2 {
							return &fakenode.Answer{Lose: true}
						}
					case "bad":
						return &fakenode.Answer{Err: invalidLease}
					}
				}
				return nil
			}
		})
		r := start(t, q, Config{}, func(ctx context.Context, task *Task) error {
			if err := task.Update(ctx, []byte("first")); err != nil {
				t.Error(err)
			}
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			wantIs(t, task.Update(short, []byte("lost")), client.ErrUnknown)
			if err := task.Update(ctx, []byte("next")); err != nil {
				t.Error(err)
			}
			wantIs(t, task.Update(ctx, []byte("bad")), client.ErrInvalid)
			return task.Update(ctx, []byte("last"))
		})
		if e := r.ended(); e.Kind != Completed {
			t.Errorf("got %+v", e)
		}
		want := []string{`update 0 "first" 1@101`, `update 1 "lost" 1@101`, `update 2 "next" 1@101`, `update 3 "last" 1@101`, "complete 1@101"}
		if !slices.Equal(q.log(), want) || q.done[0].GetSeq() != 4 {
			t.Errorf("heard %v, completed with %v", q.log(), q.done)
		}
	})
}

// An answer with grants that gets lost with its connection: the next claim says
// so, and the task runs at once.
func TestALostGrantRunsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue(t)
		q.set(func(q *queue) {
			q.override = func(r fakenode.Request) *fakenode.Answer {
				if m, ok := r.Message.(*nornv1.ClaimRequest); ok && len(q.node.Seen(nornv1.Method_METHOD_CLAIM)) == 1 {
					q.claim(m)
					return &fakenode.Answer{Close: true}
				}
				return nil
			}
		})
		r := start(t, q, Config{}, func(context.Context, *Task) error { return nil })
		time.Sleep(time.Second)
		granted := time.Now()
		q.add(30, 1)
		if e := r.ended(); e.Kind != Completed || time.Since(granted) > time.Second {
			t.Errorf("got %+v after %v", e, time.Since(granted))
		}
	})
}

// One message renews all claims that are held, however many.
func TestOneRenewalForAThousandClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		q := newQueue(t)
		q.set(func(q *queue) {
			q.override = func(r fakenode.Request) *fakenode.Answer {
				if r.Method == nornv1.Method_METHOD_HELLO { // its limits are low
					return &fakenode.Answer{Message: &nornv1.HelloReply{
						Version: proto.MaxVersion, Limits: &nornv1.Limits{MaxFrameBytes: proto.MaxFrame, MaxBatchTasks: proto.MaxBatchTasks, MaxInFlight: 4096},
						Placement: fakenode.Placement(),
					}}
				}
				return nil
			}
		})
		q.backlog("q", 1, n)
		r := start(t, q, Config{Slots: n}, func(ctx context.Context, _ *Task) error {
			time.Sleep(25 * time.Second)
			return ctx.Err()
		})
		for range n {
			if e := r.ended(); e.Kind != Completed {
				t.Fatalf("got %+v", e)
			}
		}
		if err := r.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		if len(q.renewed) < 2 || len(q.renewed) > 3 || slices.Min(q.renewed[:2]) != n {
			t.Errorf("renewals of %v claims in 25 s", q.renewed)
		}
		if got := q.node.Seen(nornv1.Method_METHOD_CLAIM); len(got) > 3 {
			t.Errorf("%d claims", len(got))
		}
	})
}

// TestADoubleStartIsNotHidden: a task that is granted while another claim on it
// is valid here, which no server may do, raises an alarm, and the older claim
// ends; one that is granted anew when that was over does not.
func TestADoubleStartIsNotHidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		q := newQueue(t)
		again := func(token uint64) {
			q.set(func(q *queue) {
				q.ready = append(q.ready, &nornv1.Grant{Task: &nornv1.Task{Id: id.ID{1}.String(), Queue: "q"}, Token: token, LeaseSeconds: 30})
				q.change()
			})
		}
		r := start(t, q, Config{Slots: 2, Logger: slog.New(slog.NewTextHandler(&log, nil))}, func(ctx context.Context, task *Task) error {
			if task.Token() == 301 { // the last one, alone
				return nil
			}
			return untilDone(ctx, task)
		})
		again(201)
		synctest.Wait()
		again(202)
		if e := r.ended(); e.Kind != Lost || !errors.Is(e.Err, ErrClaimLost) || e.Task.Token() != 201 {
			t.Errorf("of two claims on one task %+v ends, want the older one lost", e)
		}
		if n := strings.Count(log.String(), "started twice"); n != 1 {
			t.Errorf("%d alarms, want one: %s", n, &log)
		}
		q.set(func(q *queue) {
			q.refuse[id.ID{1}] = proto.Refused(nornv1.ErrorKind_ERROR_KIND_CLAIM_LOST, "over")
		})
		if e := r.ended(); e.Kind != Lost {
			t.Errorf("got %+v", e)
		}
		again(301)
		if e := r.ended(); e.Kind != Completed || strings.Count(log.String(), "started twice") != 1 {
			t.Errorf("a task that was lost and comes back: %+v, %s", e, &log)
		}
	})
}
