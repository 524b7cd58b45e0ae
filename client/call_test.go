package client

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

const enqueueMethod = nornv1.Method_METHOD_ENQUEUE

// sentIDs are the IDs that a node was asked to enqueue, in order.
func sentIDs(n *fakenode.Node) []id.ID {
	var out []id.ID
	for _, r := range n.Seen(enqueueMethod) {
		for _, s := range r.Message.(*nornv1.EnqueueRequest).GetTasks() {
			out = append(out, id.ID(s.GetId()))
		}
	}
	return out
}

func wantIs(t *testing.T, err error, want ...error) {
	t.Helper()
	for _, w := range want {
		if !errors.Is(err, w) {
			t.Errorf("error %v is not %v", err, w)
		}
	}
}

func wantIsNot(t *testing.T, err error, not ...error) {
	t.Helper()
	for _, w := range not {
		if errors.Is(err, w) {
			t.Errorf("error %v is %v", err, w)
		}
	}
}

// A lost answer is asked for again, with the same ID.
func TestEnqueueAgainAfterLostConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(enqueueMethod, steps(hangUp, hangUp, accept)))
		c := open(t, n)
		r, err := c.Enqueue(t.Context(), Task{Queue: "q", Payload: []byte("x")})
		if err != nil {
			t.Fatal(err)
		}
		ids := sentIDs(n)
		if len(ids) != 3 || ids[0] != ids[1] || ids[1] != ids[2] || r.GetId() != ids[0].String() || ids[0].IsZero() {
			t.Errorf("sent %v, receipt for %s", ids, r.GetId())
		}
		if r.GetPartition() != 7 || r.GetDurableCopies() != 1 {
			t.Errorf("receipt %v", r)
		}
	})
}

func TestFailOverWhenANodeDies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b := fakenode.New(t, only(enqueueMethod, accept)), fakenode.New(t, only(enqueueMethod, accept))
		c := openAll(t, map[string]*fakenode.Node{"a:1": a, "b:1": b}, []string{"a:1,b:1"})
		for range 3 {
			if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
		}
		if len(sentIDs(a)) != 3 || len(sentIDs(b)) != 0 {
			t.Fatalf("%d to the first address, %d to the second", len(sentIDs(a)), len(sentIDs(b)))
		}
		a.Stop()
		began := time.Now()
		for range 3 {
			if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
		}
		if len(sentIDs(b)) != 3 {
			t.Errorf("%d to the second address", len(sentIDs(b)))
		}
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("failing over took %v", took)
		}
	})
}

// A frozen node closes nothing. Its silence does.
func TestFailOverWhenANodeFreezes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		frozen := false
		a := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
			switch {
			case frozen:
				return fakenode.Answer{Lose: true}
			case r.Method == enqueueMethod:
				return accept(r)
			}
			return fakenode.Answer{}
		})
		b := fakenode.New(t, only(enqueueMethod, accept))
		c := openAll(t, map[string]*fakenode.Node{"a:1": a, "b:1": b}, []string{"a:1", "b:1"})
		if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		frozen = true
		began := time.Now()
		if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took > 4*time.Second { // issue 5: a frozen node
			t.Errorf("failing over took %v", took)
		}
		if got := sentIDs(b); len(got) != 1 || got[0] != sentIDs(a)[1] {
			t.Errorf("the second node got %v", got)
		}
	})
}

func TestServerRestartOnOneAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(enqueueMethod, accept))
		c := open(t, n)
		if err := c.Connect(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.Stop()
		time.AfterFunc(5*time.Second, n.Start)
		if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
		hellos := n.Seen(nornv1.Method_METHOD_HELLO)
		if got := hellos[len(hellos)-1].Message.(*nornv1.Hello).GetClusterId(); got != c.Info().ClusterID {
			t.Errorf("the second hello expects cluster %q", got)
		}
	})
}

func TestOutcomes(t *testing.T) {
	unavailable := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "no leader")
	noQuorum := *unavailable
	noQuorum.Guarantee = "two durable copies"
	half := noQuorum
	half.Effect = nornv1.Effect_EFFECT_UNKNOWN
	lasting := noQuorum
	lasting.Lasting = true
	patient := *proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "full")
	patient.RetryAfter = time.Minute
	for _, tt := range []struct {
		name     string
		script   fakenode.Script
		is, not  []error
		atLeast  int           // attempts
		sooner   time.Duration // than this
		contains string
	}{
		{"lost answer", lose, []error{ErrUnknown, ErrDeadline, context.DeadlineExceeded}, []error{ErrUnavailable}, 1, time.Hour, "may have happened"},
		{"hung up", hangUp, []error{ErrUnknown, ErrDeadline, ErrUnavailable}, nil, 10, time.Hour, "may have happened"},
		{"unavailable", refuse(unavailable), []error{ErrUnavailable}, []error{ErrUnknown, ErrNoQuorum}, 10, time.Hour, "no leader"},
		{"no quorum", refuse(&noQuorum), []error{ErrUnavailable, ErrNoQuorum}, []error{ErrUnknown}, 10, time.Hour, "two durable copies"},
		{"perhaps", refuse(&half), []error{ErrUnavailable, ErrNoQuorum, ErrUnknown}, nil, 10, time.Hour, "may have happened"},
		{"no quorum for long", refuse(&lasting), []error{ErrUnavailable, ErrNoQuorum}, []error{ErrUnknown}, 1, time.Second, "two durable copies"},
		{"unknown once", steps(hangUp, refuse(unavailable)), []error{ErrUnavailable, ErrUnknown}, nil, 10, time.Hour, ""},
		{"overloaded for longer than there is", refuse(&patient), []error{ErrOverloaded}, []error{ErrUnknown}, 1, time.Second, "full"},
		{"invalid", refuse(proto.Invalid("bad")), []error{ErrInvalid}, []error{ErrUnknown, ErrUnavailable}, 1, time.Second, "bad"},
		{"lost, then invalid", steps(hangUp, refuse(proto.Invalid("bad"))), []error{ErrInvalid}, []error{ErrUnknown}, 2, time.Second, "bad"},
		{"disk full", refuse(proto.Refused(nornv1.ErrorKind_ERROR_KIND_DISK_FULL, "df")), []error{ErrDiskFull}, []error{ErrUnknown}, 1, time.Second, "df"},
		{"internal", refuse(&proto.Error{Kind: nornv1.ErrorKind_ERROR_KIND_INTERNAL, Message: "bug"}), []error{ErrInternal, ErrUnknown}, nil, 1, time.Second, "bug"},
		{"kind of the future", refuse(proto.Refused(99, "new")), []error{ErrInternal}, []error{ErrUnknown}, 1, time.Second, "new"},
		{"wrong number of results", func(fakenode.Request) fakenode.Answer {
			return fakenode.Answer{Message: &nornv1.EnqueueReply{}}
		}, []error{ErrInternal, ErrUnknown}, nil, 1, time.Second, "0 results"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				n := fakenode.New(t, only(enqueueMethod, tt.script))
				c := open(t, n)
				if err := c.Connect(t.Context()); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				began := time.Now()
				_, err := c.Enqueue(ctx, Task{Queue: "q"})
				if took := time.Since(began); took > tt.sooner || took > 20*time.Second {
					t.Errorf("took %v", took)
				}
				wantIs(t, err, tt.is...)
				wantIsNot(t, err, append(tt.not, ErrNotFound, ErrCancelled)...)
				if got := len(n.Seen(enqueueMethod)); got < tt.atLeast || tt.atLeast < 3 && got != tt.atLeast {
					t.Errorf("sent %d times", got)
				}
				if err != nil && (!strings.Contains(err.Error(), tt.contains) || strings.Contains(err.Error(), "\n")) {
					t.Errorf("text %q", err)
				}
				var e *Error
				if !errors.As(err, &e) || e.Op != "enqueue" {
					t.Errorf("%v is not an *Error of an enqueue", err)
				}
			})
		})
	}
}

// TestAFullNodeIsPassedOver: another one may have room, and is asked first from
// then on. When all are full, each was asked once.
func TestAFullNodeIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		df := refuse(proto.Refused(nornv1.ErrorKind_ERROR_KIND_DISK_FULL, "df"))
		a, b, d := fakenode.New(t, only(enqueueMethod, df)), fakenode.New(t, only(enqueueMethod, steps(accept, accept, df))), fakenode.New(t, only(enqueueMethod, df))
		c := openAll(t, map[string]*fakenode.Node{"a:1": a, "d:1": d, "b:1": b}, []string{"a:1", "d:1", "b:1"})
		for range 2 {
			if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
		}
		seen := func() [3]int {
			return [3]int{len(a.Seen(enqueueMethod)), len(d.Seen(enqueueMethod)), len(b.Seen(enqueueMethod))}
		}
		before := seen() // d came first, or was not needed
		if got := before; got != [3]int{1, got[1], 2} || got[1] > 1 {
			t.Errorf("asked %v times", got)
		}
		began := time.Now()
		_, err := c.Enqueue(t.Context(), Task{Queue: "q"})
		wantIs(t, err, ErrDiskFull)
		if took, got := time.Since(began), seen(); took > time.Second || got != [3]int{2, before[1] + 1, 3} {
			t.Errorf("asked %v times, for %v", got, took)
		}
	})
}

// TestClientsOfANodeThatDiesGoDifferentWays: not all to the next one, which would have
// them all in the end.
func TestClientsOfANodeThatDiesGoDifferentWays(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		full := refuse(proto.Refused(nornv1.ErrorKind_ERROR_KIND_DISK_FULL, "full"))
		nodes := map[string]*fakenode.Node{"a:1": fakenode.New(t, only(enqueueMethod, full))}
		addrs := []string{"a:1", "b:1", "c:1", "d:1", "e:1"}
		for _, a := range addrs[1:] {
			nodes[a] = fakenode.New(t, only(enqueueMethod, accept))
		}
		for range 100 {
			if _, err := openAll(t, nodes, addrs).Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
		}
		for _, a := range addrs[1:] {
			if n := len(nodes[a].Seen(enqueueMethod)); n < 5 {
				t.Errorf("%s has %d of 100", a, n)
			}
		}
	})
}

// TestALonelyNodeIsLeft: one that is cut off from the others takes a while to say so, for
// some tasks or for all; what was done elsewhere begins there from then on.
func TestALonelyNodeIsLeft(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cut := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "cut off")
		cut.Guarantee, cut.Effect = "durable copies", nornv1.Effect_EFFECT_UNKNOWN
		lonely := func(r fakenode.Request) fakenode.Answer {
			a := accept(r)
			a.Message.(*nornv1.EnqueueReply).Results[0] = &nornv1.EnqueueResult{Error: cut.Proto()}
			return a
		}
		for name, answer := range map[string]func(fakenode.Request) fakenode.Answer{"by task": lonely, "as a whole": refuse(cut)} {
			a, b := fakenode.New(t, only(enqueueMethod, answer)), fakenode.New(t, only(enqueueMethod, accept))
			c := openAll(t, map[string]*fakenode.Node{"a:1": a, "b:1": b}, []string{"a:1", "b:1"})
			for range 5 {
				if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
					t.Fatal(err)
				}
			}
			if x, y := len(a.Seen(enqueueMethod)), len(b.Seen(enqueueMethod)); x != 1 || y != 5 {
				t.Errorf("%s: asked %d and %d times", name, x, y)
			}
		}
	})
}

// TestWhatANodeSaysIsTold: that it has too few others in reach, and not that nobody is at
// the address that was tried after it; whichever was the last one when time ran out.
func TestWhatANodeSaysIsTold(t *testing.T) {
	cut := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "cut off")
	cut.Guarantee = "exclusive claims"
	byTask := func(r fakenode.Request) fakenode.Answer {
		a := accept(r)
		a.Message.(*nornv1.EnqueueReply).Results[0] = &nornv1.EnqueueResult{Error: cut.Proto()}
		return a
	}
	stranger := refuse(proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED, "who are you"))
	for i := range 12 {
		synctest.Test(t, func(t *testing.T) {
			ask := func(s fakenode.Script, dead ...string) error {
				c := openAll(t, map[string]*fakenode.Node{"a:1": fakenode.New(t, s)}, append(dead, "a:1"), WithTimeout(5*time.Second+time.Duration(i)*90*time.Millisecond))
				_, err := c.Enqueue(t.Context(), Task{Queue: "q"})
				return err
			}
			for _, s := range []fakenode.Script{only(enqueueMethod, refuse(cut)), only(enqueueMethod, byTask)} {
				for _, dead := range [][]string{{"b:1"}, {"b:1", "c:1"}} {
					err := ask(s, dead...)
					wantIs(t, err, ErrNoQuorum, ErrUnavailable, ErrDeadline)
					wantIsNot(t, err, fakenode.ErrRefused, ErrUnknown)
				}
			}
			err := ask(stranger, "b:1")
			wantIs(t, err, ErrDeadline)
			if !strings.Contains(err.Error(), "who are you") {
				t.Errorf("it is not said why nobody lets it in: %v", err)
			}
			err = ask(only(enqueueMethod, steps(refuse(cut), hangUp)), "b:1") // long ago
			wantIsNot(t, err, ErrNoQuorum)
		})
	}
}

func TestRetryAfterIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		busy := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "full")
		busy.RetryAfter = 7 * time.Second
		c := open(t, fakenode.New(t, only(enqueueMethod, steps(refuse(busy), accept))))
		began := time.Now()
		if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < 7*time.Second || took > 8*time.Second {
			t.Errorf("tried again after %v", took)
		}
	})
}

func TestNobodyThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := openAll(t, nil, []string{"a:1", "b:1"})
		began := time.Now()
		_, err := c.Enqueue(t.Context(), Task{Queue: "q"})
		wantIs(t, err, ErrUnavailable, ErrDeadline, fakenode.ErrRefused)
		wantIsNot(t, err, ErrUnknown)
		if took := time.Since(began); took < DefaultTimeout-2*time.Second || took > DefaultTimeout+2*time.Second {
			t.Errorf("gave up after %v", took)
		}
	})
}

// TestACallThatIsStillTriedSaysSo: once, after some seconds and long before it gives up.
func TestACallThatIsStillTriedSaysSo(t *testing.T) {
	cut := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "cut off")
	byTask := func(r fakenode.Request) fakenode.Answer {
		a := accept(r)
		a.Message.(*nornv1.EnqueueReply).Results[0] = &nornv1.EnqueueResult{Error: cut.Proto()}
		return a
	}
	for name, tt := range map[string]struct {
		answer fakenode.Script // nil: nobody is there
		says   string
	}{"nobody there": {nil, fakenode.ErrRefused.Error()}, "as a whole": {refuse(cut), "cut off"}, "by task": {byTask, "cut off"}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				nodes := map[string]*fakenode.Node{}
				if tt.answer != nil {
					nodes["a:1"] = fakenode.New(t, only(enqueueMethod, tt.answer))
				}
				var said bytes.Buffer
				c := openAll(t, nodes, []string{"a:1"}, WithLogger(slog.New(slog.NewTextHandler(&said, nil))))
				for _, timeout := range []time.Duration{patience, 2 * patience} {
					said.Reset()
					ctx, cancel := context.WithTimeout(t.Context(), timeout)
					_, err := c.Enqueue(ctx, Task{Queue: "q"})
					cancel()
					wantIs(t, err, ErrDeadline)
					want := 0
					if timeout > patience {
						want = 1
					}
					if got := said.String(); strings.Count(got, "trying again") != want || strings.Contains(got, tt.says) != (want == 1) {
						t.Errorf("in %v it said %q", timeout, got)
					}
				}
			})
		})
	}
}

func TestRefusedAtHello(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, refuse(proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED, "who are you")))
		c := open(t, n, WithAuthToken("secret"))
		began := time.Now()
		_, err := c.Get(t.Context(), id.ID{1})
		wantIs(t, err, ErrUnauthenticated)
		wantIsNot(t, err, ErrUnknown, ErrUnavailable)
		if time.Since(began) > time.Second {
			t.Errorf("took %v", time.Since(began))
		}
		if got := n.Seen(nornv1.Method_METHOD_HELLO)[0].Message.(*nornv1.Hello).GetAuthToken(); got != "secret" {
			t.Errorf("sent token %q", got)
		}
	})
}

// A node that refuses us, because it is of another version or was told another token, is
// one of several: calls go to the others, and begin there from then on.
func TestANodeThatRefusesIsLeft(t *testing.T) {
	for _, kind := range []nornv1.ErrorKind{nornv1.ErrorKind_ERROR_KIND_INCOMPATIBLE, nornv1.ErrorKind_ERROR_KIND_UNAUTHENTICATED} {
		synctest.Test(t, func(t *testing.T) {
			bad := fakenode.New(t, refuse(proto.Refused(kind, "not you")))
			both := func(other fakenode.Script) *Client {
				return openAll(t, map[string]*fakenode.Node{"a:1": bad, "b:1": fakenode.New(t, other)}, []string{"a:1", "b:1"})
			}
			c := both(only(enqueueMethod, accept))
			for range 3 {
				if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
					t.Error(err)
				}
			}
			if n := len(bad.Seen(nornv1.Method_METHOD_HELLO)); n != 1 {
				t.Errorf("asked %d times", n)
			}
			began := time.Now()
			_, err := both(refuse(proto.Refused(kind, "nor here"))).Enqueue(t.Context(), Task{Queue: "q"})
			wantIs(t, err, sentinel(kind))
			if took := time.Since(began); took > time.Second {
				t.Errorf("took %v to see that it is hopeless", took)
			}
		})
	}
}

func TestCancelAndClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, fakenode.New(t, only(enqueueMethod, lose)))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := c.Enqueue(ctx, Task{Queue: "q"})
		wantIs(t, err, ErrCancelled, context.Canceled, ErrUnknown)

		why := errors.New("why")
		caused, end := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { end(why) })
		_, err = c.Enqueue(caused, Task{Queue: "q"})
		wantIs(t, err, ErrCancelled, why, ErrUnknown)

		time.AfterFunc(time.Second, func() { c.Close() })
		_, err = c.Enqueue(context.Background(), Task{Queue: "q"})
		wantIs(t, err, ErrClosed, ErrUnknown)
		_, err = c.Get(context.Background(), id.ID{})
		wantIs(t, err, ErrClosed)
		wantIsNot(t, err, ErrUnknown)
	})
}

func TestDeadlineTravels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := fakenode.New(t, only(enqueueMethod, accept))
		c := open(t, n)
		ctx, cancel := context.WithTimeout(t.Context(), 12*time.Second)
		defer cancel()
		for _, ctx := range []context.Context{ctx, context.Background(), t.Context()} {
			if _, err := c.Enqueue(ctx, Task{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
		}
		seen := n.Seen(enqueueMethod)
		if seen[0].Deadline != 12*time.Second {
			t.Errorf("the server heard of a deadline in %v", seen[0].Deadline)
		}
		for _, r := range seen[1:] {
			if r.Deadline < DefaultTimeout || r.Deadline > DefaultTimeout+sharedFor {
				t.Errorf("the server heard of a deadline in %v", r.Deadline)
			}
		}
	})
}

func TestManyIsSplitAndRepeatedByItem(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const count = 250 // the fake's limit is 100
		asked := map[string]int{}
		n := fakenode.New(t, only(enqueueMethod, func(r fakenode.Request) fakenode.Answer {
			a := accept(r)
			for i, s := range r.Message.(*nornv1.EnqueueRequest).GetTasks() {
				key := string(s.GetPayload())
				asked[key]++
				switch {
				case key == "\x03":
					a.Message.(*nornv1.EnqueueReply).Results[i] = &nornv1.EnqueueResult{Error: proto.Invalid("three").Proto()}
				case key == "\x05" && asked[key] < 3:
					a.Message.(*nornv1.EnqueueReply).Results[i] = &nornv1.EnqueueResult{Error: proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "five").Proto()}
				}
			}
			return a
		}))
		c := open(t, n)
		tasks := make([]Task, count)
		for i := range tasks {
			tasks[i] = Task{Queue: "q", Payload: bytes.Repeat([]byte{byte(i)}, 1+i/256)}
		}
		results, err := c.EnqueueMany(t.Context(), tasks)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			if i == 3 {
				wantIs(t, r.Err, ErrInvalid)
			} else if r.Err != nil || r.Receipt == nil {
				t.Errorf("item %d: %v", i, r.Err)
			}
		}
		if asked["\x03"] != 1 || asked["\x05"] != 3 || asked["\x06"] != 1 {
			t.Errorf("asked %d, %d, %d times", asked["\x03"], asked["\x05"], asked["\x06"])
		}
		for i, r := range n.Seen(enqueueMethod) {
			if got := len(r.Message.(*nornv1.EnqueueRequest).GetTasks()); got > 100 {
				t.Errorf("request %d has %d tasks", i, got)
			}
		}
		if tasks[0].ID != (id.ID{}) {
			t.Error("the caller's tasks were changed")
		}
	})
}

// A task that cannot even be sent does no harm to the others.
func TestManyWithOneTooLarge(t *testing.T) {
	c := open(t, fakenode.New(t, only(enqueueMethod, accept)))
	tasks := []Task{{Queue: "q"}, {Queue: "q", Payload: make([]byte, proto.MaxFrame)}, {Queue: "q"}}
	results, err := c.EnqueueMany(t.Context(), tasks)
	if err != nil {
		t.Fatal(err)
	}
	if results[0].Err != nil || results[2].Err != nil {
		t.Errorf("the others: %v, %v", results[0].Err, results[2].Err)
	}
	wantIs(t, results[1].Err, ErrInvalid)
	wantIsNot(t, results[1].Err, ErrUnknown)
	_, err = c.Enqueue(t.Context(), tasks[1])
	wantIs(t, err, ErrInvalid)
}
