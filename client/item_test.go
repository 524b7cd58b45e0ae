package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/norn-dev/norn/client/internal/fakenode"
	"github.com/norn-dev/norn/id"
	"github.com/norn-dev/norn/proto"
	nornv1 "github.com/norn-dev/norn/proto/norn/v1"
)

// perhaps is what a node says that does not know whether others have it.
func perhaps() *proto.Error {
	e := proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "too few answer")
	e.Effect = nornv1.Effect_EFFECT_UNKNOWN
	return e
}

// saying answers an enqueue of one task with an error of the task's.
func saying(e *proto.Error) fakenode.Script {
	return func(fakenode.Request) fakenode.Answer {
		return fakenode.Answer{Message: &nornv1.EnqueueReply{Results: []*nornv1.EnqueueResult{{Error: e.Proto()}}}}
	}
}

// TestWhatIsKnownOfAnItem: what an earlier attempt may have done is unknown until an answer
// says that it did not.
func TestWhatIsKnownOfAnItem(t *testing.T) {
	conflict := proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "draining")
	other := proto.Refused(nornv1.ErrorKind_ERROR_KIND_ALREADY_EXISTS, "another spec")
	bug := &proto.Error{Kind: nornv1.ErrorKind_ERROR_KIND_INTERNAL, Message: "bug", Effect: nornv1.Effect_EFFECT_UNKNOWN}
	for _, tt := range []struct {
		name    string
		script  fakenode.Script
		is      error
		unknown bool
	}{
		{"refused", saying(conflict), ErrConflict, false},
		{"perhaps, then refused", steps(saying(perhaps()), saying(conflict)), ErrConflict, true},
		{"perhaps, then another one's", steps(saying(perhaps()), saying(other)), ErrAlreadyExists, false},
		{"lost, then refused", steps(hangUp, saying(conflict)), ErrConflict, true},
		{"lost, then another one's", steps(hangUp, saying(other)), ErrAlreadyExists, false},
		{"a bug", saying(bug), ErrInternal, true},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, err := open(t, fakenode.New(t, only(enqueueMethod, tt.script))).Enqueue(t.Context(), Task{Queue: "q"})
			wantIs(t, err, tt.is)
			if e, is := err.(*Error); !is || e.Unknown != tt.unknown {
				t.Errorf("%s: unknown is %v: %v", tt.name, !tt.unknown, err)
			}
		})
	}
}

// TestWhatIsKnownOfItemsWhenTimeIsOver: those that were sent and not answered are unknown, so
// are those that were before; those that were not sent are not, and none looks accepted.
func TestWhatIsKnownOfItemsWhenTimeIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		requests := 0
		n := fakenode.New(t, only(enqueueMethod, func(r fakenode.Request) fakenode.Answer {
			if requests++; requests > 3 {
				return fakenode.Answer{Lose: true}
			}
			a := accept(r)
			for i, s := range r.Message.(*nornv1.EnqueueRequest).GetTasks() {
				switch string(s.GetPayload()) {
				case "perhaps":
					a.Message.(*nornv1.EnqueueReply).Results[i] = &nornv1.EnqueueResult{Error: perhaps().Proto()}
				case "no":
					a.Message.(*nornv1.EnqueueReply).Results[i] = &nornv1.EnqueueResult{Error: proto.Refused(nornv1.ErrorKind_ERROR_KIND_UNAVAILABLE, "no").Proto()}
				}
			}
			return a
		}))
		// The limit of the fake is 100: of three requests that are answered, 102 tasks are sent
		// again, 100 of them in the request that is lost.
		tasks := make([]Task, 300)
		for i := range tasks {
			tasks[i] = Task{Queue: "q", Payload: []byte("yes")}
			switch {
			case i == 0, i == 298:
				tasks[i].Payload = []byte("perhaps")
			case i >= 100 && i < 199, i == 299:
				tasks[i].Payload = []byte("no")
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		results, err := open(t, n).EnqueueMany(ctx, tasks)
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range results {
			again := i == 0 || i >= 100 && i < 199 || i >= 298
			switch e, _ := r.Err.(*Error); {
			case !again && (r.Err != nil || r.Receipt == nil), again && e == nil:
				t.Errorf("item %d: %v, %v", i, r.Receipt, r.Err)
			case again && e.Unknown != (i != 299):
				t.Errorf("item %d: unknown is %v: %v", i, e.Unknown, e)
			}
		}
	})
}

// TestAServerThatIsBusyIsLeftAlone: for as long as it says, also where there are others, and
// where it says so of a task.
func TestAServerThatIsBusyIsLeftAlone(t *testing.T) {
	busy := proto.Refused(nornv1.ErrorKind_ERROR_KIND_OVERLOADED, "full")
	busy.RetryAfter = 3 * time.Second
	for name, s := range map[string]fakenode.Script{"whole": refuse(busy), "item": saying(busy)} {
		synctest.Test(t, func(t *testing.T) {
			script := only(enqueueMethod, steps(s, accept))
			n := fakenode.New(t, script)
			c := openAll(t, map[string]*fakenode.Node{"a:1": n, "b:1": n}, []string{"a:1", "b:1"})
			began := time.Now()
			if _, err := c.Enqueue(t.Context(), Task{Queue: "q"}); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took < 3*time.Second {
				t.Errorf("%s: asked again after %v", name, took)
			}
		})
	}
}

// TestDurabilityTravels with each kind of write that has one.
func TestDurabilityTravels(t *testing.T) {
	n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
		if r.Method == enqueueMethod {
			return accept(r)
		}
		return ok(r)
	})
	c := open(t, n)
	_, err := c.Enqueue(t.Context(), Task{Queue: "q"}, WithDurability(All))
	if err == nil {
		_, err = c.EnqueueMany(t.Context(), []Task{{Queue: "q"}, {Queue: "q"}}, WithDurability(All))
	}
	if err == nil {
		_, err = c.Enqueue(t.Context(), Task{Queue: "q", Headers: map[string]string{"a": "b"}}, WithDurability(Copies(2)))
	}
	if err == nil {
		_, err = c.Complete(t.Context(), id.ID{1}, 1, CompleteOptions{}, WithDurability(All))
	}
	if err != nil {
		t.Fatal(err)
	}
	all, two := nornv1.WriteLevel_WRITE_LEVEL_ALL, nornv1.WriteLevel_WRITE_LEVEL_COUNT
	for i, r := range n.Seen(enqueueMethod) {
		d := r.Message.(*nornv1.EnqueueRequest).GetDurability()
		if want := []nornv1.WriteLevel{all, all, two}[i]; d.GetLevel() != want || want == two && d.GetCopies() != 2 {
			t.Errorf("enqueue %d waits for %v", i, d)
		}
	}
	if d := n.Seen(nornv1.Method_METHOD_COMPLETE)[0].Message.(*nornv1.CompleteRequest).GetDurability(); d.GetLevel() != all {
		t.Errorf("a completion waits for %v", d)
	}
}

// TestRequestsStayWithinTheLimits: of bytes, as the server says, and of dependencies.
func TestRequestsStayWithinTheLimits(t *testing.T) {
	n := fakenode.New(t, func(r fakenode.Request) fakenode.Answer {
		if r.Method == enqueueMethod {
			return accept(r)
		}
		return ok(r)
	})
	c := open(t, n)
	large := make([]byte, 400<<10) // the fake takes 1 MiB
	var tasks []Task
	var done []*nornv1.Completion
	for i := range 5 {
		tasks = append(tasks, Task{Queue: "q", Payload: large})
		done = append(done, &nornv1.Completion{Id: id.ID{byte(i)}.Bytes(), Token: 1, Result: large})
	}
	deps := make([]id.ID, proto.MaxBatchDependencies/2)
	for range 3 {
		tasks = append(tasks, Task{Queue: "q", Dependencies: deps})
	}
	for _, r := range mustMany(t)(c.EnqueueMany(t.Context(), tasks)) {
		if r.Err != nil {
			t.Error(r.Err)
		}
	}
	mustMany(t)(c.CompleteMany(t.Context(), done))
	for _, r := range n.Seen(enqueueMethod) {
		bytes, deps := 0, 0
		for _, s := range r.Message.(*nornv1.EnqueueRequest).GetTasks() {
			bytes, deps = bytes+len(s.GetPayload()), deps+len(s.GetDependencies())
		}
		if bytes > 1<<20 || deps > proto.MaxBatchDependencies {
			t.Errorf("an enqueue with %d bytes and %d dependencies", bytes, deps)
		}
	}
	for _, r := range n.Seen(nornv1.Method_METHOD_COMPLETE) {
		if n := len(r.Message.(*nornv1.CompleteRequest).GetCompletions()); n > 2 {
			t.Errorf("%d large results in one request", n)
		}
	}
}

func mustMany(t *testing.T) func([]Result, error) []Result {
	return func(all []Result, err error) []Result {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
}

// TestErrorsStayWithTheirTasks, also where one before them has not got a name.
func TestErrorsStayWithTheirTasks(t *testing.T) {
	n := fakenode.New(t, keyNode(func(r fakenode.Request) fakenode.Answer {
		a := accept(r)
		for i, s := range r.Message.(*nornv1.EnqueueRequest).GetTasks() {
			if len(s.GetPayload()) > 0 {
				a.Message.(*nornv1.EnqueueReply).Results[i] = &nornv1.EnqueueResult{Error: proto.Refused(nornv1.ErrorKind_ERROR_KIND_CONFLICT, "draining").Proto()}
			}
		}
		return a
	}))
	c := open(t, n)
	results := mustMany(t)(c.EnqueueMany(t.Context(), []Task{{Queue: "q", Key: "bad"}, {Queue: "q"}, {Queue: "q", Payload: []byte("x")}}))
	wantIs(t, results[0].Err, ErrInvalid)
	if results[1].Err != nil || results[1].Receipt == nil {
		t.Errorf("the second: %v", results[1].Err)
	}
	wantIs(t, results[2].Err, ErrConflict)
	for _, r := range mustMany(t)(c.EnqueueMany(t.Context(), []Task{{Queue: "q", Key: "bad"}, {Queue: "q", Key: "bad"}})) {
		wantIs(t, r.Err, ErrInvalid)
	}
}

// TestWhatWasNotSentIsNotAccepted: of three requests the second is lost, and the third never
// made.
func TestWhatWasNotSentIsNotAccepted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, fakenode.New(t, only(enqueueMethod, steps(accept, lose))))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for i, r := range mustMany(t)(c.EnqueueMany(ctx, make([]Task, 300))) {
			e, _ := r.Err.(*Error)
			if (e == nil) != (i < 100) || e != nil && e.Unknown != (i < 200) {
				t.Fatalf("item %d: %v, %v", i, r.Receipt, r.Err)
			}
		}
	})
}
